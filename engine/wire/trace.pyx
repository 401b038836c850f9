"""Records what the threads of a worker do, for `riprap run --profile`: bounded, without a lock, in C where they are.

A trace's memory is a mapped file, so that what a worker did until it was killed is there for whoever looks at it.
"""

import numpy as np

from riprap.codec.files import reserve

from libc.stdint cimport uintptr_t
from libc.string cimport memset

TIMES = ("start_ns", "end_ns", "cpu_start_ns", "cpu_end_ns")
SPAN = np.dtype([*((name, "<i8") for name in TIMES), ("tag", "<u8")])
KINDS = ("nothing", "wait", "copy", "code", "compute", "send", "receive")
assert SPAN.itemsize == sizeof(Span) and KINDS.index("receive") == RECEIVING


cdef class Trace:
    def __cinit__(self, path, size_t capacity):
        memset(&self.spans, 0, sizeof(Spans))
        if capacity < 1 or capacity & (capacity - 1):
            raise ValueError(f"a trace's capacity is a power of two, not {capacity}")
        with open(path, "wb") as file:
            reserve(file.fileno(), capacity * sizeof(Span), path)
        self.slots = np.memmap(path, dtype=SPAN, mode="r+", shape=capacity)
        self.spans.slots = <Span*><uintptr_t>self.slots.ctypes.data
        self.spans.mask = capacity - 1

    @property
    def count(self):
        return self.spans.count

    def idle(self):
        if self.spans.count > 0:
            span_end(&self.spans, WAITING, self.spans.last)

    def add(self, str kind, tuple wall_ns, tuple cpu_ns, size_t epoch=0):
        cdef Moment began = Moment(wall_ns[0], cpu_ns[0])
        cdef Moment ended = Moment(wall_ns[1], cpu_ns[1])
        self.spans.epoch = epoch
        self.spans.last = ended
        span_add(&self.spans, KINDS.index(kind), began, ended)


cdef class Timed:
    cdef Trace trace
    cdef Kind kind
    cdef object function
    cdef object epoch_of

    def __init__(self, Trace trace not None, str kind, function, epoch_of=None):
        self.trace, self.function, self.epoch_of = trace, function, epoch_of
        self.kind = KINDS.index(kind)

    def __call__(self, *args, **kwargs):
        cdef Spans* spans = &self.trace.spans
        cdef Moment began
        if self.epoch_of is not None:
            spans.epoch = self.epoch_of(*args)
        if self.kind == NOTHING or self.trace.inside:
            return self.function(*args, **kwargs)
        self.trace.inside = True
        began = span_begin(spans)
        try:
            return self.function(*args, **kwargs)
        finally:
            span_end(spans, self.kind, began)
            self.trace.inside = False
