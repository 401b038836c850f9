"""The one shape of an I/O thread: it owns sockets, obeys commands from one ring and puts arrivals into another.

The consumer of its arrivals may do a turn in its place, one of them at a time: libzmq lets a socket pass from thread to
thread with a full fence (zmq_socket(3), thread safety), and waking a thread costs more than sending.
"""

from libc.stddef cimport size_t

from riprap.engine.wire._atomics cimport Word
from riprap.engine.wire._bell cimport Bell
from riprap.engine.wire._doorbell cimport Doorbell
from riprap.engine.wire._message cimport PARTS_MAX, Message
from riprap.engine.wire._zmq cimport zmq_msg_t
from riprap.engine.wire.rings cimport Mpsc, Spsc
from riprap.engine.wire.trace cimport Spans

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int POLLIN

# Why an arrival, or a message to send, was dropped.
cdef enum:
    TOO_MANY_FRAMES
    TOO_LARGE
    NO_HEADER
    UNROUTABLE
    STRANGER
    REASONS

# Written by the pump's thread only.
cdef struct Traffic:
    Word messages_in
    Word bytes_in
    Word messages_out
    Word bytes_out
    Word dropped[REASONS]

# When to give way before a sleep (see _sleep): after moving this much. A message or a few of them, an acknowledgement
# or a ping, go to sleep at once instead: giving way on busy cores can cost them milliseconds.
cdef enum:
    MESSAGE_WEIGHT_BYTES = 2048
    BUSY_BYTES = 16384

cdef struct Link:
    unsigned int id
    void* socket
    # False only after a receive found nothing and no send since: then the socket's fd tells when to look again.
    bint maybe_ready

cdef struct Pump:
    # Shared with other threads.
    Mpsc commands
    Spsc arrivals
    Bell bell  # wakes this thread
    Doorbell* consumer  # wakes the thread that polls `arrivals`
    Word stalled  # this thread waits for room in `arrivals`
    Word stopping
    Word turning  # 1 while a thread, mostly the pump's own, works with what is below
    Traffic traffic
    int linger_ms  # set before `stopping`
    # The pump's own, or its maker's until it is started.
    bint guarded  # whether a doorkeeper says who each peer is
    int first_part  # 0 on a ROUTER, which names the peer in part 0; 1 on a DEALER
    size_t message_bytes_max
    Message* pending  # arrived when `arrivals` was full
    Link* links  # ascending by id
    pollfd* fds  # the bell's, then one per link
    int link_count
    int link_room
    int turn  # the link that is read next
    size_t moved  # bytes since the last sleep, and MESSAGE_WEIGHT_BYTES per message
    zmq_msg_t scratch[PARTS_MAX]
    pthread_t thread
    bint started
    Spans* spans  # where it says what it does; NULL when nobody wants to know

# Raises MemoryError or OSError; close what was opened with pump_destroy.
cdef Pump* pump_new(Doorbell* consumer, int first_part, size_t message_bytes_max, size_t arrivals, size_t commands) except NULL
cdef void pump_destroy(Pump* pump) noexcept nogil

# Own `socket` as `link`; ids must ascend. False when memory is out. Before the start, or on the pump's thread.
cdef bint pump_adopt(Pump* pump, unsigned int link, void* socket) noexcept nogil

cdef int pump_start(Pump* pump, const char* name) except -1
# Send what is queued, give it `linger_ms` to leave, close all sockets, end the thread, free what arrived and nobody
# took. Consumer thread only.
cdef void pump_stop(Pump* pump, int linger_ms) noexcept nogil

# Hand over a message; False when the ring is full: the message is still the caller's then. Consumer thread only.
# A pump that sleeps is not woken for it: the caller sends it itself.
cdef bint pump_offer(Pump* pump, Message* message) noexcept nogil
# Take the oldest arrival or NULL. Consumer thread only; call pump_unstall after the last of a batch.
cdef Message* pump_poll(Pump* pump) noexcept nogil
cdef void pump_unstall(Pump* pump) noexcept nogil
