"""The common part of the tests of the trial of operators: input, processors, and what is read out of its outcomes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from riprap.operators.base import Arrays, Context, Processor
from riprap.operators.trial.law import Outcome

CONTEXT = Context(("a", "b", "c"))
ROWS = np.random.default_rng(1).standard_normal((240, 3))
EPOCHS = [np.array_split(part, 4) for part in np.array_split(ROWS, 3)]


def broken(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {outcome.law: str(outcome.complaint) for outcome in outcomes if outcome.complaint}


def check_place(complaint: str, kind: type, method: str) -> None:
    """It ends in the line of the method, or names one within it."""
    function = getattr(kind, method)
    lines, first = inspect.getsourcelines(function)
    places = {f"{inspect.getsourcefile(function)}:{line}" for line in range(first, first + len(lines))}
    assert any(place in complaint for place in places), complaint


class Sums(Processor):
    """What other processors are mutants of: sums of columns, times a weight that is fed back."""

    weight = 1.0

    def process_data(self, items: np.ndarray) -> Arrays:
        return [np.sum(items, axis=0) * self.weight, np.array([float(len(items))])]

    def process_feedback(self, feedback: Arrays) -> None:
        self.weight = float(feedback[0][0])


class NoList(Sums):
    def process_data(self, items: np.ndarray) -> Any:
        return items.sum(axis=0)


class Counted(Sums):
    calls = 0

    def process_data(self, items: np.ndarray) -> Arrays:
        self.calls += 1
        return [np.sum(items, axis=0) + self.calls, np.array([float(len(items))])]
