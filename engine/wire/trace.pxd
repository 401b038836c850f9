"""Records what a thread does from when to when: a ring of spans, which only that thread writes."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, clock_gettime, clockid_t, timespec

from riprap.engine.wire._atomics cimport Word, exchange, store_release

# What a thread does; KINDS in trace.pyx names them in this order. NOTHING: the slot was never filled.
cdef enum Kind:
    NOTHING
    WAITING
    COPYING
    CODING
    COMPUTING
    SENDING
    RECEIVING

cdef enum:
    # How long a thread is taken to run before its CPU time is read again, the time that it waits not counted: it sleeps
    # then. To read it is a system call that costs ten times what the other clock does, and threads that are put aside
    # are so for longer than this.
    CPU_EVERY_NS = 100000

cdef struct Moment:
    int64_t wall_ns  # CLOCK_MONOTONIC, the same for all processes of a host
    int64_t cpu_ns  # CPU time that the thread has used

# One slot of the ring; SPAN in trace.pyx tells NumPy the same.
cdef struct Span:
    int64_t start_ns
    int64_t end_ns
    int64_t cpu_start_ns
    int64_t cpu_end_ns
    Word tag  # kind + epoch * 256; 0 while the slot is filled, for the process may be killed meanwhile

cdef struct Spans:
    Span* slots
    size_t mask
    size_t count  # of all spans so far; the oldest are overwritten
    size_t epoch  # of the spans to come, 0 where the thread knows none
    Moment last  # the newest moment
    int64_t unread_ns  # since the CPU time was read, without waits


cdef inline int64_t clock_ns(clockid_t clock) noexcept nogil:
    cdef timespec time
    clock_gettime(clock, &time)
    return time.tv_sec * <int64_t>1000000000 + time.tv_nsec


cdef inline Moment moment(Spans* spans, bint ran) noexcept nogil:
    """Now. Since the last moment the thread has run, as far as it knows, or else slept."""
    cdef Moment now
    now.wall_ns = clock_ns(CLOCK_MONOTONIC)
    cdef int64_t passed = now.wall_ns - spans.last.wall_ns if ran else 0
    spans.unread_ns += passed
    if spans.unread_ns >= CPU_EVERY_NS:
        now.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID)
        spans.unread_ns = 0
    else:
        now.cpu_ns = spans.last.cpu_ns + passed
    spans.last = now
    return now


cdef inline Moment span_begin(Spans* spans) noexcept nogil:
    """Now; nothing is looked at where nobody records (NULL)."""
    return Moment(0, 0) if spans == NULL else moment(spans, True)


cdef inline Moment span_end(Spans* spans, Kind kind, Moment began) noexcept nogil:
    """Record a span from `began` until now, where the next one may begin. Owner thread only."""
    cdef Moment now = Moment(0, 0)
    if spans != NULL:
        now = moment(spans, kind != WAITING)
        span_add(spans, kind, began, now)
    return now


cdef inline void span_add(Spans* spans, Kind kind, Moment began, Moment ended) noexcept nogil:
    cdef Span* slot = &spans.slots[spans.count & spans.mask]
    exchange(&slot.tag, NOTHING)
    slot.start_ns = began.wall_ns
    slot.end_ns = ended.wall_ns
    slot.cpu_start_ns = began.cpu_ns
    slot.cpu_end_ns = ended.cpu_ns
    store_release(&slot.tag, <size_t>kind + spans.epoch * 256)
    spans.count += 1


cdef class Trace:
    cdef Spans spans
    cdef object slots  # owns the memory of spans.slots
    cdef bint inside  # a Timed is being called
