"""Heads: the rest of a block of items whose matrices travel as pieces over a coded stage.

A job that trains sends matrices as they are, of equally many items but for the last, so that they travel by reference
and can be coded over the real numbers. The head goes from encoder to decoder by the word of the row, and so do the ends
of windows behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch

Head = list[Any]
"""Window, row, s_index, items, the four numbers of the cause; behind them where the items begin and how many make a
piece, or at a window's end what that says (engine/flow/forms.pyx). Empty where there are only ends."""


def head_of(block: Block) -> Head:
    """The part of a block not sent as pieces."""
    _, _, row, s_index = block.key
    rest: Any
    if block.kind == Kind.PUNCTUATION:
        rest = {name: value for name, value in block.meta.items() if name != "cause"}
    else:
        rest = block.arrays[-1].tolist()
    return [block.epoch, row, s_index, block.items, *block.meta["cause"], rest]


def block_of(head: Head, source: int, sink: int, arrays: tuple[np.ndarray, ...] = ()) -> Block:
    """The block of a head."""
    window, row, s_index, items, *cause, rest = head
    meta, kind = {"cause": cause}, Kind.DATA
    if isinstance(rest, dict):
        meta, kind = meta | rest, Kind.PUNCTUATION
    return Block(kind, Epoch(window), Key(source, sink, row, s_index), items, arrays, meta=meta)


def is_end(head: Head) -> bool:
    """True for the head of a window's end."""
    return bool(head) and isinstance(head[8], dict)


class Matrices:
    """The arrays that may be items of a job: float64, so many columns; None where only the linear part of them comes
    (LEC III-D), whose columns nobody knows beforehand."""

    def __init__(self, columns: int | None) -> None:
        self.columns = columns

    def hold(self, piece: np.ndarray) -> bool:
        """True when an honest peer can have made this piece."""
        return piece.dtype == np.float64 and piece.ndim == 2 and self.columns in (None, piece.shape[1])
