"""The part of libzmq's C interface (https://libzmq.readthedocs.io, 4.3) that the engine's threads call without the GIL."""

from libc.stddef cimport size_t

cdef enum:
    ZMQ_DEALER = 5
    ZMQ_ROUTER = 6

    ZMQ_DONTWAIT = 1
    ZMQ_SNDMORE = 2

    ZMQ_ROUTING_ID = 5
    ZMQ_FD = 14
    ZMQ_LINGER = 17
    ZMQ_RECONNECT_IVL = 18
    ZMQ_RECONNECT_IVL_MAX = 21
    ZMQ_MAXMSGSIZE = 22
    ZMQ_SNDHWM = 23
    ZMQ_RCVHWM = 24
    ZMQ_LAST_ENDPOINT = 32
    ZMQ_ROUTER_MANDATORY = 33
    ZMQ_TCP_KEEPALIVE = 34
    ZMQ_TCP_KEEPALIVE_CNT = 35
    ZMQ_TCP_KEEPALIVE_IDLE = 36
    ZMQ_TCP_KEEPALIVE_INTVL = 37
    ZMQ_CURVE_SERVER = 47
    ZMQ_CURVE_PUBLICKEY = 48
    ZMQ_CURVE_SECRETKEY = 49
    ZMQ_CURVE_SERVERKEY = 50
    ZMQ_ROUTER_HANDOVER = 56
    ZMQ_HANDSHAKE_IVL = 66
    ZMQ_CONNECT_TIMEOUT = 79
    ZMQ_TCP_MAXRT = 80

    ZMQ_CTX_IO_THREADS = 1
    ZMQ_CTX_MAX_SOCKETS = 2

# 64 bytes, aligned as a pointer; its content is libzmq's.
ctypedef struct zmq_msg_t:
    void* _opaque[8]

ctypedef void (*zmq_free_fn)(void* data, void* hint) noexcept nogil

# Members are named as in zmq.h without their prefix, except zmq_errno, because errno is a macro.
ctypedef struct Libzmq:
    void (*version)(int* major, int* minor, int* patch) noexcept nogil
    int (*last_errno)() noexcept nogil
    const char* (*strerror)(int error) noexcept nogil
    void* (*ctx_new)() noexcept nogil
    int (*ctx_set)(void* context, int option, int value) noexcept nogil
    int (*ctx_term)(void* context) noexcept nogil
    void* (*socket)(void* context, int type) noexcept nogil
    int (*close)(void* socket) noexcept nogil
    int (*setsockopt)(void* socket, int option, const void* value, size_t size) noexcept nogil
    int (*getsockopt)(void* socket, int option, void* value, size_t* size) noexcept nogil
    int (*bind)(void* socket, const char* endpoint) noexcept nogil
    int (*connect)(void* socket, const char* endpoint) noexcept nogil
    int (*msg_init)(zmq_msg_t* message) noexcept nogil
    int (*msg_init_size)(zmq_msg_t* message, size_t size) noexcept nogil
    int (*msg_init_data)(zmq_msg_t* message, void* data, size_t size, zmq_free_fn free, void* hint) noexcept nogil
    int (*msg_close)(zmq_msg_t* message) noexcept nogil
    int (*msg_move)(zmq_msg_t* destination, zmq_msg_t* source) noexcept nogil
    const char* (*msg_gets)(const zmq_msg_t* message, const char* property) noexcept nogil
    int (*msg_copy)(zmq_msg_t* destination, zmq_msg_t* source) noexcept nogil
    void* (*msg_data)(zmq_msg_t* message) noexcept nogil
    size_t (*msg_size)(const zmq_msg_t* message) noexcept nogil
    int (*msg_more)(const zmq_msg_t* message) noexcept nogil
    int (*msg_send)(zmq_msg_t* message, void* socket, int flags) noexcept nogil
    int (*msg_recv)(zmq_msg_t* message, void* socket, int flags) noexcept nogil

cdef Libzmq libzmq

# Raises OSError with libzmq's reason and `what`, the endpoint or call that failed.
cdef int raise_zmq_error(object what) except -1
