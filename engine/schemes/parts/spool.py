"""Keeps arrays on disk instead of in memory, as long as somebody uses them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from riprap.codec.blocks import Block
from riprap.codec.files import reserve

FILE_BYTES = 64 << 20
LOOKS = 16  # at all that is kept, while as much is added as may stay in memory
ALIGNMENT = 64


class Spool:
    """Maps arrays from files that have no name. A file goes when none of its arrays is used any more, or with the
    process.
    """

    def __init__(self, file_bytes: int = FILE_BYTES) -> None:
        self._file_bytes = file_bytes
        self._file: np.ndarray[Any, Any] = np.empty(0, np.uint8)
        """The newest, as bytes; older ones live by their arrays alone."""
        self._since = 0
        self._used = 0

    def put(self, array: np.ndarray) -> np.ndarray:
        """The same array on disk; itself when it is there already, or empty. OSError when there is no room."""
        if not array.nbytes or is_spooled(array):
            return array
        if self._used + array.nbytes > len(self._file):
            size = max(self._file_bytes, array.nbytes)
            with tempfile.TemporaryFile() as file:  # a mapping outlives its descriptor
                reserve(file.fileno(), size, f"{tempfile.gettempdir()}/items kept at their sender")
                self._file, self._used = np.memmap(file, np.uint8, "w+", shape=(size,)), 0
        place = self._file[self._used : self._used + array.nbytes]
        place[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._used += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return place.view(array.dtype).reshape(array.shape)

    def note(self, block: Block, memory_bytes: int, kept: Callable[[], Iterable[Block]]) -> None:
        """One more is kept: now and then leave so many bytes of all in memory, those of the first."""
        self._since += block.nbytes
        if self._since * LOOKS > memory_bytes:
            self._since = 0
            self._limit(kept(), memory_bytes)

    def _limit(self, blocks: Iterable[Block], memory_bytes: int) -> None:
        in_memory = 0
        for block in blocks:
            in_memory += sum(array.nbytes for array in block.arrays if not is_spooled(array))
            if in_memory > memory_bytes:
                block.arrays = tuple(map(self.put, block.arrays))


def is_spooled(array: np.ndarray) -> bool:
    """True when an array is mapped from a file."""
    return isinstance(array, np.memmap)
