"""A bell that wakes one sleeping thread: an eventfd that is written only when the thread has said that it sleeps.

No wake-up is lost: the sleeper announces itself and then looks once more for work; whoever brings work publishes it
and then looks for the announcement. A full fence between the two steps on both sides makes at least one see the other.
"""

from libc.stdint cimport uint64_t

from riprap.engine.wire._atomics cimport Word, exchange, fence, load_relaxed, store_relaxed

cdef extern from "<sys/eventfd.h>" nogil:
    int eventfd(unsigned int value, int flags)
    int EFD_NONBLOCK
    int EFD_CLOEXEC

cdef extern from "<unistd.h>" nogil:
    ssize_t read(int fd, void* buffer, size_t count)
    ssize_t write(int fd, const void* buffer, size_t count)
    int close(int fd)

# Invariant: fd is readable, or about to be, once a ring() found sleeping == 1.
cdef struct Bell:
    Word sleeping
    int fd


cdef inline bint bell_open(Bell* bell) noexcept nogil:
    """False when the process is out of file descriptors."""
    store_relaxed(&bell.sleeping, 0)
    bell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
    return bell.fd >= 0


cdef inline void bell_close(Bell* bell) noexcept nogil:
    if bell.fd >= 0:
        close(bell.fd)
    bell.fd = -1


cdef inline void bell_strike(Bell* bell) noexcept nogil:
    """Make the next sleep end at once, whether or not the thread sleeps now."""
    cdef uint64_t one = 1
    write(bell.fd, &one, sizeof(one))


cdef inline void bell_ring(Bell* bell) noexcept nogil:
    """Call after publishing work, from any thread."""
    fence()
    if load_relaxed(&bell.sleeping) and exchange(&bell.sleeping, 0):
        bell_strike(bell)


cdef inline void bell_announce(Bell* bell) noexcept nogil:
    """Say that this thread is about to sleep; look for work once more after this, then poll the fd."""
    store_relaxed(&bell.sleeping, 1)
    fence()


cdef inline void bell_awake(Bell* bell, bint struck) noexcept nogil:
    """Say that this thread is awake; `struck`: the fd was seen readable."""
    cdef uint64_t count
    store_relaxed(&bell.sleeping, 0)
    if struck:
        read(bell.fd, &count, sizeof(count))
