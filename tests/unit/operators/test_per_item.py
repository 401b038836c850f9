"""Operators that see one item at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from riprap.operators.base import Arrays
from riprap.operators.per_item import ItemProcessor, ItemSource


class Moments(ItemProcessor):
    """Count, sum and sum of squares of the first column."""

    empty = (0, 0, 0)

    def process_item(self, item: np.ndarray) -> Sequence[Any]:
        return 1, item[0], item[0] ** 2


class Extremes(ItemProcessor):
    """The smallest and the largest item."""

    def process_item(self, item: np.ndarray) -> Sequence[Any]:
        return item, item

    def combine(self, left: Arrays, right: Arrays) -> Arrays:
        return np.minimum(left[0], right[0]), np.maximum(left[1], right[1])


class Squares(ItemSource):
    """Numbers and their squares."""

    items = 10

    def schema(self) -> tuple[tuple[str, ...], str | None]:
        return ("n", "square"), None

    def item(self, position: int) -> Sequence[float]:
        return position, position**2


def test_results_of_items_are_combined() -> None:
    block = Squares().read(2, 5)
    assert [part.tolist() for part in Moments().process_data(block)] == [[3], [9], [29]]
    assert [part.tolist() for part in Extremes().process_data(block)] == [[2, 4], [4, 16]]


def test_no_items_give_the_empty_result() -> None:
    block = Squares().read(5, 5)
    assert block.shape == (0, 2)
    assert [part.tolist() for part in Moments().process_data(block)] == [[0], [0], [0]]


def test_results_are_the_callers() -> None:
    block = Squares().read(2, 3)
    for part in Extremes().process_data(block):
        part[:] = -1
    assert block.tolist() == [[2, 4]]
