"""Races real threads, without the GIL, through the rings and checks the order; for the tests and bench/rings.py."""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from riprap.engine.wire.rings cimport (
    Mpsc, Spsc, mpsc_close, mpsc_offer, mpsc_open, mpsc_poll, spsc_close, spsc_offer, spsc_offer_many, spsc_open,
    spsc_poll, spsc_poll_many,
)

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    int pthread_create(pthread_t* thread, const void* attributes, void* (*main)(void*) noexcept nogil, void* argument)
    int pthread_join(pthread_t thread, void** result)

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef enum:
    BATCH_MAX = 256
    PRODUCERS_MAX = 16

# One producer thread: it offers the numbers number * count + 1 ... number * count + count.
cdef struct Producer:
    Spsc* spsc
    Mpsc* mpsc
    uintptr_t number
    uintptr_t count
    size_t batch


cdef void* produce_singly(void* argument) noexcept nogil:
    cdef Producer* me = <Producer*>argument
    cdef uintptr_t first = me.number * me.count + 1
    cdef uintptr_t i
    for i in range(first, first + me.count):
        if me.mpsc != NULL:
            while not mpsc_offer(me.mpsc, <void*>i):
                sched_yield()
        else:
            while not spsc_offer(me.spsc, <void*>i):
                sched_yield()
    return NULL


cdef void* produce_batches(void* argument) noexcept nogil:
    cdef Producer* me = <Producer*>argument
    cdef void* batch[BATCH_MAX]
    cdef uintptr_t next_value = 1
    cdef size_t filled, sent, i
    while next_value <= me.count:
        filled = min(me.batch, me.count + 1 - next_value)
        for i in range(filled):
            batch[i] = <void*>(next_value + i)
        sent = spsc_offer_many(me.spsc, batch, filled)
        if sent == 0:
            sched_yield()
        next_value += sent
    return NULL


cdef size_t consume_singly(Spsc* ring, uintptr_t count) noexcept nogil:
    """Number of items that came out of order."""
    cdef size_t wrong = 0
    cdef uintptr_t expected = 1
    cdef void* item
    while expected <= count:
        item = spsc_poll(ring)
        if item == NULL:
            sched_yield()
            continue
        wrong += <uintptr_t>item != expected
        expected += 1
    return wrong


cdef size_t consume_batches(Spsc* ring, uintptr_t count, size_t batch_items) noexcept nogil:
    """Number of items that came out of order."""
    cdef size_t wrong = 0
    cdef size_t taken, i
    cdef uintptr_t expected = 1
    cdef void* batch[BATCH_MAX]
    while expected <= count:
        taken = spsc_poll_many(ring, batch, batch_items)
        if taken == 0:
            sched_yield()
        for i in range(taken):
            wrong += <uintptr_t>batch[i] != expected + i
        expected += taken
    return wrong


cdef size_t consume_merged(Mpsc* ring, size_t producers, uintptr_t count) noexcept nogil:
    """Number of items that came out of their producer's order, or from none of the producers."""
    cdef size_t wrong = 0
    cdef uintptr_t last[PRODUCERS_MAX]
    cdef uintptr_t total = 0
    cdef uintptr_t item, producer
    for producer in range(producers):
        last[producer] = producer * count
    while total < producers * count:
        item = <uintptr_t>mpsc_poll(ring)
        if item == 0:
            sched_yield()
            continue
        total += 1
        producer = (item - 1) // count
        if producer >= producers or item != last[producer] + 1:
            wrong += 1
        else:
            last[producer] = item
    return wrong


cdef double now() noexcept nogil:
    cdef timespec time
    clock_gettime(CLOCK_MONOTONIC, &time)
    return time.tv_sec + time.tv_nsec * 1e-9


def race_spsc(size_t capacity, uintptr_t count, size_t batch=1):
    """Pass `count` pointers between two threads; returns (pointers out of order, seconds)."""
    if not 1 <= batch <= BATCH_MAX:
        raise ValueError(f"batch is 1 to {BATCH_MAX}")
    cdef Spsc ring
    cdef Producer producer
    cdef pthread_t thread
    cdef size_t wrong
    cdef double start, seconds
    if not spsc_open(&ring, capacity):
        raise MemoryError
    producer = Producer(&ring, NULL, 0, count, batch)
    with nogil:
        start = now()
        if pthread_create(&thread, NULL, produce_singly if batch == 1 else produce_batches, &producer) != 0:
            with gil:
                raise OSError("no thread could be started")
        wrong = consume_singly(&ring, count) if batch == 1 else consume_batches(&ring, count, batch)
        seconds = now() - start
        pthread_join(thread, NULL)
        spsc_close(&ring)
    return wrong, seconds


def race_mpsc(size_t capacity, size_t producers, uintptr_t count):
    """Pass `count` pointers from each of `producers` threads to this one; returns (pointers out of order, seconds)."""
    if not 1 <= producers <= PRODUCERS_MAX:
        raise ValueError(f"producers is 1 to {PRODUCERS_MAX}")
    cdef Mpsc ring
    cdef Producer makers[PRODUCERS_MAX]
    cdef pthread_t threads[PRODUCERS_MAX]
    cdef size_t i, wrong
    cdef double start, seconds
    if not mpsc_open(&ring, capacity):
        raise MemoryError
    with nogil:
        start = now()
        for i in range(producers):
            makers[i] = Producer(NULL, &ring, i, count, 1)
            if pthread_create(&threads[i], NULL, produce_singly, &makers[i]) != 0:
                with gil:
                    raise OSError("no thread could be started")
        wrong = consume_merged(&ring, producers, count)
        seconds = now() - start
        for i in range(producers):
            pthread_join(threads[i], NULL)
        mpsc_close(&ring)
    return wrong, seconds
