"""Runs stages of DataflowOperators over some windows in one process, as their workers would, and notes each call.

Blocks are handed on in the order in which they were sent, feedback at once; a window is closed stage by stage.
"""

from __future__ import annotations

import zlib
from bdb import BdbQuit
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from riprap.operators import returns
from riprap.operators.base import Context
from riprap.operators.dataflow import Arrays, DataflowOperator, Items
from riprap.operators.keyed import shares
from riprap.operators.states.checks import Keys
from riprap.operators.trial.arrays import aligned
from riprap.operators.trial.law import breach

MESSAGES_MAX = 200_000
"""The most messages that one block may lead to; stages that feed each other without end stop here."""

Kind = Literal["data", "feedback", "punctuation"]


@dataclass(frozen=True)
class Route:
    """An edge: `targets` has for each upstream task the downstream tasks that it is joined to.

    Where nobody says to which of them, they get blocks in turn (`in_turn`), or each gets all.
    """

    upstream: str
    downstream: str
    targets: Sequence[Sequence[int]]
    feedback: bool = False
    in_turn: bool = False


class Message(NamedTuple):
    """A message of an operator: `way` is "data" or "feedback" to tasks `to` of `stage`, or "write" of file `stage`."""

    way: str
    stage: str
    to: tuple[int, ...]
    items: int
    arrays: tuple[np.ndarray, ...]


class Call(NamedTuple):
    """A call of an operator: its Items, or the number of the window that is closed; and the messages sent."""

    kind: Kind
    given: Items | int
    sent: tuple[Message, ...]


class Outbox:
    """The Emitter of one task: notes each message, and its receivers."""

    def __init__(self, index: int, routes: Sequence[Route]) -> None:
        self.sent: list[Message] = []
        self.event_time: int | None = None
        self.promised: int | None = None
        self._index = index
        self._routes = routes
        self._dealt = 0

    def send(self, arrays: Arrays, count: int, to: int | None = None, stage: str | None = None) -> None:
        held, items = returns.sent("out.send", arrays, count)
        self._note("out.send", "data", [route for route in self._routes if not route.feedback], held, items, to, stage)

    def send_by_key(self, keys: Keys, columns: Arrays = (), stage: str | None = None) -> None:
        held, _ = returns.sent("out.send_by_key", columns, 0)
        ahead = [route for route in self._routes if not route.feedback]
        tasks = {len(route.targets[self._index]) for route in ahead if stage in (None, route.downstream)}
        for share in shares(keys, held, *tasks or {1}):
            self._note("out.send_by_key", "data", ahead, share.arrays, share.items, share.task, stage)

    def feed_back(self, arrays: Arrays, count: int = 1, to: int | None = None, stage: str | None = None) -> None:
        held, items = returns.sent("out.feed_back", arrays, count)
        back = [route for route in self._routes if route.feedback]
        self._note("out.feed_back", "feedback", back, held, items, to, stage)

    def write(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        held = returns.written(name, arrays)
        self.sent.append(Message("write", name, (), 0, tuple(aligned(np.asarray(array)) for array in held.values())))

    def watermark(self, at: int) -> None:
        self.promised = returns.watermark(at, self.promised)

    def idle(self) -> None:
        """There is nobody here who waits."""

    def begin(self, kind: Kind, given: Items | int) -> None:
        """Note the cause of the messages from now on, by which turns are taken: a second time they are the same."""
        told = (given.count, given.arrays[0].tobytes() if given.arrays else b"") if isinstance(given, Items) else given
        self._dealt = zlib.crc32(repr((kind, told)).encode())

    def take(self) -> tuple[Message, ...]:
        """The messages sent since the last time."""
        sent, self.sent = tuple(self.sent), []
        return sent

    def _note(
        self, method: str, way: str, routes: list[Route], arrays: tuple[np.ndarray, ...], count: int, to: int | None,
        stage: str | None,
    ) -> None:  # fmt: skip
        found = [route for route in routes if stage in (None, route.downstream)]
        if len(found) != 1:
            names = ", ".join(route.downstream for route in routes) or "none"
            raise returns.given_wrongly(method, f"the stage {stage!r}", f"the one that is meant of: {names}")
        (route,) = found
        joined = tuple(route.targets[self._index])
        if to is not None and to not in joined:
            raise returns.given_wrongly(
                method, f"the task {to!r}", f"one of {route.downstream} that is joined: {joined}"
            )
        if to is None and route.in_turn:
            self._dealt += 1
            to = joined[self._dealt % len(joined)]
        copied = tuple(aligned(array) for array in arrays)
        self.sent.append(Message(way, route.downstream, joined if to is None else (int(to),), count, copied))


@dataclass
class TrialTask:
    """One task: its operator, started, and all calls of it."""

    stage: str
    context: Context
    operator: DataflowOperator
    out: Outbox
    calls: list[Call] = field(default_factory=list)


def call(operator: DataflowOperator, kind: Kind, given: Items | int, out: Outbox) -> tuple[Message, ...]:
    """Call an operator as a task does, until a block is processed; returns the messages sent."""
    out.begin(kind, given)
    if kind == "punctuation":
        operator.process_punctuation(given, out)  # type: ignore[arg-type]
    elif kind == "feedback":
        operator.process_feedback(given, out)  # type: ignore[arg-type]
    else:
        assert isinstance(given, Items)
        items = returns.prepared(operator, operator.prepare(given), given)
        process(operator, items, 0, out)
    return out.take()


def calls_of(operator: DataflowOperator, out: Outbox, given: Iterable[Items | int]) -> list[Call]:
    """Call one operator with blocks of data, and the windows that are closed; the last call may be one that raised."""
    calls: list[Call] = []
    for one in given:
        kind: Kind = "data" if isinstance(one, Items) else "punctuation"
        try:
            calls.append(Call(kind, one, call(operator, kind, one, out)))
        except BdbQuit:
            raise
        except (Exception, SystemExit):
            return [*calls, Call(kind, one, ())]
    return calls


def process(
    operator: DataflowOperator,
    items: Items,
    first: int,
    out: Outbox,
    stopped: Callable[[int], None] = lambda left: None,
) -> None:
    """Process prepared items from `first` on; `stopped` is called where the operator stops before the end."""
    while first < items.count:
        left = returns.first_left(operator, operator.process_data(items, first, out), first, items.count)
        if left == first:
            raise breach(
                operator,
                "process_data",
                f"returned {left}, the item that it was to begin with",
                "progress: at least one item is processed before it stops for a backup",
                "Return items.count, or what the state's update returned plus first.",
            )
        first = left
        if first < items.count:
            stopped(first)


class Graph:
    """All tasks of all stages; `stages` come in the order of the stream, each with the contexts of its tasks."""

    def __init__(
        self, stages: Mapping[str, Sequence[Context]], routes: Sequence[Route], make: Callable[[str], DataflowOperator]
    ) -> None:
        self.stages: dict[str, list[TrialTask]] = {}
        self.epoch = 0
        self.broken: TrialTask | None = None
        """The task whose last call raised."""
        self._make, self._routes = make, routes
        for name, contexts in stages.items():
            self.stages[name] = [
                TrialTask(name, context, self.started(name, context), self.outbox(name, context))
                for context in contexts
            ]

    def started(self, stage: str, context: Context) -> DataflowOperator:
        """A fresh operator of a stage."""
        operator = self._make(stage)
        operator.open(context)
        return operator

    def outbox(self, stage: str, context: Context) -> Outbox:
        """A fresh one of a task."""
        return Outbox(context.index, [route for route in self._routes if route.upstream == stage])

    def feed(self, stage: str, index: int, arrays: Sequence[np.ndarray], count: int) -> None:
        """A block of the job's input, in the window that is open."""
        items = Items(self.epoch + 1, "", 0, count, tuple(aligned(array) for array in arrays))
        self._deliver(deque([(self.stages[stage][index], "data", items)]))

    def close(self) -> None:
        """Close the window at all stages, in the order of the stream."""
        self.epoch += 1
        for tasks in self.stages.values():
            for task in tasks:
                self._deliver(deque([(task, "punctuation", self.epoch)]))

    def _deliver(self, queue: deque[tuple[TrialTask, Kind, Items | int]]) -> None:
        for _ in range(MESSAGES_MAX):
            if not queue:
                return
            task, kind, given = queue.popleft()
            try:
                sent = call(task.operator, kind, given, task.out)
            except BdbQuit:
                raise
            except (Exception, SystemExit):
                task.calls.append(Call(kind, given, ()))
                self.broken = task
                raise
            task.calls.append(Call(kind, given, sent))
            epoch = given if isinstance(given, int) else given.epoch
            for message in sent:
                for to in message.to:
                    items = Items(epoch, task.stage, task.context.index, message.items, message.arrays)
                    way: Kind = "feedback" if message.way == "feedback" else "data"
                    queue.append((self.stages[message.stage][to], way, items))
        raise breach(task.operator, f"process_{kind}", f"led to more than {MESSAGES_MAX:,} messages", "an end of them")
