"""Binds libzmq's C functions from the copy that pyzmq has already loaded, so that the process holds only one."""

from posix.dlfcn cimport RTLD_NOW, dlopen, dlsym

import zmq.backend.cython._zmq as _pyzmq

cdef extern from "<dlfcn.h>":
    int RTLD_NOLOAD

VERSION_MIN = (4, 3, 0)


cdef void* _library() except NULL:
    # A look-up in pyzmq's own extension also searches the libzmq that it is linked with, wherever that lies.
    cdef bytes path = _pyzmq.__file__.encode()
    cdef void* library = dlopen(path, RTLD_NOW | RTLD_NOLOAD)
    if library == NULL:
        raise ImportError(f"pyzmq's extension {_pyzmq.__file__} is not loaded; reinstall pyzmq")
    return library


cdef void* _function(void* library, bytes name) except NULL:
    cdef void* function = dlsym(library, name)
    if function == NULL:
        raise ImportError(f"pyzmq's libzmq has no {name.decode()}; install pyzmq from a wheel: pip install 'pyzmq>=26'")
    return function


cdef int _bind() except -1:
    cdef void* library = _library()
    libzmq.version = <void (*)(int*, int*, int*) noexcept nogil>_function(library, b"zmq_version")
    libzmq.last_errno = <int (*)() noexcept nogil>_function(library, b"zmq_errno")
    libzmq.strerror = <const char* (*)(int) noexcept nogil>_function(library, b"zmq_strerror")
    libzmq.ctx_new = <void* (*)() noexcept nogil>_function(library, b"zmq_ctx_new")
    libzmq.ctx_set = <int (*)(void*, int, int) noexcept nogil>_function(library, b"zmq_ctx_set")
    libzmq.ctx_term = <int (*)(void*) noexcept nogil>_function(library, b"zmq_ctx_term")
    libzmq.socket = <void* (*)(void*, int) noexcept nogil>_function(library, b"zmq_socket")
    libzmq.close = <int (*)(void*) noexcept nogil>_function(library, b"zmq_close")
    libzmq.setsockopt = <int (*)(void*, int, const void*, size_t) noexcept nogil>_function(library, b"zmq_setsockopt")
    libzmq.getsockopt = <int (*)(void*, int, void*, size_t*) noexcept nogil>_function(library, b"zmq_getsockopt")
    libzmq.bind = <int (*)(void*, const char*) noexcept nogil>_function(library, b"zmq_bind")
    libzmq.connect = <int (*)(void*, const char*) noexcept nogil>_function(library, b"zmq_connect")
    _bind_messages(library)
    return 0


cdef int _bind_messages(void* library) except -1:
    libzmq.msg_init = <int (*)(zmq_msg_t*) noexcept nogil>_function(library, b"zmq_msg_init")
    libzmq.msg_init_size = <int (*)(zmq_msg_t*, size_t) noexcept nogil>_function(library, b"zmq_msg_init_size")
    libzmq.msg_init_data = <int (*)(zmq_msg_t*, void*, size_t, zmq_free_fn, void*) noexcept nogil>_function(
        library, b"zmq_msg_init_data"
    )
    libzmq.msg_close = <int (*)(zmq_msg_t*) noexcept nogil>_function(library, b"zmq_msg_close")
    libzmq.msg_move = <int (*)(zmq_msg_t*, zmq_msg_t*) noexcept nogil>_function(library, b"zmq_msg_move")
    libzmq.msg_copy = <int (*)(zmq_msg_t*, zmq_msg_t*) noexcept nogil>_function(library, b"zmq_msg_copy")
    libzmq.msg_gets = <const char* (*)(const zmq_msg_t*, const char*) noexcept nogil>_function(library, b"zmq_msg_gets")
    libzmq.msg_data = <void* (*)(zmq_msg_t*) noexcept nogil>_function(library, b"zmq_msg_data")
    libzmq.msg_size = <size_t (*)(const zmq_msg_t*) noexcept nogil>_function(library, b"zmq_msg_size")
    libzmq.msg_more = <int (*)(const zmq_msg_t*) noexcept nogil>_function(library, b"zmq_msg_more")
    libzmq.msg_send = <int (*)(zmq_msg_t*, void*, int) noexcept nogil>_function(library, b"zmq_msg_send")
    libzmq.msg_recv = <int (*)(zmq_msg_t*, void*, int) noexcept nogil>_function(library, b"zmq_msg_recv")
    return 0


cdef int raise_zmq_error(object what) except -1:
    cdef int error = libzmq.last_errno()
    raise OSError(error, libzmq.strerror(error).decode(errors="replace"), what)


def version():
    cdef int major = 0, minor = 0, patch = 0
    libzmq.version(&major, &minor, &patch)
    return major, minor, patch


_bind()
if version() < VERSION_MIN:
    raise ImportError(f"libzmq {version()} is too old: 4.3 is needed; pip install --upgrade 'pyzmq>=26'")
