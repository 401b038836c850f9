"""The small jobs that are explored (explore.py): operators whose state is the list of all that they have processed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.states.base import Backup, State

ITEM, TOKEN, BEGUN = range(3)
WIDTH = 4
Fact = tuple[int, int, int, int]
"""What happened, and three numbers about it."""


class Bag(State):
    """Facts, each as often as it happened, in no order. A backup holds all of them, or those since the last."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.fresh: list[Fact] = []

    def add(self, fact: Fact) -> None:
        self.facts = sorted([*self.facts, fact])
        self.fresh = sorted([*self.fresh, fact])

    def state_divergence(self) -> float:
        return 0.0

    def backup_state(self) -> Backup:
        fresh, self.fresh = self.fresh, []
        return Backup(False, (_array(fresh),))

    def backup_all(self) -> Backup:
        self.fresh = []
        return Backup(True, (_array(self.facts),))

    def recover_state(self, backup: Backup) -> None:
        facts = [tuple(row) for row in backup.arrays[0].tolist()]
        self.facts = sorted(facts if backup.full else [*self.facts, *facts])
        self.fresh = []


def _array(facts: Sequence[Fact]) -> np.ndarray:
    return np.array(facts, np.int64).reshape(-1, WIDTH)


class Noting(DataflowOperator):
    """Base: notes each item that it processes, by where it came from."""

    def __init__(self) -> None:
        self.state: Bag = Bag()

    def open(self, context: Context) -> None:
        self.me, self.downstream = context.index, sorted(context.downstream)
        self.width = context.fan_out

    def note(self, kind: int, items: Items, numbers: np.ndarray) -> None:
        """Each of these, of a block from another stage."""
        for number in numbers.tolist():
            self.state.add((kind, ord(items.stage or " "), items.task, int(number)))


class Hand(Noting):
    """Hands each item on: to all tasks of one of the stages behind it, in turn by the item's number.

    Sends it back too: each item at once, or at its window's end the window.
    """

    def __init__(self, back: str = "") -> None:
        super().__init__()
        self.back = back

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (numbers,) = items.arrays
        self.note(ITEM, items, numbers)
        if self.downstream:
            stage = self.downstream[int(numbers[0]) % len(self.downstream)]
            out.send((numbers,), items.count, stage=stage)
        if self.back == "items":
            out.feed_back((numbers,), items.count)
        return items.count

    def process_feedback(self, items: Items, out: Emitter) -> None:
        self.note(TOKEN, items, items.arrays[0])

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        if self.back == "windows":
            out.feed_back((np.array([epoch], np.int64),))


class Looping(Noting):
    """Base of what keeps a window open until as many tokens have come back for it as the loop has turns."""

    def __init__(self, turns: int = 1) -> None:
        super().__init__()
        self.turns = turns

    @property
    def iterating(self) -> bool:
        begun = [window for kind, window, _, _ in self.state.facts if kind == BEGUN]
        came = [number // 10 for kind, _, _, number in self.state.facts if kind == TOKEN]
        return any(came.count(window) < self.turns for window in begun)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.note(ITEM, items, items.arrays[0])
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self.state.add((BEGUN, epoch, 0, 0))
        self.pass_on(np.array([10 * epoch], np.int64), out)

    def process_feedback(self, items: Items, out: Emitter) -> None:
        """A token is ten times its window, and the turns that it has made."""
        token = items.arrays[0]
        self.note(TOKEN, items, token)
        if token[0] % 10 + 1 < self.turns:
            self.pass_on(token + 1, out)

    def pass_on(self, token: np.ndarray, out: Emitter) -> None:
        """To the one that it comes back from."""
        raise NotImplementedError


class Ring(Looping):
    """One of two tasks that hand their tokens to each other: a stage with a loop to itself."""

    def pass_on(self, token: np.ndarray, out: Emitter) -> None:
        out.feed_back((token,), to=1 - self.me)


class Outer(Looping):
    """The head of the outer one of two nested loops: its tokens run through the inner one, which is behind it."""

    def pass_on(self, token: np.ndarray, out: Emitter) -> None:
        out.send((token,), 1, to=0)


class Inner(Noting):
    """The inner loop: task 0 has each token make a turn through task 1 before it goes back to the outer one's head."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.note(ITEM, items, items.arrays[0])
        out.feed_back(items.arrays, to=1, stage="c")
        return items.count

    def process_feedback(self, items: Items, out: Emitter) -> None:
        self.note(TOKEN, items, items.arrays[0])
        if self.me:
            out.feed_back(items.arrays, to=0, stage="c")
        else:
            out.feed_back(items.arrays, stage="b")


def _job(stages: Mapping[str, tuple[str, int, dict[str, Any]]], *edges: str) -> dict[str, Any]:
    """Edges as "a>b", and behind that what they are: "loop", or the consistency of a feedback edge."""
    return {
        "stages": {
            name: {"operator": f"explore_jobs:{operator}", "parallelism": tasks, "options": options}
            for name, (operator, tasks, options) in stages.items()
        },
        "edges": [dict(_edge(*edge.split())) for edge in edges],
    }


def _edge(ends: str, kind: str = "") -> Iterator[tuple[str, Any]]:
    one, other = ends.split(">")
    yield from {"from": one, "to": other, "partitioning": "full"}.items()
    if kind:
        yield from {"feedback": True, **({"loop": True} if kind == "loop" else {"consistency": kind})}.items()


HAND = ("Hand", 1, {})
JOBS = {
    "chain": _job(dict.fromkeys("abc", HAND), "a>b", "b>c"),
    "cycle": _job({"a": HAND, "b": ("Hand", 1, {"back": "items"})}, "a>b", "b>a asp"),
    "diamond": _job(dict.fromkeys("abcd", HAND), "a>b", "a>c", "b>d", "c>d"),
    "self": _job({"a": HAND, "b": ("Ring", 2, {})}, "a>b", "b>b loop"),
    "two_cycles": _job(
        {"a": HAND, "b": HAND, "c": ("Hand", 1, {"back": "items"}), "d": ("Hand", 1, {"back": "windows"})},
        "a>b", "b>c", "b>d", "c>b asp", "d>b bsp",
    ),
    "nested": _job(
        {"a": HAND, "b": ("Outer", 1, {"turns": 2}), "c": ("Inner", 2, {})}, "a>b", "b>c", "c>b loop", "c>c loop"
    ),
}  # fmt: skip
"""Chain; a cycle of two; diamond; a stage with a loop to itself; two cycles that share a task; a loop within a loop."""


def all_facts(states: Sequence[Sequence[Fact]]) -> list[Fact]:
    """The facts of all tasks together."""
    return sorted(chain.from_iterable(states))
