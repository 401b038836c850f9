"""Small deterministic operators and topologies for the simulation of graphs of stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from riprap.configs.topology import Topology
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.iteration.asynchronous import AsynchronousLoop
from riprap.operators.iteration.loop_state import LoopState
from riprap.operators.iteration.nested import NestedIteration
from riprap.operators.iteration.supersteps import NO_MESSAGES, Iteration, Messages, Spoken
from riprap.operators.panes.firing import Fired, TimedItems
from riprap.operators.panes.panes import Panes
from riprap.operators.panes.rows import RETRACTION
from riprap.operators.states import HashMap, Vector

KEYS = 7
BUCKETS = 1000  # windows that a key of Windowed's map tells apart


class Spread(DataflowOperator):
    """Stateless: hands each item (key, value) on, to the task that its key chooses where there is a choice."""

    def __init__(self, by_key: bool = True) -> None:
        self.by_key = by_key
        self.heard: list[int] = []

    def open(self, context: Context) -> None:
        self.tasks = context.fan_out

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        if not self.by_key:
            out.send((rows,), len(rows))
            return items.count
        for task in range(self.tasks):
            chosen = rows[rows[:, 0] % self.tasks == task]
            if len(chosen):
                out.send((chosen,), len(chosen), to=task)
        return items.count

    def process_feedback(self, items: Items, out: Emitter) -> None:
        self.heard.append(items.epoch)


class Total(DataflowOperator):
    """Destination: the sum of the values of each key; feeds back each window's number where there is an edge for it."""

    def __init__(self, feeds_back: bool = False) -> None:
        self.state: Vector = Vector(KEYS)
        self.feeds_back = feeds_back

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        return first + self.state.add(rows[first:, 0].astype(np.int64), rows[first:, 1])

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        if self.feeds_back:
            out.feed_back((np.array([float(epoch)]),))


class ByKey(DataflowOperator):
    """Stateless: each item (key, value) to the task that has the key."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        keys, values = items.arrays if len(items.arrays) == 2 else items.arrays[0].T
        out.send_by_key(keys.astype(np.int64), (values,))
        return items.count


class Sums(DataflowOperator):
    """The sum of the values of each of its keys, handed on by key where there is somebody."""

    def __init__(self) -> None:
        self.state: HashMap = HashMap()

    def open(self, context: Context) -> None:
        self.is_last = not context.fan_out

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        keys, values = items.arrays
        left = first + self.state.add(keys[first:], values[first:])
        if not self.is_last:
            out.send_by_key(keys[first:left], (values[first:left],))
        return left


class Windowed(DataflowOperator):
    """Sends the sum of each key of a window when it is closed, and forgets it."""

    def __init__(self) -> None:
        self.state: HashMap = HashMap()

    def open(self, context: Context) -> None:
        self.tasks = context.fan_out

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        keys = rows[first:, 0].astype(np.int64) * BUCKETS + items.epoch
        return first + self.state.add(keys, rows[first:, 1])

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        keys = np.arange(KEYS) * BUCKETS + epoch
        sums = self.state.get(keys)
        for task in range(self.tasks):
            chosen = [key for key in range(KEYS) if sums[key] and key % self.tasks == task]
            if chosen:
                out.send((np.column_stack([chosen, sums[chosen]]),), len(chosen), to=task)
        if not self.state.items()[1].any() or (self.state.items()[1] != 0).sum() == (sums != 0).sum():
            self.state.clear()
        else:
            self.state.assign(keys, np.zeros(KEYS))


class Timed(DataflowOperator):
    """Source of (key, time, value) for panes: the n-th item happened at n, but is said to have happened up to 9 before;
    promises some of that, so that some items are late, and is idle where it reads nothing."""

    def __init__(self, by_key: bool = True) -> None:
        self.by_key = by_key

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        keys, values = rows[:, 0].astype(np.int64), rows[:, 1]
        times = (values.astype(np.int64) + np.arange(len(rows)) + 16 * items.epoch) % 41 + 10 * items.epoch
        out.watermark(max(int(times.max()) - 12, out.promised or 0))
        if self.by_key:
            out.send_by_key(keys, (times, values))
        else:
            out.send((keys, times, values), items.count)
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        out.idle()


class Silent(DataflowOperator):
    """Source of the same that promises nothing."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        out.send_by_key(rows[:, 0].astype(np.int64), (np.full(len(rows), 5), rows[:, 1]))
        return items.count


class PanesOf(Panes):
    """Panes whose rows go on as (key, value) pairs, retractions as negative ones: they add up to the panes' sums.

    `marks`: each row counts several times, so often as its bounds and its kind say.
    """

    def __init__(self, marks: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.marks = marks

    def put_out(self, fired: Fired, out: Emitter) -> None:
        signs = np.where(fired.kinds == RETRACTION, -1.0, 1.0)
        times = 1 + (7 * fired.starts + 3 * fired.ends + 5 * fired.kinds) % 31 if self.marks else 1
        out.send_by_key(fired.keys, (signs * times * fired.values,))

    def put_out_late(self, late: TimedItems, out: Emitter) -> None:
        out.send_by_key(late.keys, (late.values,))


class Timely(DataflowOperator):
    """Stateless: (key, time, value) on to the task that has the key; its promise is that of those before it."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        keys, *columns = items.arrays
        out.send_by_key(keys, columns)
        return items.count


class Circulate(Iteration):
    """Sums the values of each key of a window, and passes the sums on from key to key until each is back where it was.

    With `delta` only keys that have a sum pass it on, so the tasks' messages differ in number."""

    def __init__(self, delta: bool = False) -> None:
        super().__init__(KEYS + 1)
        self.state = LoopState(2, sums=np.zeros(KEYS))
        self.delta = delta

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        assert not self.iterating, "an item of a later window within a loop"
        return super().process_data(items, first, out)

    def begin(self) -> None:
        rows, self.state.rows = self.state.rows, np.zeros((0, 2))
        self.state.arrays["sums"] = np.bincount(rows[:, 0].astype(np.int64), rows[:, 1], KEYS)

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        if number:
            assert totals[0] == self._tasks, "each task has its say in each superstep"
            self.state.arrays["sums"] = np.bincount(messages.keys, messages.values, KEYS)
        sums = self.state.arrays["sums"]
        keys = np.flatnonzero(sums) if self.delta else np.arange(KEYS)
        if number == KEYS:
            return Spoken(NO_MESSAGES, np.ones(1))
        return Spoken(Messages((keys + 1) % KEYS, sums[keys]), np.ones(1))

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(KEYS), self.state.arrays["sums"]


class Wandering(AsynchronousLoop):
    """As Circulate without supersteps: a sum goes from key to key, and counts once it is back where it was.

    A message is the key that a sum belongs to, how far it has come, and the sum."""

    def __init__(self) -> None:
        self.state = LoopState(2, sums=np.zeros(KEYS))

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        assert not self.iterating, "an item of a later window within a loop"
        return super().process_data(items, first, out)

    def begin(self) -> Messages:
        rows, self.state.rows = self.state.rows, np.zeros((0, 2))
        self.state.arrays["sums"] = np.zeros(KEYS)
        sums = np.bincount(rows[:, 0].astype(np.int64), rows[:, 1], KEYS)
        keys = np.flatnonzero(sums)
        return self._onwards(keys, np.zeros(len(keys)), sums[keys])

    def _onwards(self, homes: np.ndarray, gone: np.ndarray, sums: np.ndarray) -> Messages:
        keys = (homes + gone.astype(np.int64) + 1) % KEYS
        return Messages(keys, np.column_stack([homes, gone + 1, sums]))

    def work(self, messages: Messages) -> Messages:
        homes, gone, sums = messages.values.T
        back = gone == KEYS
        assert (messages.keys == (homes + gone) % KEYS).all()
        self.state.arrays["sums"] = self.state.arrays["sums"] + np.bincount(messages.keys[back], sums[back], KEYS)
        return self._onwards(homes[~back].astype(np.int64), gone[~back], sums[~back])

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(KEYS), self.state.arrays["sums"]


class CirclesInCircles(NestedIteration):
    """Sums the values of each key of a window. In each of two steps of the outer loop an inner loop carries the sums of
    every other key around all keys; what has come round is counted."""

    TURNS = 2

    def __init__(self) -> None:
        super().__init__(self.TURNS * (KEYS + 1))
        self.state = LoopState(2, sums=np.zeros(KEYS), round=np.zeros(KEYS))

    def begin(self) -> None:
        rows, self.state.rows = self.state.rows, np.zeros((0, 2))
        sums = np.bincount(rows[:, 0].astype(np.int64), rows[:, 1], KEYS)
        self.state.arrays |= {"sums": sums, "round": np.zeros(KEYS)}

    def outer_step(self, outer: int, messages: Messages, totals: np.ndarray) -> Spoken:
        assert len(messages.keys) == 0, "the inner loop has ended"
        keys = np.arange(outer, KEYS, self.TURNS)
        return Spoken(Messages((keys + 1) % KEYS, self.state.arrays["sums"][keys]), np.ones(1))

    def inner_step(self, inner: int, messages: Messages, totals: np.ndarray) -> Spoken:
        outer = self.state.arrays["place"][0]
        assert totals[0] == self._tasks and ((messages.keys - inner) % KEYS % self.TURNS == outer).all()
        if inner < KEYS:
            return Spoken(Messages((messages.keys + 1) % KEYS, messages.values), np.ones(1))
        np.add.at(self.state.arrays["round"], messages.keys, messages.values)
        return Spoken(NO_MESSAGES, np.ones(1))

    def outer_finished(self, outer: int, totals: np.ndarray) -> bool:
        return outer == self.TURNS - 1

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(KEYS), self.state.arrays["round"]


class Rounds(DataflowOperator):
    """Head of a loop over two stages: sends a window's sums through the loop that the stage behind it runs, again when
    all have come back, several times; then on for good. A row is key, task that it is from (-1: on for good), hops and
    value. A new incarnation gets what had come back before its loop begins once more, and keeps it until then. It
    counts what comes back, so none may come in another order, which would make the next turn begin elsewhere."""

    TURNS = 3
    needs_order = True

    def __init__(self) -> None:
        self.state = LoopState(2, sums=np.zeros(KEYS), away=np.zeros(1), turn=np.zeros(1))

    def open(self, context: Context) -> None:
        self.me = context.index

    @property
    def iterating(self) -> bool:
        return self.state.iterating

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.state.append(items.epoch, np.column_stack(items.arrays)[first:])
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self.state.begin(epoch)
        rows, self.state.rows = self.state.rows, np.zeros((0, 2))
        sums = np.bincount(rows[:, 0].astype(np.int64), rows[:, 1], KEYS)
        self.state.arrays |= {"sums": sums, "turn": np.zeros(1)}
        self._turn(out)
        for arrays in self.state.waited(epoch):
            self._come_back(arrays[0], out)

    def process_feedback(self, items: Items, out: Emitter) -> None:
        assert items.stage == "c"
        if self.iterating:
            self._come_back(items.arrays[0], out)
        else:
            self.state.wait(items.epoch, items.task, items.arrays)

    def _come_back(self, rows: np.ndarray, out: Emitter) -> None:
        keys, homes, hops, values = rows.T
        assert (homes == self.me).all() and (hops == KEYS).all()
        arrays = self.state.arrays
        arrays["sums"] = arrays["sums"] + np.bincount(keys.astype(np.int64), values, KEYS)
        arrays["away"] = arrays["away"] - len(keys)
        if arrays["away"][0] == 0:
            arrays["turn"] = arrays["turn"] + 1
            self._turn(out)

    def _turn(self, out: Emitter) -> None:
        arrays = self.state.arrays
        keys = np.flatnonzero(arrays["sums"])
        is_over = arrays["turn"][0] == self.TURNS or not len(keys)
        rows = np.column_stack([keys, np.full(len(keys), -1 if is_over else self.me), 0 * keys, arrays["sums"][keys]])
        arrays |= {"away": np.array([float(len(keys))]), "sums": np.zeros(KEYS)}
        self.state.iterating = not is_over
        out.send_by_key(keys, (rows,))


class Carousel(DataflowOperator):
    """Without a state: carries each row around its own tasks by an inner loop, then back to where it is from."""

    def open(self, context: Context) -> None:
        self.next = (context.index + 1) % context.parallelism

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        keys, rows = items.arrays
        if rows[0, 1] < 0:
            out.send_by_key(keys, (rows[:, 3].copy(),))
        else:
            self._onwards(rows, out)
        return items.count

    def process_feedback(self, items: Items, out: Emitter) -> None:
        assert items.stage == "c"
        self._onwards(items.arrays[0], out)

    def _onwards(self, rows: np.ndarray, out: Emitter) -> None:
        """A block's rows have come as far, and are from one task."""
        hops, home = int(rows[0, 2]), int(rows[0, 1])
        if hops == KEYS:
            out.feed_back((rows,), len(rows), to=home, stage="b")
        else:
            out.feed_back((rows + np.array([0, 0, 1, 0]),), len(rows), to=self.next, stage="c")


class TotalOfLoop(Total):
    """As Total, of keys and values as loops send them."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        return super().process_data(items._replace(arrays=(np.column_stack(items.arrays),)), first, out)


class Turn(DataflowOperator):
    """Without a state: hands the items of a block on in reverse order."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        out.send([rows[::-1].copy() for rows in items.arrays], items.count)
        return items.count


def _topology(
    stages: Mapping[str, tuple[str, int, dict[str, Any]]], edges: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "stages": {
            name: {"operator": f"dataflow_jobs:{operator}", "parallelism": tasks, "options": options}
            for name, (operator, tasks, options) in stages.items()
        },
        "edges": [{"partitioning": "full", "feedback": False} | dict(edge) for edge in edges],
    }


def _loop(**consistency: Any) -> dict[str, Any]:
    stages = {"a": ("Spread", 2, {}), "b": ("Total", 2, {"feeds_back": True})}
    return _topology(stages, [{"from": "a", "to": "b"}, {"from": "b", "to": "a", "feedback": True} | consistency])


def _circle(*loops: tuple[str, int, dict[str, Any]]) -> dict[str, Any]:
    """Stages that circulate each window's sums among their tasks, one behind the other."""
    circles = {f"b{number}": loop for number, loop in enumerate(loops, 1)}
    stages = {"a": ("Spread", 2, {}), **circles, "c": ("TotalOfLoop", 2, {})}
    edges = [{"from": one, "to": next_one} for one, next_one in pairwise(stages)]
    return _topology(stages, edges + [{"from": stage, "to": stage, "loop": True} for stage in circles])


STRIPED = {
    "scheme": "erasure", "code": "gf256", "k": 2, "r": 2, "attachment": "lazy", "hedge": "none", "incremental": True,
    "rows": 1,
}  # fmt: skip
COPIED = {"scheme": "replication", "copies": 2}


def _coded(before: Mapping[str, Any], behind: Mapping[str, Any], scheme: Mapping[str, Any] = STRIPED) -> dict[str, Any]:
    """A chain with a coded stage of four tasks in it."""
    stages = {**before, "f": ("Turn", 4, {}), **behind}
    chain = _topology(stages, [{"from": one, "to": next_one} for one, next_one in pairwise(stages)])
    chain["stages"]["f"]["fault_tolerance"] = dict(scheme)
    return chain


def panes(**options: Any) -> dict[str, Any]:
    """Sums of panes, and of what is too late: each item counts once in the end, whatever was put out early."""
    stages = {"a": ("Timed", 2, {}), "b": ("PanesOf", 3, {"aggregate": "sum"} | options), "c": ("Sums", 2, {})}
    return _topology(stages, [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}])


SHAPES = {
    "full": _topology({"a": ("Spread", 2, {}), "b": ("Total", 2, {})}, [{"from": "a", "to": "b"}]),
    "chain": _topology(
        {"a": ("Spread", 2, {"by_key": False}), "b": ("Spread", 4, {"by_key": False}), "c": ("Total", 2, {})},
        [{"from": "a", "to": "b", "partitioning": "split"}, {"from": "b", "to": "c", "partitioning": "merge"}],
    ),
    "sources": _topology(
        {"a": ("Spread", 1, {}), "b": ("Spread", 2, {}), "c": ("Total", 2, {})},
        [{"from": "a", "to": "c"}, {"from": "b", "to": "c"}],
    ),
    "windows": _topology(
        {"a": ("Spread", 2, {}), "b": ("Windowed", 2, {}), "c": ("Total", 1, {})},
        [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}],
    ),
    "local": _topology({"a": ("Windowed", 2, {}), "b": ("Total", 2, {})}, [{"from": "a", "to": "b"}]),
    "keyed": _topology(
        {"a": ("ByKey", 2, {}), "b": ("Sums", 3, {}), "c": ("Sums", 2, {})},
        [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}],
    ),
    "panes": panes(panes="fixed", size=7, mode="retracting", early_items=2, lateness=4),
    "bsp": _loop(consistency="bsp"),
    "ssp": _loop(consistency="ssp", staleness=2),
    "asp": _loop(consistency="asp"),
    "self": _circle(("Circulate", 3, {})),
    "two_cycles": _circle(("Circulate", 2, {}), ("Circulate", 2, {"delta": True})),
    "delta": _circle(("Circulate", 2, {"delta": True})),
    "async_loop": _circle(("Wandering", 3, {})),
    "nested": _circle(("CirclesInCircles", 2, {})),
    "nested_stages": _topology(
        {"a": ("Spread", 2, {}), "b": ("Rounds", 2, {}), "c": ("Carousel", 2, {}), "d": ("TotalOfLoop", 2, {})},
        [
            *({"from": one, "to": next_one} for one, next_one in pairwise("abcd")),
            {"from": "c", "to": "c", "loop": True},
            {"from": "c", "to": "b", "loop": True},
        ],
    ),
    "coded": _coded({"a": ("Spread", 2, {"by_key": False})}, {"c": ("Spread", 2, {}), "d": ("Total", 2, {})}),
    "copied": _coded({"a": ("Spread", 2, {"by_key": False})}, {"c": ("Spread", 2, {}), "d": ("Total", 2, {})}, COPIED),
    "coded_end": _coded({"a": ("Spread", 1, {"by_key": False})}, {"c": ("Total", 1, {})}),
    "coded_inside": _coded(
        {"s": ("Spread", 2, {}), "a": ("Spread", 2, {"by_key": False})}, {"c": ("Spread", 2, {}), "d": ("Total", 2, {})}
    ),
}
"""full: 2 -> 2 by key; chain: split, then merged; sources: two stages into one; windows and local: sums sent as windows
are closed, behind the sources or in them; keyed: sums by key, twice; panes: by event time, with late items; bsp, ssp,
asp: a loop under each model; self, two_cycles, delta: loops in supersteps; async_loop: one without; nested: a loop in a
loop, in one stage's state; nested_stages: over two stages, of which the second has a loop of its own."""


BEHIND_FEEDBACK = _topology(
    {"s": ("Spread", 2, {}), "a": ("Spread", 1, {}), "m": ("Windowed", 2, {}), "b": ("Total", 1, {"feeds_back": True})},
    [{"from": one, "to": next_one} for one, next_one in pairwise("samb")]
    + [{"from": "b", "to": "a", "feedback": True}],
)
"""Feedback comes to a stage that is no source: what its senders are ahead by waits there."""


def topology(shape: str | Mapping[str, Any], fault_tolerance: Mapping[str, Any]) -> Topology:
    """One of SHAPES, or stages and edges of a test's own, under a scheme."""
    rest = {
        "job": "job",
        "input": {"path": "none", "repeat": 1, "limit": None},
        "micro_batch": 10,
        "seed": 1,
        "fault_tolerance": fault_tolerance,
        "links": {"block_bytes": 64, "window_epochs": 2},
        "backup": {"servers": 1, "storage": None, "durability": "fsync", "interval_ms": 1},
        "cluster": dict.fromkeys(
            ("heartbeat_timeout_s", "startup_timeout_s", "recovery_timeout_s", "stall_timeout_s"), 1.0
        ),
    }
    return Topology.from_dict(rest | (SHAPES[shape] if isinstance(shape, str) else shape))
