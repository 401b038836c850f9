"""The pieces of stripe rows that a sink holds, and their decoding."""

from __future__ import annotations

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.codes import Code, CustomCode
from riprap.codec.ids import Epoch

Row = tuple[Epoch, int]
"""A row of stripes of one epoch."""


class Pieces:
    """Data blocks and parity (or their linear parts) by row and s_index.

    Invariant: the pieces of a row are alike (dtype and columns), and fit the counts of items that its parity names;
    what would break that is turned away by `fits`, so that decoding cannot fail.
    """

    def __init__(self, code: Code | CustomCode) -> None:
        self.code = code
        self._pieces: dict[Row, dict[int, np.ndarray]] = {}
        self._counts: dict[Row, list[int]] = {}

    def of(self, row: Row) -> dict[int, np.ndarray]:
        """A row's pieces here."""
        return self._pieces.get(row, {})

    def fits(self, row: Row, block: Block) -> bool:
        """True when a block's piece can belong to its row, as far as the row is known."""
        counts = self._counts.get(row)
        if block.kind != Kind.PARITY:
            if counts and counts[block.key.s_index] != block.items:
                return False
            piece = block.attachment if block.kind == Kind.RESULT else block.arrays[0]
            return piece is None or self._is_alike(row, piece)
        named = block.meta["counts"]
        if (counts or named) != named or not self._is_alike(row, block.arrays[0]):
            return False
        return all(len(array) == named[i] for i, array in self.of(row).items() if i < self.code.k)

    def _is_alike(self, row: Row, piece: np.ndarray) -> bool:
        other = next(iter(self.of(row).values()), piece)
        return piece.dtype == other.dtype and piece.shape[1:] == other.shape[1:]

    def add(self, row: Row, s_index: int, piece: np.ndarray) -> None:
        """Keep a piece until its row is dropped."""
        self._pieces.setdefault(row, {})[s_index] = piece

    def count(self, row: Row, counts: list[int]) -> None:
        """Number of items of a row's data blocks, as its parity says."""
        self._counts[row] = counts

    def drop(self, row: Row) -> None:
        """A row needs no decoding (any more)."""
        self._pieces.pop(row, None)

    def forget(self, epoch: Epoch) -> None:
        """Everything up to this epoch is over."""
        for store in (self._pieces, self._counts):
            for row in [row for row in store if row[0] <= epoch]:
                del store[row]

    def decode(self, row: Row, lacking: list[int]) -> list[tuple[int, np.ndarray]]:
        """The data blocks `lacking` of a row of which enough pieces are here, with their s_indexes; drops the row."""
        pieces = self._pieces.pop(row)
        if all(i in pieces for i in lacking):
            return [(i, pieces[i]) for i in lacking]  # the blocks themselves came, faster than their results
        counts = self._counts[row]  # parity is here, for at least one data block is not
        whole = next(array for i, array in pieces.items() if i >= self.code.k)
        absent = {i: np.zeros_like(whole) for i in range(len(counts), self.code.k)}  # behind the epoch's last block
        decoded = self.code.decode(pieces | absent)
        return [(i, decoded[i][: counts[i]]) for i in lacking]
