"""The two classes that a label tells apart, found in the sample of the input that is taken before training."""

from __future__ import annotations

import numpy as np

from riprap.codec.errors import DataError

Classes = tuple[float, float]
"""The labels of the class for a margin below 0, and of the one above."""

CLASSES: Classes = (0.0, 1.0)
THRESHOLD = 0.5
"""An item is of the upper class when its label is above this (the kernels of `riprap.operators.learning.blockmath`)."""
_REMEDY = "Label the items with two values, such as 0 and 1 or -1 and 1, or use a model for more classes or for values."


class Labels:
    """The values of the label column `name`, each with the item that first had it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._first: dict[float, str] = {}

    def look(self, labels: np.ndarray, start: int = 0, of: str = "") -> None:
        """Take in the labels of items start, start + 1, ... `of` a task, say. DataError for a third value."""
        values, places = np.unique(labels[np.isfinite(labels)], return_index=True)
        for value, place in zip(values.tolist(), places.tolist()):
            if value not in self._first:
                self._first[value] = f"item {start + place:,}{of}"
            if len(self._first) > 2:
                raise self._refusal("a model of two classes cannot tell them apart")

    def classes(self) -> Classes:
        """The classes; where only one was seen, the other is taken from 0 and 1, or -1 and 1.

        DataError when both lie on one side of the threshold.
        """
        lower = [value for value in self._first if value <= THRESHOLD]
        upper = [value for value in self._first if value > THRESHOLD]
        if len(lower) > 1 or len(upper) > 1:
            raise self._refusal(f"one must be above {THRESHOLD} and the other not")
        return (*lower, CLASSES[0])[0], (*upper, CLASSES[1])[0]

    def _refusal(self, why: str) -> DataError:
        found = ", ".join(f"{value:g} ({place})" for value, place in sorted(self._first.items()))
        return DataError(f"the label {self._name} has the values {found}: {why}", _REMEDY)


def check_binary(labels: np.ndarray, name: str) -> None:
    """DataError unless all labels are 0 or 1, as losses need them that calculate with the label itself."""
    wrong = (labels != CLASSES[0]) & (labels != CLASSES[1])
    if wrong.any():
        place = int(np.argmax(wrong))
        raise DataError(
            f"the label {name} has the value {labels[place]:g} in item {place:,} of a block, not 0 or 1",
            "Label the items with 0 and 1.",
        )
