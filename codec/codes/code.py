"""A systematic MDS erasure code: k data blocks, r parity blocks, and any k of them give back the data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter

import numpy as np

from riprap.codec.codes._kernels import Coefficients, Sums
from riprap.codec.codes.arithmetic import Arithmetic
from riprap.codec.codes.encoder import Encoder, check_fits

RECOVERIES_MAX = 256  # matrices kept per code; a job sees a few patterns of lost workers at a time


class Code:
    """Made by `riprap.make_code`. Blocks are arrays of one dtype and shape; `s_index` < k is data, the rest parity.

    Thread-safe. `exact`: decoding gives back every bit. `linear`: the code commutes with real-linear functions, so that
    results computed from parity decode to results (coded computation, LEC III-D).
    """

    def __init__(self, name: str, coefficients: np.ndarray, arithmetic: Arithmetic, linear: bool) -> None:
        self.name = name
        self.r, self.k = coefficients.shape
        self.exact = arithmetic.exact
        self.linear = linear
        self._coefficients = coefficients
        self._arithmetic = arithmetic
        self._matrix = arithmetic.compiled(coefficients)
        self._recovery = lru_cache(RECOVERIES_MAX)(self._new_recovery)

    def __repr__(self) -> str:
        return f"<Code {self.name} k={self.k} r={self.r}>"

    def encode(self, data: Sequence[np.ndarray], out: list[np.ndarray] | None = None) -> list[np.ndarray]:
        """The r parity blocks of k data blocks, in the dtype and shape of the longest.

        Blocks with fewer rows (axis 0) count as padded with zeros. The result does not share memory with the data; it
        lies in the contiguous arrays `out` if these are given. ValueError unless there are k blocks of one dtype and
        row shape, and r arrays in `out` of the longest's size.
        """
        if len(data) != self.k:
            raise ValueError(f"{self!r} encodes {self.k} blocks at a time, not {len(data)}")
        sums = self._sums_like(self._matrix, max(data, key=attrgetter("shape")), data, out)
        sums.add_all(list(data))
        return sums.finish()

    def encoder(self, shape: tuple[int, ...], dtype: np.dtype | type | str) -> Encoder:
        """An incremental encoder for rows whose longest block has this shape and dtype."""
        dtype = np.dtype(dtype)
        self._arithmetic.check(dtype)
        return Encoder(self._matrix, shape, dtype)

    def decode(self, blocks: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """The k data blocks from any k (or more) blocks, keyed by s_index.

        Data blocks that are there are returned as they are; only lost ones are computed, in new memory. A data block
        may have fewer rows than the parity; a lost one comes back in the parity's shape, padded with zeros.
        ValueError for fewer than k blocks, or blocks that do not fit together.
        """
        self._check_indexes(blocks)
        if len(blocks) < self.k:
            raise ValueError(f"{self!r} decodes from any {self.k} of its {self.k + self.r} blocks, not {len(blocks)}")
        present = [i for i in range(self.k) if i in blocks]
        lost = tuple(i for i in range(self.k) if i not in blocks)
        if not lost:
            return [blocks[i] for i in present]
        parity = tuple(sorted(i for i in blocks if i >= self.k)[: len(lost)])
        inputs = [blocks[i] for i in (*parity, *present)]
        for i in parity:
            if blocks[i].shape != inputs[0].shape:
                raise ValueError(f"parity blocks {parity[0]} and {i} have shapes {inputs[0].shape}, {blocks[i].shape}")
        sums = self._sums_like(self._recovery(lost, parity), inputs[0], inputs)
        sums.add_all(inputs)
        decoded = dict(zip(lost, sums.finish()))
        return [blocks[i] if i in blocks else decoded[i] for i in range(self.k)]

    def condition_number(self, lost: Collection[int]) -> float:
        """The condition of the k x k system that `decode` solves without these s_indexes (2-norm); 1.0 for exact codes.

        ValueError if more than r are lost.
        """
        gone = set(lost)
        self._check_indexes(gone)
        if len(gone) > self.r:
            raise ValueError(f"{self!r} survives the loss of {self.r} blocks, not {len(gone)}")
        kept = [i for i in range(self.k + self.r) if i not in gone][: self.k]
        data = [i for i in kept if i < self.k]
        parity = [i - self.k for i in kept if i >= self.k]
        return self._arithmetic.condition(np.concatenate([np.eye(self.k)[data], self._coefficients[parity]]))

    def _new_recovery(self, lost: tuple[int, ...], parity: tuple[int, ...]) -> Coefficients:
        rows = self._coefficients[[i - self.k for i in parity]]
        present = [i for i in range(self.k) if i not in lost]
        return self._arithmetic.compiled(self._arithmetic.recovery(rows[:, lost], rows[:, present]))

    def _sums_like(
        self, matrix: Coefficients, like: np.ndarray, blocks: Sequence[np.ndarray], out: list[np.ndarray] | None = None
    ) -> Sums:
        self._arithmetic.check(like.dtype)
        for block in blocks:
            check_fits(block, like.shape, like.dtype)
        return Sums(matrix, like.shape, like.dtype, out)

    def _check_indexes(self, indexes: Collection[int]) -> None:
        for i in indexes:
            if not 0 <= i < self.k + self.r:
                raise ValueError(f"s_index {i} is not in {self!r}; expected 0 to {self.k + self.r - 1}")
