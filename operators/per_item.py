"""Base classes for users who do not vectorise: override the work on one item.

A block is then a Python loop, some hundred times slower than the operators that work on whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from riprap.operators import returns
from riprap.operators.base import Arrays, Processor, Source


class ItemSource(Source):
    """A source for those who do not vectorise: override `item`, set `items` and `schema`."""

    def item(self, position: int) -> Sequence[float]:
        """The values of one item; a pure function of its position in this task's stream."""
        raise NotImplementedError

    def read(self, start: int, stop: int) -> np.ndarray:
        """Items [start, stop), made one by one."""
        width = len(self.schema()[0])
        block = np.empty((stop - start, width))
        for row, position in enumerate(range(start, stop)):
            block[row] = returns.values(self, "item", self.item(position), width)
        return block


class ItemProcessor(Processor):
    """A processor for those who do not vectorise: override `process_item`, and `combine` unless results add up."""

    empty: ClassVar[tuple[Any, ...]] = ()
    """The result of no item, one entry per array of a result."""

    def process_item(self, item: np.ndarray) -> Sequence[Any]:
        """The result of one item, as arrays or numbers; `item` is a read-only view of one row."""
        raise NotImplementedError

    def combine(self, left: Arrays, right: Arrays) -> Arrays:
        """The result of two runs of items from their results, the earlier one first: the sums, unless overridden."""
        return [a + b for a, b in zip(left, right)]

    def process_data(self, items: np.ndarray) -> Arrays:
        """The results of the items, combined from first to last."""
        total: Arrays | None = None
        for item in items:
            result = returns.parts(self, "process_item", self.process_item(item))
            total = result if total is None else returns.parts(self, "combine", self.combine(total, result))
        return [np.array(part, dtype=np.float64, ndmin=1) for part in (self.empty if total is None else total)]
