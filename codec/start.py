"""The start of a process: its imports, without the collector of garbage, which finds none in them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """The imports of a process of ours stand within this, the first ones too; not those of a user's process.

    Modules live until the process ends, so the collector looks at none of them: now, later, or at the end.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
