"""Cargo of a segment: the piece that is made of a block for its row, and the block that comes out at the other end.

A `Packed` piece is all of a block as bytes (packing.py), so blocks may be any. `Rows` sends a matrix of items as it is,
so that it travels by reference and can be coded over the real numbers; the rest of the block, its *head*, goes from
encoder to decoder by the word of its row, and so do the ends of windows.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import Epoch
from riprap.engine.flow.port import Port
from riprap.engine.spreads.packing import PAD, computed, pack, unpack, unpack_result
from riprap.operators.adapters.stages import ITEMS, LINEAR, RESULT, aside
from riprap.operators.dataflow import DataflowOperator

Head = list[Any]
"""epoch, row, s_index, items, the four numbers of its cause, and: the number of its first item, or at a window's end
what that says (engine/flow/segment_gate.py). Empty for a piece without a block."""


class Cargo(Protocol):
    """One form of pieces, at encoder and decoder."""

    has_heads: bool
    """True when the ends of windows and the heads of blocks travel by the words of rows."""
    pad: np.ndarray
    """A piece without a block: fills a row that must not wait for more."""

    def fits(self, piece: np.ndarray) -> bool:
        """True when an honest peer can have made the piece."""

    def piece(self, block: Block) -> np.ndarray:
        """The piece that a block travels as."""

    def block(self, entry: Block, head: Head, port: Port) -> Block | None:
        """The block of a result, or of a piece that was decoded; None where the piece had none."""


class Packed:
    """Blocks of a general topology. `operator` is one like the coded stage's, to recompute with."""

    has_heads = False
    pad = PAD

    def __init__(self, operator: DataflowOperator | None = None, upstream: str = "") -> None:
        self._operator, self._upstream = operator, upstream

    def fits(self, piece: np.ndarray) -> bool:
        return True

    def piece(self, block: Block) -> np.ndarray:
        return pack(block)

    def block(self, entry: Block, head: Head, port: Port) -> Block | None:
        """AssertionError for what no worker of this job can have written."""
        try:
            if entry.kind == Kind.RESULT:
                return unpack_result(entry.arrays)
            data = unpack(entry.arrays[0])
        except FrameError as error:
            raise AssertionError(f"row {entry.epoch}: {error}") from error
        if data is None:
            return None
        assert self._operator is not None, "what decodes has one"
        port.count("decoded_items", data.items)
        port.count("recomputed_items", data.items)
        return computed(self._operator, data, self._upstream)


class Rows:
    """Items of a job that trains: float64, so many columns. `linear`: hybrid coded computation (LEC III-D), whose
    pieces at the decoder are linear parts; `sends_linear`: its results are nothing else."""

    has_heads = True

    def __init__(self, columns: int, linear: bool = False, sends_linear: bool = False) -> None:
        self.pad = np.zeros((0, columns))
        self._decoded = LINEAR if linear else ITEMS
        self._linear, self._sends_linear = linear, sends_linear

    def fits(self, piece: np.ndarray) -> bool:
        is_matrix = piece.dtype == np.float64 and piece.ndim == 2
        return is_matrix and (self._linear or piece.shape[1] == self.pad.shape[1])

    def piece(self, block: Block) -> np.ndarray:
        return block.arrays[0]

    def block(self, entry: Block, head: Head, port: Port) -> Block | None:
        if not head:
            return None
        if entry.kind == Kind.RESULT and not self._sends_linear:
            arrays, form = entry.arrays, RESULT
        elif entry.kind == Kind.RESULT:
            assert entry.attachment is not None, "the spread admits no other"
            arrays, form = (entry.attachment,), LINEAR
        else:
            port.count("decoded_items", head[3])
            port.count("recomputed_items", head[3])
            arrays, form = (entry.arrays[0],), self._decoded
        block = block_of(head, entry.key.source, entry.key.sink)
        block.arrays = (*arrays, aside(head[8], form))
        return block


def head_of(block: Block) -> Head:
    """What of a block does not travel as its piece."""
    _, _, row, s_index = block.key
    rest: dict[str, Any] | int
    if block.kind == Kind.PUNCTUATION:
        rest = {name: value for name, value in block.meta.items() if name != "cause"}
    else:
        rest = int(block.arrays[1][0])
    return [block.epoch, row, s_index, block.items, *block.meta["cause"], rest]


def block_of(head: Head, source: int, sink: int) -> Block:
    """The block of a head, without its arrays."""
    epoch, row, s_index, items, *cause, rest = head
    meta, kind = {"cause": list(cause)}, Kind.DATA
    if isinstance(rest, dict):
        meta, kind = meta | rest, Kind.PUNCTUATION
    return Block(kind, Epoch(epoch), Key(source, sink, row, s_index), items, meta=meta)


def windows_end(head: Head) -> bool:
    """True for the head of a punctuation."""
    return bool(head) and isinstance(head[8], dict)
