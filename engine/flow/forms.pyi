"""The forms of messages: what gates let through, field by field."""

from typing import Any

from riprap.codec.blocks import Block

def are_counts(values: Any, length: int) -> bool:
    """True for a list of so many whole numbers from 0."""

def is_window_end(meta: Any) -> bool:
    """True for what the punctuation of a window says: its items, when it was opened, event time."""

def check_of_segment(block: Block, pair: int, processors: frozenset[str]) -> None:
    """FrameError unless an honest worker of a coded segment can have written the message: with a key of this pair,
    sound fields, and no names but those of the segment's processors."""
