"""Runs an I/O thread: one loop, in C, without the GIL, the same for the upstream and the downstream thread.

Everything from the network is checked here before anyone sees it: the number of frames, their sizes, the header.

A sleeping pump polls the bell and each socket's ZMQ_FD. That fd is edge-triggered (zmq_getsockopt(3), ZMQ_FD): after
a send it may stay silent although something arrived, hence Link.maybe_ready. This costs one system call per sleep,
where zmq_poll makes at least one more per socket.
"""

from libc.errno cimport errno
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memmove, strlen

from riprap.engine.wire._atomics cimport Word, exchange, fence, load_acquire, load_relaxed, store_relaxed, store_release
from riprap.engine.wire._bell cimport bell_announce, bell_awake, bell_close, bell_open, bell_ring, bell_strike
from riprap.engine.wire._doorbell cimport doorbell_ring
from riprap.engine.wire._message cimport CONNECT, DISCONNECT, SEND, Verb, message_free, message_new
from riprap.engine.wire._zmq cimport ZMQ_DONTWAIT, ZMQ_FD, ZMQ_LINGER, ZMQ_SNDMORE, libzmq
from riprap.engine.wire.rings cimport (
    mpsc_close, mpsc_offer, mpsc_open, mpsc_peek, mpsc_poll, mpsc_ready, spsc_close, spsc_offer, spsc_open, spsc_poll,
)
from riprap.engine.wire.trace cimport RECEIVING, SENDING, WAITING, Moment, span_begin, span_end

cdef extern from "<pthread.h>" nogil:
    int pthread_create(pthread_t* thread, const void* attributes, void* (*main)(void*) noexcept nogil, void* argument)
    int pthread_join(pthread_t thread, void** result)
    int pthread_setname_np(pthread_t thread, const char* name)

cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int sigfillset(sigset_t* signals)
    int pthread_sigmask(int how, const sigset_t* signals, sigset_t* old)
    int SIG_SETMASK

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from "<poll.h>" nogil:
    int poll(pollfd* fds, unsigned long count, int timeout_ms)

cdef enum:
    # How many commands, or messages of one link, are handled before the others get their turn.
    TURN_MESSAGES = 64
    # What _read made of the socket's next message.
    NONE_THERE = 0
    ACCEPTED = 1
    DROPPED = 2


cdef Pump* pump_new(Doorbell* consumer, int first_part, size_t message_bytes_max, size_t arrivals, size_t commands) except NULL:
    cdef Pump* pump = <Pump*>calloc(1, sizeof(Pump))
    cdef int i
    if pump == NULL:
        raise MemoryError
    for i in range(PARTS_MAX):
        libzmq.msg_init(&pump.scratch[i])
    pump.consumer = consumer
    pump.first_part = first_part
    pump.message_bytes_max = message_bytes_max
    if not bell_open(&pump.bell):
        pump_destroy(pump)
        raise OSError(errno, "no file descriptor for a network thread; raise `ulimit -n`")
    if not (spsc_open(&pump.arrivals, arrivals) and mpsc_open(&pump.commands, commands) and _make_room(pump)):
        pump_destroy(pump)
        raise MemoryError
    return pump


cdef void pump_destroy(Pump* pump) noexcept nogil:
    """Free a pump that was never started, or is stopped; NULL is none."""
    if pump == NULL:
        return
    spsc_close(&pump.arrivals)
    mpsc_close(&pump.commands)
    bell_close(&pump.bell)
    free(pump.links)
    free(pump.fds)
    free(pump)


cdef bint _make_room(Pump* pump) noexcept nogil:
    cdef int room = max(8, 2 * pump.link_room)
    cdef Link* links = <Link*>realloc(pump.links, room * sizeof(Link))
    if links == NULL:
        return False
    pump.links = links
    cdef pollfd* fds = <pollfd*>realloc(pump.fds, (room + 1) * sizeof(pollfd))
    if fds == NULL:
        return False
    fds[0] = pollfd(pump.bell.fd, POLLIN, 0)
    pump.fds = fds
    pump.link_room = room
    return True


cdef bint pump_adopt(Pump* pump, unsigned int link, void* socket) noexcept nogil:
    cdef int fd = -1
    cdef size_t size = sizeof(fd)
    if pump.link_count == pump.link_room and not _make_room(pump):
        return False
    libzmq.getsockopt(socket, ZMQ_FD, &fd, &size)
    pump.links[pump.link_count] = Link(link, socket, True)
    pump.link_count += 1
    pump.fds[pump.link_count] = pollfd(fd, POLLIN, 0)
    return True


cdef int pump_start(Pump* pump, const char* name) except -1:
    """Start the thread with all signals blocked: they belong to the interpreter's main thread."""
    cdef sigset_t everything, old
    sigfillset(&everything)
    pthread_sigmask(SIG_SETMASK, &everything, &old)
    cdef int error = pthread_create(&pump.thread, NULL, _run, pump)
    pthread_sigmask(SIG_SETMASK, &old, NULL)
    if error != 0:
        raise OSError(error, "a network thread could not be started")
    pthread_setname_np(pump.thread, name)
    pump.started = True
    return 0


cdef void pump_stop(Pump* pump, int linger_ms) noexcept nogil:
    pump.linger_ms = linger_ms
    store_release(&pump.stopping, 1)
    if pump.started:
        bell_strike(&pump.bell)
        pthread_join(pump.thread, NULL)
    else:
        _finish(pump)
    cdef Message* message = pump_poll(pump)
    while message != NULL:
        message_free(message)
        message = pump_poll(pump)


cdef bint pump_offer(Pump* pump, Message* message) noexcept nogil:
    if not mpsc_offer(&pump.commands, message):
        return False
    if not (_enter(pump) and _send_all(pump)):
        bell_ring(&pump.bell)
    return True


cdef bint _enter(Pump* pump) noexcept nogil:
    """Begin a turn, unless another thread is at it."""
    return load_relaxed(&pump.turning) == 0 and exchange(&pump.turning, 1) == 0


cdef void _await_turn(Pump* pump) noexcept nogil:
    """Begin a turn as soon as the thread that is at it has ended: it only sends what was queued."""
    while not _enter(pump):
        sched_yield()


cdef void _leave(Pump* pump) noexcept nogil:
    exchange(&pump.turning, 0)  # a full fence, which libzmq asks for


cdef bint _send_all(Pump* pump) noexcept nogil:
    """A turn in the place of a sleeping pump: send what is to be sent, and leave. False when that is not all.

    What a send makes libzmq notice on the socket no longer shows on its fd, so that it is read here too. Only the pump
    itself opens and closes links, for it may be sleeping on their fds.
    """
    cdef Message* command
    cdef Link* link
    cdef bint all_done = pump.started and not load_acquire(&pump.stopping)
    while all_done and mpsc_ready(&pump.commands):
        command = <Message*>mpsc_peek(&pump.commands)
        if command.verb != SEND or pump.pending != NULL:
            all_done = False
            break
        mpsc_poll(&pump.commands)
        link = _send(pump, command)
        message_free(command)
        if link != NULL:
            _gather_link(pump, link)
            all_done = not link.maybe_ready
    _leave(pump)
    return all_done


cdef Message* pump_poll(Pump* pump) noexcept nogil:
    return <Message*>spsc_poll(&pump.arrivals)


cdef void pump_unstall(Pump* pump) noexcept nogil:
    fence()
    if load_relaxed(&pump.stalled) and exchange(&pump.stalled, 0):
        bell_ring(&pump.bell)


cdef void* _run(void* argument) noexcept nogil:
    cdef Pump* pump = <Pump*>argument
    cdef Moment began
    while not load_acquire(&pump.stopping):
        began = span_begin(pump.spans)
        if not _turn(pump, began):
            _sleep(pump)
            span_end(pump.spans, WAITING, began)
    _await_turn(pump)
    _finish(pump)
    return NULL


cdef bint _turn(Pump* pump, Moment began) noexcept nogil:
    """Send and read what there is; whether that was anything."""
    cdef int sent, received
    if not _enter(pump):
        return False
    sent = _obey(pump)
    if sent > 0:
        began = span_end(pump.spans, SENDING, began)
    received = _gather(pump)
    if received > 0:
        span_end(pump.spans, RECEIVING, began)
    _leave(pump)
    return sent + received > 0


cdef void _finish(Pump* pump) noexcept nogil:
    cdef int i
    while _obey(pump) > 0:
        pass
    for i in range(pump.link_count):
        _close_socket(pump.links[i].socket, pump.linger_ms)
    pump.link_count = 0
    if pump.pending != NULL:
        message_free(pump.pending)
        pump.pending = NULL


cdef void _close_socket(void* socket, int linger_ms) noexcept nogil:
    libzmq.setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof(linger_ms))
    libzmq.close(socket)


cdef void _sleep(Pump* pump) noexcept nogil:
    """Wait for the bell or a socket; when `arrivals` is full, for the bell only."""
    cdef int count, i
    if pump.moved >= BUSY_BYTES:
        # On busy cores others run first and bring more to do: falling asleep and being woken for every block costs
        # much more CPU time per byte. On idle cores this returns at once.
        pump.moved = 0
        sched_yield()
        if mpsc_ready(&pump.commands):
            return
    pump.moved = 0
    bell_announce(&pump.bell)
    count = _prepare_sleep(pump)
    if count == 0:
        bell_awake(&pump.bell, False)
        return
    if poll(pump.fds, count, -1) < 0:
        count = 0
    bell_awake(&pump.bell, count > 0 and pump.fds[0].revents != 0)
    _await_turn(pump)
    for i in range(1, count):
        if pump.fds[i].revents != 0:
            pump.links[i - 1].maybe_ready = True
    _leave(pump)


cdef int _prepare_sleep(Pump* pump) noexcept nogil:
    """Number of fds to sleep on, the bell's first; 0 when there is something to do."""
    if not _enter(pump):
        sched_yield()
        return 0
    cdef bint stalled = pump.pending != NULL and not _retry_pending(pump)
    cdef bint busy = mpsc_ready(&pump.commands) or load_acquire(&pump.stopping) or (not stalled and _any_ready(pump))
    cdef int count = 1 if stalled else pump.link_count + 1
    _leave(pump)
    return 0 if busy else count


cdef bint _any_ready(Pump* pump) noexcept nogil:
    cdef int i
    for i in range(pump.link_count):
        if pump.links[i].maybe_ready:
            return True
    return False


cdef bint _retry_pending(Pump* pump) noexcept nogil:
    """Offer the pending arrival once more, after announcing that this thread waits for room; whether it fitted."""
    store_relaxed(&pump.stalled, 1)
    fence()
    if not _deliver(pump, pump.pending):
        return False
    store_relaxed(&pump.stalled, 0)
    return True


cdef bint _deliver(Pump* pump, Message* message) noexcept nogil:
    """Pass an arrival on, or keep it as the pending one."""
    if spsc_offer(&pump.arrivals, message):
        pump.pending = NULL
        doorbell_ring(pump.consumer)
        return True
    pump.pending = message
    return False


cdef int _gather(Pump* pump) noexcept nogil:
    """Read what has arrived, a turn of each link; how many messages."""
    cdef int worked = 0
    cdef int at
    if pump.pending != NULL:
        if not _deliver(pump, pump.pending):
            return 0
        worked = 1
    for _ in range(pump.link_count):
        if pump.pending != NULL:
            break
        # Goes on where the last turn ended, or full arrivals would let the first link starve the others.
        at = pump.turn % pump.link_count
        pump.turn = at + 1
        if pump.links[at].maybe_ready:
            worked += _gather_link(pump, &pump.links[at])
    return worked


cdef int _gather_link(Pump* pump, Link* link) noexcept nogil:
    cdef Message* message
    cdef int worked, verdict
    for worked in range(TURN_MESSAGES):
        verdict = _read(pump, link, &message)
        if verdict == NONE_THERE:
            link.maybe_ready = False
            return worked
        if verdict == ACCEPTED and not _deliver(pump, message):
            return worked + 1
    return TURN_MESSAGES


cdef int _read(Pump* pump, Link* link, Message** message) noexcept nogil:
    """Read one whole message through the scratch parts."""
    cdef int n = pump.first_part
    cdef size_t size = 0
    cdef zmq_msg_t* part
    cdef int verdict, i
    while True:
        # A message with too many frames is read to its end into the last part, each frame freeing the one before.
        part = &pump.scratch[min(n, PARTS_MAX - 1)]
        if libzmq.msg_recv(part, link.socket, ZMQ_DONTWAIT) < 0:
            return NONE_THERE  # only ever before the first part: libzmq delivers whole messages
        if n > 0:
            size += libzmq.msg_size(part)
        n = min(n + 1, PARTS_MAX + 1)
        if not libzmq.msg_more(part):
            break
    verdict = _judge(pump, n, size)
    if verdict == ACCEPTED:
        message[0] = _wrap(pump, link.id, n, size)
        if message[0] == NULL:
            verdict = DROPPED
    if verdict == DROPPED:
        for i in range(min(n, PARTS_MAX)):
            libzmq.msg_close(&pump.scratch[i])
            libzmq.msg_init(&pump.scratch[i])
    return verdict


cdef int _judge(Pump* pump, int parts, size_t size) noexcept nogil:
    cdef int reason
    if parts > PARTS_MAX:
        reason = TOO_MANY_FRAMES
    elif size > pump.message_bytes_max:
        reason = TOO_LARGE
    elif parts < 2 or libzmq.msg_size(&pump.scratch[1]) == 0:
        reason = NO_HEADER
    elif pump.guarded and not _is_itself(&pump.scratch[0], &pump.scratch[1]):
        reason = STRANGER
    else:
        return ACCEPTED
    _bump(&pump.traffic.dropped[reason], 1)
    return DROPPED


cdef bint _is_itself(zmq_msg_t* identity, zmq_msg_t* header) noexcept nogil:
    """True when the name that a peer gives itself is that under which the doorkeeper knows its key."""
    cdef const char* name = libzmq.msg_gets(header, "User-Id")
    cdef size_t size = libzmq.msg_size(identity)
    return name != NULL and strlen(name) == size and memcmp(name, libzmq.msg_data(identity), size) == 0


cdef Message* _wrap(Pump* pump, unsigned int link, int parts, size_t size) noexcept nogil:
    """Move the scratch parts into a message of their own; NULL when memory is out."""
    cdef Message* message = message_new(SEND, link, parts)
    cdef int i
    if message == NULL:
        return NULL
    for i in range(parts):
        libzmq.msg_move(&message.part[i], &pump.scratch[i])
    message.bytes = size
    _bump(&pump.traffic.messages_in, 1)
    _bump(&pump.traffic.bytes_in, size)
    pump.moved += size + MESSAGE_WEIGHT_BYTES
    return message


cdef int _obey(Pump* pump) noexcept nogil:
    """Carry out a turn of commands; how many."""
    cdef Message* command
    cdef int worked
    for worked in range(TURN_MESSAGES):
        command = <Message*>mpsc_poll(&pump.commands)
        if command == NULL:
            return worked
        if command.verb == SEND:
            _send(pump, command)
        elif command.verb == CONNECT:
            if pump_adopt(pump, command.link, command.socket):
                command.socket = NULL
        else:
            _disconnect(pump, command.link, command.linger_ms)
        message_free(command)
    return TURN_MESSAGES


cdef Link* _send(Pump* pump, Message* message) noexcept nogil:
    """The link that it was sent on, or could not be; NULL when there is none."""
    cdef int at = _find(pump, message.link)
    cdef int i
    if at < 0:
        _bump(&pump.traffic.dropped[UNROUTABLE], 1)
        return NULL
    pump.links[at].maybe_ready = True
    for i in range(pump.first_part, message.parts):
        if _send_part(message, i, pump.links[at].socket) < 0:
            _bump(&pump.traffic.dropped[UNROUTABLE], 1)
            return &pump.links[at]
    _bump(&pump.traffic.messages_out, 1)
    _bump(&pump.traffic.bytes_out, message.bytes)
    pump.moved += message.bytes + MESSAGE_WEIGHT_BYTES
    return &pump.links[at]


cdef int _send_part(Message* message, int i, void* socket) noexcept nogil:
    """Only the first part of a message can fail: the peer is not there."""
    return libzmq.msg_send(&message.part[i], socket, ZMQ_DONTWAIT | (ZMQ_SNDMORE if i + 1 < message.parts else 0))


cdef void _disconnect(Pump* pump, unsigned int link, int linger_ms) noexcept nogil:
    cdef int at = _find(pump, link)
    if at < 0:
        return
    _close_socket(pump.links[at].socket, linger_ms)
    pump.link_count -= 1
    memmove(&pump.links[at], &pump.links[at + 1], (pump.link_count - at) * sizeof(Link))
    memmove(&pump.fds[at + 1], &pump.fds[at + 2], (pump.link_count - at) * sizeof(pollfd))


cdef int _find(Pump* pump, unsigned int link) noexcept nogil:
    """The link's place among the links; -1 when it is gone."""
    cdef int low = 0
    cdef int high = pump.link_count
    cdef int middle
    while low < high:
        middle = (low + high) // 2
        if pump.links[middle].id < link:
            low = middle + 1
        else:
            high = middle
    return low if low < pump.link_count and pump.links[low].id == link else -1


cdef void _bump(Word* counter, size_t amount) noexcept nogil:
    store_relaxed(counter, load_relaxed(counter) + amount)
