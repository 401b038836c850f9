"""Opens and closes the rings of rings.pxd, and wraps them for Python objects."""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport calloc, free
from libc.string cimport memset


cdef bint spsc_open(Spsc* ring, size_t capacity) noexcept nogil:
    memset(ring, 0, sizeof(Spsc))
    ring.mask = capacity - 1
    ring.slots = <void**>calloc(capacity, sizeof(void*))
    return ring.slots != NULL


cdef void spsc_close(Spsc* ring) noexcept nogil:
    free(ring.slots)
    ring.slots = NULL


cdef bint mpsc_open(Mpsc* ring, size_t capacity) noexcept nogil:
    memset(ring, 0, sizeof(Mpsc))
    ring.mask = capacity - 1
    ring.slots = <Pointer*>calloc(capacity, sizeof(void*))
    return ring.slots != NULL


cdef void mpsc_close(Mpsc* ring) noexcept nogil:
    free(ring.slots)
    ring.slots = NULL


cdef size_t checked_capacity(object capacity) except 0:
    if not 1 <= capacity <= 1 << 30 or capacity & (capacity - 1):
        raise ValueError(f"a ring's capacity is a power of two up to 2**30, not {capacity}")
    return capacity


cdef object taken(void* item, object default):
    """The polled object, with the reference that the ring held; `default` when nothing was there."""
    if item == NULL:
        return default
    cdef object value = <object>item
    Py_DECREF(value)
    return value


cdef class SpscRing:
    def __cinit__(self, capacity):
        if not spsc_open(&self.ring, checked_capacity(capacity)):
            raise MemoryError

    def __dealloc__(self):
        if self.ring.slots != NULL:
            while taken(spsc_poll(&self.ring), self) is not self:
                pass
            spsc_close(&self.ring)

    def __len__(self):
        return spsc_size(&self.ring)

    def offer(self, item):
        Py_INCREF(item)
        if spsc_offer(&self.ring, <void*>item):
            return True
        Py_DECREF(item)
        return False

    def poll(self, default=None):
        return taken(spsc_poll(&self.ring), default)


cdef class MpscRing:
    def __cinit__(self, capacity):
        if not mpsc_open(&self.ring, checked_capacity(capacity)):
            raise MemoryError

    def __dealloc__(self):
        if self.ring.slots != NULL:
            while taken(mpsc_poll(&self.ring), self) is not self:
                pass
            mpsc_close(&self.ring)

    def __len__(self):
        return mpsc_size(&self.ring)

    def offer(self, item):
        Py_INCREF(item)
        if mpsc_offer(&self.ring, <void*>item):
            return True
        Py_DECREF(item)
        return False

    def poll(self, default=None):
        return taken(mpsc_poll(&self.ring), default)
