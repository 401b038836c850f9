"""Random graphs by event time: sources that promise what they please, panes anywhere; and a plain model of the rows."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
from random_graphs import Drawn, EndlessGraph, Graph
from random_operators import KEYS, LATE_WEIGHT, WINDOW_TIME, weight

from riprap.codec.ids import WorkerId
from riprap.operators.panes.rows import EARLY, LATE, NEVER, ON_TIME, RETRACTION
from riprap.operators.returns import FOREVER

Row = tuple[float, float, float]
"""Key, value, time."""


class TimedDrawn(Drawn):
    """One job, as it is drawn: there are panes in it, perhaps behind others."""

    def _draw(self) -> None:
        self.keyed: dict[str, tuple[str, str]] = {}
        super()._draw()
        for name, stage in self.stages.items():
            if name.startswith("s"):
                stage["operator"] = "random_operators:Promising"
                stage["options"] |= self._promises()
            elif stage["operator"].endswith("Paned"):
                stage["options"] |= self._panes()
            elif stage["operator"].endswith("Lagging"):
                stage["options"]["lag"] = self.rng.choice([0, 5])

    @property
    def _needs_loop(self) -> bool:
        return False

    def _kind(self, name: str) -> str:
        return "Paned" if name == "m0" else self.rng.choice(["Pass", "Summed", "Prepared", "Lagging", "Paned", "Paned"])

    def _partitioning(self, one: str, to: str) -> tuple[str, str]:
        """All of a key's items come to one task of panes."""
        if self.stages[to]["operator"] != "Paned":
            return super()._partitioning(one, to)
        return self.keyed.setdefault(to, self.rng.choice([("full", "key"), ("full", "hash")]))

    def _promises(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "disorder": rng.choice([0, 3, 12, 50, None]), "at_end": rng.random() < 0.3,
            "wakes": rng.choice([1, 1, 2, 3, 99]),
        }  # fmt: skip

    def _panes(self) -> dict[str, Any]:
        """Where items may count again, only what puts out no less for it."""
        rng = self.rng
        size = rng.choice([1, 4, 7, 30])
        shape = {
            "fixed": {"size": size, "offset": rng.choice([0, 3])},
            "sliding": {"size": size, "slide": rng.randint(1, min(size, 9))},
            "sessions": {"gap": rng.choice([1, 3, 10])},
        }
        kind = rng.choice(sorted(shape))
        repeats = self.name == "at_least_once"
        return shape[kind] | {
            "panes": kind, "aggregate": rng.choice(["sum", "count", "max"] + ["min"] * (not repeats)),
            "mode": rng.choice(["accumulating", "discarding"] + ["retracting"] * (not repeats)),
            "lateness": rng.choice([0, 0, 4, 20]), "early_items": rng.choice([0, 1] if repeats else [0, 1, 3]),
            "late_items": 1 if repeats else rng.choice([1, 2]),
        }  # fmt: skip


class TimedGraph(Graph):
    """Runs it: rows have times, which go on by a step and are out of order."""

    def _rows(self, number: int) -> np.ndarray:
        rng, numbers = random.Random(f"times {self.seed} {number}"), np.random.default_rng([self.seed, number, 1])
        rows, step, disorder = super()._rows(number), rng.choice([0.2, 1.0, 3.0]), rng.choice([0, 12])
        late = numbers.integers(0, disorder + 1, len(rows)) + 40 * (numbers.random(len(rows)) < 0.1)
        return np.column_stack([rows, np.floor(100 + step * np.arange(len(rows)) - late)])

    def model(self) -> dict[str, np.ndarray]:
        return PlainModel(self).sums()


class TimedEndless(TimedGraph, EndlessGraph):
    """Sources read a stream without end."""


class Told(NamedTuple):
    """The word of a task at the end of a window."""

    at: int | None
    idle: bool


class PlainModel:
    """Window by window: the rows that come to a stage, and the event times of its tasks."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.windows = graph, range(1, graph.case.windows + 1)
        self.drawn = graph.drawn
        self.stages = {name: stage for name, stage in self.drawn.stages.items() if name != "f"}
        self.edges = [edge for edge in self.drawn.edges if "mode" in edge]
        self.now: dict[tuple[WorkerId, int], int | None] = {}
        self.told: dict[tuple[WorkerId, int], Told] = {}
        self.put: dict[str, list[list[Row]]] = {}
        for name in self._in_order():
            for worker in graph.topology.tasks(name):
                self._promise(worker)
            self.put[name] = self._put_out(name)

    def _in_order(self) -> list[str]:
        order: list[str] = []
        while left := [name for name in self.stages if name not in order]:
            order += [name for name in left if all(one in order for one, _ in self._into(name))]
        return order

    def _into(self, name: str) -> list[tuple[str, int]]:
        """The stages before one, with how often it gets each of their rows; a coded stage adds none of its own."""
        found = []
        for edge in self.edges:
            if edge["to"] == name:
                before = next(e["from"] for e in self.edges if e["to"] == "f") if edge["from"] == "f" else edge["from"]
                found.append((before, self.stages[name]["parallelism"] if edge["mode"] == "all" else 1))
        return found

    def _promise(self, worker: WorkerId) -> None:
        """docs/time.md, for each window."""
        stage = self.stages[worker.stage]
        kind, options = stage["operator"].split(":")[1], stage["options"]
        senders = [one for joint in self.graph.layouts[worker].inputs if not joint.feedback for one in joint.workers]
        own, before = None, None
        for window in self.windows:
            words = [self.told[sender, window] for sender in senders]
            awaited = [word.at for word in words if not word.idle]
            if window == self.windows[-1]:
                before = FOREVER
            elif awaited and None not in awaited:
                before = _later(before, min(awaited))
            elif not senders:
                before = _later(before, own)
            self.now[worker, window] = before
            word = self._word(kind, options, worker, window)
            own = _later(own, word)
            quiet = kind == "Promising" and window % options["wakes"] != 0
            if own is None and not quiet:
                self.told[worker, window] = Told(before, bool(words) and not awaited)
            else:
                self.told[worker, window] = Told(own, quiet and word is None)

    def _word(self, kind: str, options: dict[str, Any], worker: WorkerId, window: int) -> int | None:
        """The promise that an operator itself makes in a window."""
        if kind == "Lagging":
            now = self.now[worker, window]
            return None if now is None else now - options["lag"]
        if kind != "Promising" or options["disorder"] is None:
            return None
        rows = self.graph.read(worker, window - 1)
        if options["at_end"]:
            return WINDOW_TIME * window - options["disorder"]
        return int(rows[:, 2].max()) - options["disorder"] if len(rows) else None

    def _put_out(self, name: str) -> list[list[Row]]:
        if not self._into(name):
            workers = self.graph.topology.tasks(name)
            return [
                [tuple(row) for worker in workers for row in self.graph.read(worker, window - 1).tolist()]
                for window in self.windows
            ]
        rows = [
            [row for one, times in self._into(name) for row in self.put[one][window - 1] * times]
            for window in self.windows
        ]
        if not self.stages[name]["operator"].endswith("Paned"):
            return rows
        tasks = self.graph.topology.tasks(name)
        (nows,) = {tuple(self.now[worker, window] for window in self.windows) for worker in tasks}
        panes = PlainPanes(**self.stages[name]["options"])
        return [panes.window(own, now) for own, now in zip(rows, nows, strict=True)]

    def sums(self) -> dict[str, np.ndarray]:
        """Of each destination stage, by window and key."""
        found = {}
        for stage in self.graph.topology.sinks:
            whole = found[stage] = np.zeros((len(self.windows), KEYS + 1))
            for window, rows in enumerate(self.put[stage]):
                for key, value, _ in rows:
                    whole[window, int(key)] += value
        return found


def _later(one: int | None, other: int | None) -> int | None:
    return max((at for at in (one, other) if at is not None), default=None)


class Pane:
    """One of a key."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.values: list[float] = []
        self.pending, self.fired, self.last = 0, NEVER, 0.0


class PlainPanes:
    """The rows of panes, item by item."""

    def __init__(self, panes: str, aggregate: str, mode: str, lateness: int, early_items: int, late_items: int,
                 size: int = 0, slide: int = 0, gap: int = 0, offset: int = 0, outs: str = "") -> None:  # fmt: skip
        self.kind, self.mode, self.lateness = panes, mode, lateness
        self.early_items, self.late_items = early_items or math.inf, late_items
        self.size, self.slide, self.gap, self.offset = size, slide or size, gap, offset
        self.aggregate = {"sum": sum, "count": len, "min": min, "max": max}[aggregate]
        self.panes: dict[float, list[Pane]] = defaultdict(list)
        self.before = -FOREVER

    def window(self, rows: list[Row], now: int | None) -> list[Row]:
        """The rows of a window in; those of its panes, and the late ones, out."""
        now = self.before if now is None else max(now, self.before)
        put: list[Row] = []
        moved: list[tuple[float, Pane]] = []
        for key, value, time in sorted(rows):
            self._add(key, value, int(time), moved)
        for key, value, time in rows:
            if not any(pane.start <= time < pane.end for pane in self._live(key)):
                put.append((key, value * LATE_WEIGHT, time))
        for key, old in moved if self.mode == "retracting" else ():
            put.append(self._row(key, old, old.last, RETRACTION))
        for key in self.panes:
            for pane in self._live(key):
                put += self._fire(key, pane, now)
        self.before = now
        self.panes = defaultdict(list, {key: self._live(key) for key in self.panes})
        return put

    def _live(self, key: float) -> list[Pane]:
        return [pane for pane in self.panes[key] if pane.end + self.lateness > self.before]

    def _add(self, key: float, value: float, time: int, moved: list[tuple[float, Pane]]) -> None:
        for start, end in self._bounds(time):
            pane = Pane(start, end)
            pane.values, pane.pending = [value], 1
            self._join(key, pane, moved)

    def _bounds(self, time: int) -> list[tuple[int, int]]:
        if self.kind == "sessions":
            return [(time, time + self.gap)]
        last = (time - self.offset) // self.slide * self.slide + self.offset
        return [(start, start + self.size) for start in range(last, time - self.size, -self.slide)]

    def _join(self, key: float, new: Pane, moved: list[tuple[float, Pane]]) -> None:
        """With that of the same bounds, or with all sessions that it overlaps."""
        others = self.panes[key]
        if self.kind == "sessions":
            met = [one for one in others if one.start < new.end and new.start < one.end]
        else:
            met = [one for one in others if one.start == new.start]
        whole = Pane(min([new.start, *(one.start for one in met)]), max([new.end, *(one.end for one in met)]))
        for one in met:
            others.remove(one)
            if (one.start, one.end) == (whole.start, whole.end):
                whole.fired, whole.last = one.fired, one.last
            elif one.fired != NEVER:
                moved.append((key, one))
        whole.values = new.values + [value for one in met for value in one.values]
        whole.pending = new.pending + sum(one.pending for one in met)
        others.append(whole)

    def _fire(self, key: float, pane: Pane, now: int) -> list[Row]:
        complete, leaves = pane.end <= now, pane.end + self.lateness <= now
        if complete and pane.fired < ON_TIME:
            kind = LATE if pane.end <= self.before else ON_TIME
        elif complete and pane.pending and (pane.pending >= self.late_items or leaves):
            kind = LATE
        elif not complete and pane.pending >= self.early_items:
            kind = EARLY
        else:
            return []
        found: list[Row] = []
        if pane.pending or self.mode != "discarding":
            if self.mode == "retracting" and pane.fired != NEVER:
                found.append(self._row(key, pane, pane.last, RETRACTION))
            pane.last = float(self.aggregate(pane.values))
            found.append(self._row(key, pane, pane.last, kind))
        pane.fired, pane.pending = kind, 0
        if self.mode == "discarding":
            pane.values = []
        return found

    def _row(self, key: float, pane: Pane, value: float, kind: int) -> Row:
        return key, value * float(weight(pane.start, pane.end, kind)), pane.end - 1
