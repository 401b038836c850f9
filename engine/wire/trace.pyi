"""Records what the threads of a worker do, for `riprap run --profile`: bounded, without a lock, in C where they are."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

SPAN: np.dtype
"""A span: start_ns and end_ns on CLOCK_MONOTONIC; cpu_start_ns and cpu_end_ns, the CPU time that the thread had used
until then (read each 0.1 ms at most, and taken to run on between, so it may step back a little); tag, which is kind +
epoch * 256, with epoch 0 where the thread knows none."""

KINDS: tuple[str, ...]
"""The kinds of spans by their number: nothing, wait, copy, code, compute, send, receive."""

class Trace:
    """The last spans of one thread, in a file that holds as many as `capacity` says. Only that thread may add any."""

    def __init__(self, path: str | os.PathLike[str], capacity: int) -> None:
        """Make the file and map it. ValueError unless `capacity` is a power of two; OSError when it cannot be made."""

    @property
    def count(self) -> int:
        """Number of spans recorded, those that were overwritten included."""

    def add(self, kind: str, wall_ns: tuple[int, int], cpu_ns: tuple[int, int], epoch: int = 0) -> None:
        """Record a span from one time to another; `epoch` is that of the spans to come, too."""

    def idle(self) -> None:
        """The thread has done nothing but wait since its last span, if there is one; record that."""

class Timed:
    """Calls a function and records when, returning and raising what it does.

    Where one calls another of the same trace, the outer one counts: spans of a thread never overlap. `epoch_of` tells
    the epoch by the arguments, from here on for all spans of the trace; the kind `nothing` does that alone.
    """

    def __init__(
        self, trace: Trace, kind: str, function: Callable[..., Any], epoch_of: Callable[..., int] | None = None
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
