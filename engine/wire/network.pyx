"""The network of one worker process: an upstream thread with a ROUTER, a downstream thread with a DEALER per peer.

    peers -> ROUTER -> upstream thread   -> SPSC ring ->  compute thread  -> MPSC ring -> downstream thread -> DEALERs -> peers
             replies <- MPSC ring <----------------------------+------------ SPSC ring <- replies

    neighbours of the same host with whom there is a channel <-> compute thread   (engine/wire/channel.pyx)
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, realloc
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from riprap.engine.wire._atomics cimport Word, exchange, load_acquire, load_relaxed
from riprap.engine.wire._doorbell cimport Doorbell, doorbell_announce, doorbell_awake, doorbell_ring, doorbell_sleep
from riprap.engine.wire._frames cimport pack, unpack
from riprap.engine.wire._message cimport (
    CONNECT, DISCONNECT, Message, live_loans, live_messages, message_free, message_new, release_returned,
)
from riprap.engine.wire._pump cimport (
    BUSY_BYTES, MESSAGE_WEIGHT_BYTES, NO_HEADER, STRANGER, TOO_LARGE, TOO_MANY_FRAMES, UNROUTABLE, Pump, pump_adopt,
    pump_destroy, pump_new, pump_offer, pump_poll, pump_start, pump_stop, pump_unstall,
)
from riprap.engine.wire._zmq cimport (
    ZMQ_CONNECT_TIMEOUT, ZMQ_CTX_IO_THREADS, ZMQ_CTX_MAX_SOCKETS, ZMQ_CURVE_PUBLICKEY, ZMQ_CURVE_SECRETKEY,
    ZMQ_CURVE_SERVER, ZMQ_CURVE_SERVERKEY, ZMQ_DEALER, ZMQ_HANDSHAKE_IVL, ZMQ_LAST_ENDPOINT, ZMQ_LINGER, ZMQ_MAXMSGSIZE,
    ZMQ_RCVHWM, ZMQ_RECONNECT_IVL, ZMQ_RECONNECT_IVL_MAX, ZMQ_ROUTER, ZMQ_ROUTER_HANDOVER, ZMQ_ROUTER_MANDATORY,
    ZMQ_ROUTING_ID, ZMQ_SNDHWM, ZMQ_TCP_KEEPALIVE, ZMQ_TCP_KEEPALIVE_CNT, ZMQ_TCP_KEEPALIVE_IDLE,
    ZMQ_TCP_KEEPALIVE_INTVL, ZMQ_TCP_MAXRT, libzmq, raise_zmq_error,
)
from riprap.engine.wire.arena cimport Arena
from riprap.engine.wire.channel cimport Channel, End, channel_ready
from riprap.engine.wire.trace cimport Trace

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from * nogil:
    """
    #ifdef RIPRAP_DEBUG
    #define RIPRAP_IS_DEBUG 1
    #else
    #define RIPRAP_IS_DEBUG 0
    #endif
    """
    bint RIPRAP_IS_DEBUG

from riprap.engine.wire._frames import DOWNSTREAM, UPSTREAM, Frame

cdef enum:
    COMMAND_CAPACITY = 4096
    RECEIVE_BATCH_MAX = 256
    IDENTITY_BYTES_MAX = 255
    SOCKETS_MAX = 16384
    # Arrivals of one peer that wait in libzmq while the ring is full; beyond, the peer's own socket fills up.
    ROUTER_RCVHWM = 1000
    # A peer may bind a moment later than we connect: libzmq's default of 100 ms would show in every restart.
    RECONNECT_MS_MIN = 5
    RECONNECT_MS_MAX = 250
    # A host that vanished without a word is noticed after 10 + 3 * 5 seconds.
    KEEPALIVE_IDLE_S = 10
    KEEPALIVE_INTERVAL_S = 5
    KEEPALIVE_PROBES = 3
    # A connection whose peer's host acknowledges nothing for so long is made anew. TCP by itself would try ever more
    # seldom: once a cut has healed, for about as long again as that lasted. A slow link acknowledges all the same.
    UNHEARD_MS = 3000
    HANDSHAKE_MS = 10000  # who connects and then says nothing is dropped after this; our own may be starved for long
    KEY_CHARACTERS = 40  # of Z85

cdef double WAIT_MS_MAX = 1e9
cdef int open_networks = 0


@cython.no_gc_clear  # the threads ring the doorbell, which may lie in the arena, until they have ended
cdef class Network:
    cdef void* context
    cdef void* router
    cdef Pump* upstream
    cdef Pump* downstream
    cdef Doorbell* doorbell  # wakes the compute thread
    cdef Doorbell* own_doorbell  # NULL when it lies in the arena
    cdef Arena arena
    cdef Word woken
    cdef dict by_link  # the channels
    cdef dict by_peer
    cdef End** ends  # of all of them
    cdef int end_count
    cdef readonly size_t message_bytes_max
    cdef unsigned int last_link
    cdef size_t moved  # received since the last wait, as Pump.moved
    cdef bint started
    cdef bint closed
    cdef tuple traces  # keeps what the pumps record into
    cdef bytes public_key, secret_key  # None: whoever connects is heard

    def __cinit__(self, size_t max_message_bytes, size_t receive_capacity=4096, Arena arena=None, keys=None):
        global open_networks
        self.closed = True
        if keys is not None:
            self.public_key, self.secret_key = keys
        self.by_link, self.by_peer = {}, {}
        if not 1 <= receive_capacity <= 1 << 20 or receive_capacity & (receive_capacity - 1):
            raise ValueError(f"receive_capacity is a power of two up to 2**20, not {receive_capacity}")
        if not 1 <= max_message_bytes <= 1 << 40:
            raise ValueError(f"max_message_bytes is 1 to 2**40, not {max_message_bytes}")
        self.message_bytes_max = max_message_bytes
        self._hang_doorbell(arena)
        self.upstream = pump_new(self.doorbell, 0, max_message_bytes, receive_capacity, COMMAND_CAPACITY)
        self.downstream = pump_new(self.doorbell, 1, max_message_bytes, receive_capacity, COMMAND_CAPACITY)
        self._open_context()
        self.closed = False
        open_networks += 1

    def __dealloc__(self):
        global open_networks
        if not self.closed:
            self._shut(0)
            open_networks -= 1
        elif self.context != NULL:
            libzmq.ctx_term(self.context)
        pump_destroy(self.upstream)
        pump_destroy(self.downstream)
        free(self.own_doorbell)
        free(self.ends)

    cdef int _hang_doorbell(self, Arena arena) except -1:
        """Hang it where neighbours can ring, if there is a place."""
        self.arena = arena
        if arena is not None:
            self.doorbell = arena.doorbell()
            return 0
        self.doorbell = self.own_doorbell = <Doorbell*>calloc(1, sizeof(Doorbell))
        if self.doorbell == NULL:
            raise MemoryError
        return 0

    cdef int _open_context(self) except -1:
        self.context = libzmq.ctx_new()
        if self.context == NULL:
            raise_zmq_error("context")
        libzmq.ctx_set(self.context, ZMQ_CTX_IO_THREADS, 1)
        libzmq.ctx_set(self.context, ZMQ_CTX_MAX_SOCKETS, SOCKETS_MAX)
        self.router = self._new_socket(ZMQ_ROUTER)
        set_int(self.router, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS)
        if self.secret_key is not None:
            try:
                self._be_server()
            except BaseException:
                libzmq.close(self.router)  # or the context would wait for it
                raise
        set_int(self.router, ZMQ_RCVHWM, ROUTER_RCVHWM)
        # An unroutable reply is then an error that the upstream thread counts, instead of a silent drop.
        set_int(self.router, ZMQ_ROUTER_MANDATORY, 1)
        # A peer whose connection broke comes again under its name while some of what it sent before is still unread:
        # libzmq would hold that against it, and hear nothing of it any more.
        set_int(self.router, ZMQ_ROUTER_HANDOVER, 1)
        if not pump_adopt(self.upstream, 0, self.router):
            libzmq.close(self.router)
            raise MemoryError
        return 0

    cdef int _be_server(self) except -1:
        """Let nobody in who does not know our public key."""
        if set_int(self.router, ZMQ_CURVE_SERVER, 1) != 0:
            raise_zmq_error("libzmq without CURVE")
        set_key(self.router, ZMQ_CURVE_SECRETKEY, self.secret_key)
        return 0

    cdef void* _new_socket(self, int type) except NULL:
        """A socket without a bound on what it queues to send: the windows of the links bound that."""
        cdef void* socket = libzmq.socket(self.context, type)
        if socket == NULL:
            raise_zmq_error("socket")
        # libzmq drops the connection when a frame is over its limit, before reading it. Twice the bound leaves
        # messages that are only somewhat too large to be read, dropped and counted.
        cdef int64_t frame_bytes_max = 2 * <int64_t>self.message_bytes_max
        libzmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_bytes_max, sizeof(frame_bytes_max))
        set_int(socket, ZMQ_LINGER, 0)
        set_int(socket, ZMQ_SNDHWM, 0)
        set_int(socket, ZMQ_TCP_KEEPALIVE, 1)
        set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S)
        set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_INTERVAL_S)
        set_int(socket, ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_PROBES)
        set_int(socket, ZMQ_TCP_MAXRT, UNHEARD_MS)
        return socket

    cdef int _check_open(self) except -1:
        if self.closed:
            raise RuntimeError("the network is closed")
        return 0

    def bind(self, str endpoint):
        self._check_open()
        if self.started:
            raise RuntimeError("bind before start: afterwards the socket belongs to the upstream thread")
        check_transport(endpoint)
        cdef char real[512]
        cdef size_t size = sizeof(real)
        if libzmq.bind(self.router, endpoint.encode()) != 0:
            raise_zmq_error(endpoint)
        if libzmq.getsockopt(self.router, ZMQ_LAST_ENDPOINT, real, &size) != 0:
            raise_zmq_error(endpoint)
        return real[:size - 1].decode()

    def listener(self):
        self._check_open()
        if self.started:
            raise RuntimeError("before start: afterwards the socket belongs to the upstream thread")
        self.upstream.guarded = True
        return <size_t>self.context, <size_t>self.router

    def trace(self, Trace upstream not None, Trace downstream not None):
        self._check_open()
        if self.started:
            raise RuntimeError("trace before start: afterwards the threads would not see it")
        self.traces = (upstream, downstream)
        self.upstream.spans = &upstream.spans
        self.downstream.spans = &downstream.spans

    def start(self):
        self._check_open()
        if self.started:
            raise RuntimeError("the network is started already")
        pump_start(self.upstream, "upstream")
        self.started = True
        pump_start(self.downstream, "downstream")

    def close(self, int linger_ms=0):
        global open_networks
        if self.closed:
            return
        if linger_ms < 0:
            raise ValueError("linger_ms is bounded: 0 or more")
        self.closed = True
        self.by_link, self.by_peer, self.end_count = {}, {}, 0
        with nogil:
            self._shut(linger_ms)
        release_returned()
        open_networks -= 1
        if RIPRAP_IS_DEBUG and open_networks == 0:
            assert load_relaxed(&live_messages) == 0, "message structs leaked"
            assert load_relaxed(&live_loans) == 0, "lent buffers leaked"

    cdef void _shut(self, int linger_ms) noexcept nogil:
        pump_stop(self.upstream, linger_ms)
        pump_stop(self.downstream, linger_ms)
        while libzmq.ctx_term(self.context) != 0:
            pass  # interrupted by a signal
        self.context = NULL

    def connect(self, str endpoint, bytes identity, bytes server=None):
        self._check_open()
        if (server is None) != (self.secret_key is None):
            raise ValueError("a network with a key of its own connects to the holder of another, and only that does")
        check_transport(endpoint)
        cdef Py_ssize_t size = len(identity)
        if not 1 <= size <= IDENTITY_BYTES_MAX or identity[0] == 0:
            raise ValueError(f"an identity is 1 to {IDENTITY_BYTES_MAX} bytes and does not begin with a zero byte")
        cdef Message* command = message_new(CONNECT, self.last_link + 1, 0)
        if command == NULL:
            raise MemoryError
        try:
            command.socket = self._new_socket(ZMQ_DEALER)
            set_int(command.socket, ZMQ_RCVHWM, 0)
            set_int(command.socket, ZMQ_RECONNECT_IVL, RECONNECT_MS_MIN)
            set_int(command.socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MAX)
            set_int(command.socket, ZMQ_CONNECT_TIMEOUT, UNHEARD_MS)
            libzmq.setsockopt(command.socket, ZMQ_ROUTING_ID, PyBytes_AS_STRING(identity), size)
            if self.secret_key is not None:
                set_key(command.socket, ZMQ_CURVE_PUBLICKEY, self.public_key)
                set_key(command.socket, ZMQ_CURVE_SECRETKEY, self.secret_key)
                set_key(command.socket, ZMQ_CURVE_SERVERKEY, server)
            if libzmq.connect(command.socket, endpoint.encode()) != 0:
                raise_zmq_error(endpoint)
        except BaseException:
            message_free(command)
            raise
        self._command(command)
        self.last_link += 1
        return self.last_link

    def disconnect(self, unsigned int link, int linger_ms=0):
        self._check_open()
        self.detach(link)
        cdef Message* command = message_new(DISCONNECT, link, 0)
        if command == NULL:
            raise MemoryError
        command.linger_ms = linger_ms
        self._command(command)

    cdef int _command(self, Message* command) except -1:
        if not pump_offer(self.downstream, command):
            message_free(command)
            raise BlockingIOError("the downstream thread has too much to do; try again")
        return 0

    def attach(self, Channel channel not None):
        self._check_open()
        if channel.origin == DOWNSTREAM:
            self.by_link[channel.sender] = channel
        else:
            self.by_peer[channel.sender] = channel
        self._note_ends()

    def detach(self, sender):
        self.by_link.pop(sender, None)
        self.by_peer.pop(sender, None)
        self._note_ends()

    cdef int _note_ends(self) except -1:
        cdef int count = len(self.by_link) + len(self.by_peer)
        cdef End** ends = <End**>realloc(self.ends, max(1, count) * sizeof(End*))
        if ends == NULL:
            raise MemoryError
        self.ends, self.end_count = ends, 0
        for channel in (*self.by_link.values(), *self.by_peer.values()):
            self.ends[self.end_count] = &(<Channel>channel).end
            self.end_count += 1
        return 0

    def send(self, unsigned int link, bytes header, frames=()):
        self._check_open()
        channel = self.by_link.get(link)
        if channel is not None:
            return (<Channel>channel).offer(header, frames)
        release_returned()
        return self._offer(self.downstream, pack(link, b"", header, frames, self.message_bytes_max))

    def reply(self, bytes peer, bytes header):
        self._check_open()
        channel = self.by_peer.get(peer)
        if channel is not None:
            return (<Channel>channel).offer(header, ())
        return self._offer(self.upstream, pack(0, peer, header, (), self.message_bytes_max))

    cdef bint _offer(self, Pump* pump, Message* message) except -1:
        if pump_offer(pump, message):
            return True
        message_free(message)
        release_returned()
        return False

    def receive(self, double timeout_ms=0.0):
        self._check_open()
        if not timeout_ms >= 0:
            raise ValueError(f"timeout_ms is 0 or more, not {timeout_ms}")
        release_returned()
        cdef list batch = self._collect()
        if batch or timeout_ms == 0:
            return batch
        cdef double deadline = now_ms() + min(timeout_ms, WAIT_MS_MAX)
        while not batch and self._wait(deadline):
            PyErr_CheckSignals()
            self._check_open()
            batch = self._collect()
        release_returned()
        return batch

    cdef list _collect(self):
        """Messages that came, replies first, at most a batch of each."""
        cdef list batch = []
        self._collect_from(self.downstream, DOWNSTREAM, batch)
        self._collect_from(self.upstream, UPSTREAM, batch)
        if self.end_count > 0:
            self._collect_from_channels(self.by_link, batch)
            self._collect_from_channels(self.by_peer, batch)
        return batch

    cdef int _collect_from_channels(self, dict channels, list batch) except -1:
        for channel in channels.values():
            if channel_ready(&(<Channel>channel).end):
                self.moved += MESSAGE_WEIGHT_BYTES * (<Channel>channel).turn(batch, RECEIVE_BATCH_MAX)
        return 0

    cdef int _collect_from(self, Pump* pump, object origin, list batch) except -1:
        cdef Message* message
        cdef int count = 0
        while count < RECEIVE_BATCH_MAX:
            message = pump_poll(pump)
            if message == NULL:
                break
            self.moved += message.bytes + MESSAGE_WEIGHT_BYTES
            try:
                batch.append(unpack(message, origin))
            finally:
                message_free(message)
            count += 1
        if count > 0:
            pump_unstall(pump)
        return 0

    cdef bint _wait(self, double deadline) noexcept:
        """Sleep until something may have arrived; False when the time is over or wake() was called."""
        cdef double left_ms = deadline - now_ms()
        cdef timespec timeout
        if exchange(&self.woken, 0) or left_ms <= 0:
            return False
        cdef bint busy = self.moved >= BUSY_BYTES
        self.moved = 0
        timeout.tv_sec = <long>(left_ms / 1000)
        timeout.tv_nsec = <long>((left_ms - timeout.tv_sec * 1000.0) * 1e6)
        with nogil:
            if busy:
                sched_yield()  # as the pumps do, for the same reason
                if self._arrived():
                    return True
            doorbell_announce(self.doorbell)
            if not self._arrived() and not load_acquire(&self.woken):
                doorbell_sleep(self.doorbell, &timeout)
            doorbell_awake(self.doorbell)
        return True

    cdef bint _arrived(self) noexcept nogil:
        cdef int i
        for i in range(self.end_count):
            if channel_ready(self.ends[i]):
                return True
        return arrived(self.upstream) or arrived(self.downstream)

    def wake(self):
        if not self.closed:
            exchange(&self.woken, 1)
            doorbell_ring(self.doorbell)

    def counters(self):
        return {
            "upstream": traffic(self.upstream),
            "downstream": traffic(self.downstream),
            "channels": channel_traffic([*self.by_link.values(), *self.by_peer.values()]),
            "dropped": {
                "too_many_frames": self._dropped(TOO_MANY_FRAMES),
                "too_large": self._dropped(TOO_LARGE),
                "no_header": self._dropped(NO_HEADER),
                "unroutable": self._dropped(UNROUTABLE),
                "stranger": self._dropped(STRANGER),
            },
        }

    cdef size_t _dropped(self, int reason):
        return load_relaxed(&self.upstream.traffic.dropped[reason]) + load_relaxed(
            &self.downstream.traffic.dropped[reason]
        )


cdef int set_int(void* socket, int option, int value) noexcept nogil:
    return libzmq.setsockopt(socket, option, &value, sizeof(value))


cdef int set_key(void* socket, int option, bytes key) except -1:
    # Not ignored: a socket without its key would talk to anybody.
    if len(key) != KEY_CHARACTERS:
        raise ValueError(f"a key is {KEY_CHARACTERS} characters of Z85")
    if libzmq.setsockopt(socket, option, PyBytes_AS_STRING(key), KEY_CHARACTERS + 1) != 0:
        raise_zmq_error("a key that libzmq does not take")
    return 0


cdef int check_transport(str endpoint) except -1:
    # inproc would hand lent buffers to their own process, and the other transports are not built for this use.
    if not endpoint.startswith(("ipc://", "tcp://")):
        raise ValueError(f"{endpoint!r} is not an endpoint; expected ipc://PATH, ipc://@NAME or tcp://HOST:PORT")
    port = endpoint.rpartition(":")[2]
    # libzmq would quietly use the number modulo 2**16.
    if endpoint.startswith("tcp://") and port.isdecimal() and int(port) > 65535:
        raise ValueError(f"{endpoint!r} has a port over 65535")
    return 0


cdef bint arrived(Pump* pump) noexcept nogil:
    return load_acquire(&pump.arrivals.tail) != load_relaxed(&pump.arrivals.head)


cdef dict traffic(Pump* pump):
    return {
        "messages_in": load_relaxed(&pump.traffic.messages_in),
        "bytes_in": load_relaxed(&pump.traffic.bytes_in),
        "messages_out": load_relaxed(&pump.traffic.messages_out),
        "bytes_out": load_relaxed(&pump.traffic.bytes_out),
    }


cdef dict channel_traffic(list channels):
    names = ("messages_in", "bytes_in", "messages_out", "bytes_out")
    found = {name: sum([getattr(channel, name) for channel in channels]) for name in names}
    return found | {"broken": sum([channel.is_broken for channel in channels])}


cdef double now_ms() noexcept nogil:
    cdef timespec time
    clock_gettime(CLOCK_MONOTONIC, &time)
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6
