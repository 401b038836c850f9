"""Lets a clean-up be finished before an interrupt is heard."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Raise an interrupt that comes meanwhile at the end; a second one at once, for somebody will not wait.

    Signals that the process ignores, or ends by, stay as they are. For the main thread.
    """
    came: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        came.append(signum)
        if len(came) > 1:
            raise KeyboardInterrupt

    former = {signum: handler for signum in INTERRUPTS if callable(handler := signal.getsignal(signum))}
    for signum in former:
        signal.signal(signum, note)
    try:
        yield
    finally:
        for signum, handler in former.items():
            if signal.getsignal(signum) is note:
                signal.signal(signum, handler)
    if came:
        signal.raise_signal(came[0])
