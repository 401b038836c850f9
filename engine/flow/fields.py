"""Checks of fields that a peer's message may hold, for what lets messages in."""

from __future__ import annotations

from typing import Any

from riprap.codec.clock import is_opened
from riprap.operators.returns import FOREVER


def is_count(value: Any) -> bool:
    """True for a whole number from 0."""
    return value.__class__ is int and value >= 0


def are_counts(values: Any, length: int) -> bool:
    """True for a list of so many of them."""
    return isinstance(values, list) and len(values) == length and all(map(is_count, values))


def is_window_end(meta: Any) -> bool:
    """True for what the punctuation of a window says: its items, when it was opened, event time."""
    return (
        isinstance(meta, dict)
        and is_count(meta.get("items"))
        and is_opened(meta)
        and meta.get("last").__class__ is bool
        and meta.get("time", 0).__class__ is int
        and -FOREVER <= meta.get("time", 0) <= FOREVER
        and meta.get("idle", True) is True
    )
