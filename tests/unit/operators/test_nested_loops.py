"""A loop within a loop, beside a plain one: what all tasks do at each place, in any order, with deaths."""

from __future__ import annotations

import numpy as np
import pytest

from riprap.operators.dataflow import Items
from riprap.operators.iteration.loop_state import LoopState
from riprap.operators.iteration.nested import NestedIteration
from riprap.operators.iteration.supersteps import NO_MESSAGES, Messages, Spoken
from tests.unit.operators.loop_harness import FAULTS, Ring


class Triangle(NestedIteration):
    """The inner loop of outer step n takes n hops; notes the places that it has been at, and what it was told."""

    def __init__(self, turns: int = 4, supersteps: int = 1000) -> None:
        super().__init__(supersteps)
        self.turns = turns
        self.state = LoopState(1, places=np.zeros((0, 3)))

    def begin(self) -> None:
        self.state.arrays["places"] = np.zeros((0, 3))

    def note(self, messages: Messages) -> tuple[int, int]:
        outer, inner = self.state.arrays["place"].tolist()
        row = [outer, inner, messages.values.sum()]
        self.state.arrays["places"] = np.concatenate([self.state.arrays["places"], [row]])
        return outer, inner

    def outer_step(self, outer: int, messages: Messages, totals: np.ndarray) -> Spoken:
        assert self.note(messages) == (outer, 0)
        return self.hop(outer, 0)

    def inner_step(self, inner: int, messages: Messages, totals: np.ndarray) -> Spoken:
        outer, place = self.note(messages)
        assert place == inner
        return self.hop(outer, inner)

    def hop(self, outer: int, inner: int) -> Spoken:
        told = Messages(np.arange(8), np.full(8, 1.0)) if inner < outer and self._me == 0 else NO_MESSAGES
        return Spoken(told, np.ones(1))

    def outer_finished(self, outer: int, totals: np.ndarray) -> bool:
        assert totals[0] == self._tasks
        return outer == self.turns - 1

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(0), np.zeros(0)


def ring(tasks: int, seed: int, fault: str, **options: int) -> Ring:
    made = Ring(lambda: Triangle(**options), tasks, seed, fault)
    for epoch in (1, 2):
        made.tasks[0].process(Items(epoch, "read", 0, 1, (np.ones((1, 1)),)))
        made.loop(epoch)
    return made


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tasks", [1, 3])
def test_each_outer_step_runs_the_inner_loop_to_its_end(tasks: int, fault: str) -> None:
    wanted = [(outer, inner) for outer in range(4) for inner in range(outer + 1)]
    for seed in range(10):
        made = ring(tasks, seed, fault)
        found = [task.operator.state.arrays["places"] for task in made.tasks]  # type: ignore[union-attr]
        for places in found:
            assert list(map(tuple, places[:, :2].astype(int).tolist())) == wanted
        heard = sum(places[:, 2] for places in found)
        assert heard.tolist() == [8.0 * (inner > 0) for _, inner in wanted], "a message came in the step behind it"


def test_supersteps_of_both_loops_are_counted_together() -> None:
    made = ring(2, 5, "", supersteps=5)
    places = made.tasks[1].operator.state.arrays["places"]  # type: ignore[union-attr]
    assert places[:, :2].tolist() == [[0, 0], [1, 0], [1, 1], [2, 0], [2, 1]]
