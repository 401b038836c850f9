"""Bounded rings of pointers that pass work between threads and never wait.

Layout and protocol follow the Disruptor paper (Thompson et al., 2011, section 4) and Agrona's queues: capacity a power of
two, indices that only grow, each side's index on cache lines of its own beside its last look at the other side's.

Invariant: head <= tail <= head + capacity.
"""

from libc.stddef cimport size_t

from riprap.engine.wire._atomics cimport (
    Pointer, Word, claim, load_acquire, load_pointer, load_relaxed, store_pointer, store_relaxed, store_release,
)

cdef enum:
    # Two lines of 64 bytes: x86 prefetches lines in pairs.
    PAD_BYTES = 128

# One producer thread, one consumer thread.
cdef struct Spsc:
    size_t mask
    void** slots
    char pad_shared[PAD_BYTES]
    Word tail  # the producer's: how many were offered
    size_t seen_head
    char pad_producer[PAD_BYTES]
    Word head  # the consumer's: how many were polled
    size_t seen_tail
    char pad_consumer[PAD_BYTES]

# Any number of producer threads, one consumer thread. A slot is NULL until its item is published.
cdef struct Mpsc:
    size_t mask
    Pointer* slots
    char pad_shared[PAD_BYTES]
    Word tail  # the producers'
    Word seen_head
    char pad_producer[PAD_BYTES]
    Word head  # the consumer's
    char pad_consumer[PAD_BYTES]

# Both open functions return False when memory is out; capacity must be a power of two.
cdef bint spsc_open(Spsc* ring, size_t capacity) noexcept nogil
cdef void spsc_close(Spsc* ring) noexcept nogil
cdef bint mpsc_open(Mpsc* ring, size_t capacity) noexcept nogil
cdef void mpsc_close(Mpsc* ring) noexcept nogil


cdef inline size_t spsc_room(Spsc* ring, size_t tail, size_t wanted) noexcept nogil:
    """Number of slots free for the producer; looks at the consumer's line only when `wanted` would not fit."""
    if tail - ring.seen_head + wanted > ring.mask + 1:
        ring.seen_head = load_acquire(&ring.head)
    return ring.mask + 1 - (tail - ring.seen_head)


cdef inline bint spsc_offer(Spsc* ring, void* item) noexcept nogil:
    """Append one item; False when the ring is full. Producer thread only."""
    cdef size_t tail = load_relaxed(&ring.tail)
    if spsc_room(ring, tail, 1) == 0:
        return False
    ring.slots[tail & ring.mask] = item
    store_release(&ring.tail, tail + 1)
    return True


cdef inline size_t spsc_offer_many(Spsc* ring, void** items, size_t count) noexcept nogil:
    """Append as many of `count` items as fit, published at once; returns how many. Producer thread only."""
    cdef size_t tail = load_relaxed(&ring.tail)
    cdef size_t n = min(count, spsc_room(ring, tail, count))
    cdef size_t i
    for i in range(n):
        ring.slots[(tail + i) & ring.mask] = items[i]
    store_release(&ring.tail, tail + n)
    return n


cdef inline size_t spsc_there(Spsc* ring, size_t head) noexcept nogil:
    """Number of items for the consumer; looks at the producer's line only when it knows of none."""
    if ring.seen_tail == head:
        ring.seen_tail = load_acquire(&ring.tail)
    return ring.seen_tail - head


cdef inline void* spsc_poll(Spsc* ring) noexcept nogil:
    """Take the oldest item; NULL when the ring is empty. Consumer thread only."""
    cdef size_t head = load_relaxed(&ring.head)
    if spsc_there(ring, head) == 0:
        return NULL
    cdef void* item = ring.slots[head & ring.mask]
    store_release(&ring.head, head + 1)
    return item


cdef inline size_t spsc_poll_many(Spsc* ring, void** items, size_t count) noexcept nogil:
    """Take up to `count` of the oldest items; returns how many. Consumer thread only."""
    cdef size_t head = load_relaxed(&ring.head)
    cdef size_t n = min(count, spsc_there(ring, head))
    cdef size_t i
    for i in range(n):
        items[i] = ring.slots[(head + i) & ring.mask]
    store_release(&ring.head, head + n)
    return n


cdef inline size_t spsc_size(Spsc* ring) noexcept nogil:
    """Number of items in the ring; exact only on a thread that is both ends, a guess elsewhere."""
    cdef size_t head = load_acquire(&ring.head)
    return load_acquire(&ring.tail) - head


cdef inline bint mpsc_full(Mpsc* ring, size_t tail) noexcept nogil:
    """True when a producer that read `tail` has no slot. Signed: `tail` may be old and the head already past it."""
    # Acquire pairs with the consumer's release of head, handed on by whichever producer saw it first.
    if <ssize_t>(tail - load_acquire(&ring.seen_head)) <= <ssize_t>ring.mask:
        return False
    store_release(&ring.seen_head, load_acquire(&ring.head))
    return <ssize_t>(tail - load_acquire(&ring.seen_head)) > <ssize_t>ring.mask


cdef inline bint mpsc_offer(Mpsc* ring, void* item) noexcept nogil:
    """Append one item, which is not NULL; False when the ring is full. Any thread; items of one thread keep their order."""
    cdef size_t tail = load_relaxed(&ring.tail)
    while True:
        if mpsc_full(ring, tail):
            return False
        if claim(&ring.tail, &tail, tail + 1):
            store_pointer(&ring.slots[tail & ring.mask], item)
            return True


cdef inline void* mpsc_poll(Mpsc* ring) noexcept nogil:
    """Take the oldest item; NULL when there is none, or its producer has claimed the slot and not filled it yet."""
    cdef size_t head = load_relaxed(&ring.head)
    cdef Pointer* slot = &ring.slots[head & ring.mask]
    cdef void* item = load_pointer(slot)
    if item != NULL:
        store_pointer(slot, NULL)
        store_release(&ring.head, head + 1)
    return item


cdef inline void* mpsc_peek(Mpsc* ring) noexcept nogil:
    """The oldest item, which stays; NULL when there is none. Consumer thread only."""
    return load_pointer(&ring.slots[load_relaxed(&ring.head) & ring.mask])


cdef inline bint mpsc_ready(Mpsc* ring) noexcept nogil:
    """True when `mpsc_poll` returns an item. Consumer thread only."""
    return mpsc_peek(ring) != NULL


cdef inline size_t mpsc_size(Mpsc* ring) noexcept nogil:
    """Number of claimed slots; a guess while other threads offer."""
    cdef size_t head = load_acquire(&ring.head)
    return load_acquire(&ring.tail) - head


cdef class SpscRing:
    cdef Spsc ring


cdef class MpscRing:
    cdef Mpsc ring
