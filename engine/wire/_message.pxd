"""Contents of the rings between the compute thread and the I/O threads: messages, commands, lent buffers."""

from cpython.buffer cimport Py_buffer
from libc.stddef cimport size_t

from riprap.engine.wire._atomics cimport Word
from riprap.engine.wire._zmq cimport zmq_msg_t

cdef enum:
    FRAMES_MAX = 16
    # Part 0 is the peer's identity (empty on a DEALER), part 1 the header, the rest are frames.
    PARTS_MAX = FRAMES_MAX + 2

# What an I/O thread is to do with a message that the compute thread hands over. Arrivals are all SEND.
cdef enum Verb:
    SEND
    CONNECT  # own `socket` as `link` from now on
    DISCONNECT  # close the link's socket, giving what is queued `linger_ms` to leave

cdef struct Message:
    Verb verb
    unsigned int link
    int linger_ms
    int parts
    void* socket
    size_t bytes  # of header and frames
    zmq_msg_t part[1]  # `parts` of them

# The parts are initialised and empty. NULL when memory is out.
cdef Message* message_new(Verb verb, unsigned int link, int parts) noexcept nogil
cdef void message_free(Message* message) noexcept nogil

# Fill an empty part: by copying, or by lending the exporter's memory until libzmq has sent it.
cdef int part_copy(zmq_msg_t* part, const void* data, size_t size) except -1
cdef int part_lend(zmq_msg_t* part, object exporter) except -1

# Release the buffers that libzmq is done with. With the GIL, on any thread.
cdef int release_returned() except -1

cdef Word live_messages
cdef Word live_loans
