"""Each law of DataflowOperators and of their states is broken by a mutant, and names its line."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.codec.errors import JobFailed
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.states import Backup, HashMap, State
from riprap.operators.trial import dataflow, states
from riprap.operators.trial.graph import Graph, Outbox, Route, calls_of
from riprap.operators.trial.law import Outcome, try_laws

PLACE = Context(index=0, parallelism=1, upstream={"before": 1}, downstream={"next": 2})
ROUTES = [Route("", "next", [[0, 1]]), Route("", "before", [[0]], feedback=True)]
LAWS = (*dataflow.LAWS, *states.LAWS)


def given(window_blocks: int = 3) -> list[Items | int]:
    """Three windows of blocks of keys."""
    rng = np.random.default_rng(2)
    entries: list[Items | int] = []
    for window in (1, 2, 3):
        for _ in range(window_blocks):
            keys = rng.integers(0, 40, 60)
            keys.flags.writeable = False
            entries.append(Items(window, "", 0, 60, (keys,)))
        entries.append(window)
    return entries


class Ports(DataflowOperator):
    """What the others are mutants of: counts keys, and sends how many there are when a window ends."""

    def __init__(self) -> None:
        self.state: Any = HashMap("int64", "maximum", "int64")

    def prepare(self, items: Items) -> Items:
        return items._replace(arrays=(items.arrays[0] * 2,))

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        keys = items.arrays[0][first:]
        return first + int(self.state.add(keys, np.ones(len(keys), np.int64)))

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        out.send([self.state.items()[1]], 1, to=epoch % 2)
        out.feed_back([np.array([epoch])])
        out.write("counts", {"counts": self.state.items()[1]})

    def results(self) -> dict[str, np.ndarray]:
        keys, counts = self.state.items()
        return {"keys": keys, "counts": counts}

    def metrics(self) -> dict[str, float]:
        return {"keys": float(len(self.state))}


class NoIndex(Ports):
    def process_data(self, items: Items, first: int, out: Emitter) -> Any:
        super().process_data(items, first, out)


class Standing(Ports):
    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        return first


class Bare(Ports):
    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        out.send(self.state.items()[1], 1)


class Astray(Ports):
    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        out.send([], 1, stage="elsewhere")


class Beyond(Ports):
    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        out.send([], 1, to=2)


class Writing(Ports):
    def prepare(self, items: Items) -> Items:
        found = super().prepare(items)
        if items.arrays[0].flags.writeable:
            items.arrays[0][:] = 0
        return found


class Clocked(Ports):
    clock = itertools.count()

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        out.send([np.array([next(self.clock)])], 1)


class Tracing(Ports):
    def prepare(self, items: Items) -> Items:
        self.seen = items.count
        return super().prepare(items)


class Alone(Ports):
    """What it returns depends on the thread that it is called on."""

    def prepare(self, items: Items) -> Items:
        own = threading.current_thread() is threading.main_thread()
        return items._replace(arrays=(items.arrays[0] * (2 if own else 3),))


class NoResults(Ports):
    def results(self) -> Any:
        return self.state.items()


class Unbounded(Ports):
    def results(self) -> dict[str, np.ndarray]:
        return {"share": np.array([np.nan])}


class NoMetrics(Ports):
    def metrics(self) -> Any:
        return {"keys": None}


class Whole(Ports):
    """It takes in all of a block, whatever its state says, and again what came before the stop."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        return int(self.state.add(items.arrays[0], np.ones(items.count, np.int64)))


class Early(Ports):
    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        keys = items.arrays[0][first : first + 7]
        return first + int(self.state.add(keys, np.ones(len(keys), np.int64)))


class Outside(Ports):
    windows = 0

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self.windows += 1
        out.send([np.array([self.windows])], 1)


class Total(State):
    """What the states below are mutants of: a sum."""

    def __init__(self) -> None:
        self.total, self.saved = np.zeros(1), 0.0

    def add(self, keys: np.ndarray, ones: np.ndarray) -> int:
        for done, key in enumerate(keys, 1):
            self.total[0] += key
            if self.exceeded:
                return done
        return len(keys)

    def items(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(1), self.total.copy()

    def __len__(self) -> int:
        return 1

    def state_divergence(self) -> float:
        return float(self.total[0] - self.saved)

    def backup_state(self) -> Backup:
        self.saved = float(self.total[0])
        return Backup(True, (self.total.copy(),))

    def recover_state(self, backup: Backup) -> None:
        self.total = np.array(backup.arrays[0])
        self.saved = float(self.total[0])


class Vague(Total):
    def state_divergence(self) -> Any:
        return None


class Listed(Total):
    def backup_state(self) -> Any:
        return [self.total]


class Restless(Total):
    def backup_state(self) -> Backup:
        return Backup(True, (self.total.copy(),))


class Rounded(Total):
    def recover_state(self, backup: Backup) -> None:
        super().recover_state(backup)
        self.total += 1
        self.saved += 1


class Shared(Total):
    def backup_state(self) -> Backup:
        self.saved = float(self.total[0])
        return Backup(True, (self.total,))


class Parts(Total):
    """Its partial backups are taken for whole ones."""

    def backup_state(self) -> Backup:
        before, self.saved = self.saved, float(self.total[0])
        return Backup(False, (self.total - before,))

    def backup_all(self) -> Backup:
        return super().backup_state()


def with_state(kind: type[State]) -> type[DataflowOperator]:
    """The operator around another state."""

    class Around(Ports):
        def __init__(self) -> None:
            self.state = kind()

    return Around


def outcomes_of(kind: type[DataflowOperator]) -> list[Outcome]:
    def make() -> DataflowOperator:
        operator = kind()
        operator.open(PLACE)
        return operator

    outbox = partial(Outbox, 0, ROUTES)
    case = dataflow.OperatorCase(make, outbox, calls_of(make(), outbox(), given()))
    return list(try_laws("count", case, LAWS))


def broken(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {outcome.law: str(outcome.complaint) for outcome in outcomes if outcome.complaint}


def check_place(complaint: str, function: Any) -> None:
    lines, first = inspect.getsourcelines(function)
    places = {f"{Path(__file__)}:{line}" for line in range(first, first + len(lines))}
    assert any(place in complaint for place in places), complaint


FIRST = "process_data says how far it came"
OPERATORS = [
    (NoIndex, "process_data", FIRST, "NoIndex.process_data returned None; expected the number of the first item"),
    (Standing, "process_data", FIRST, "Standing.process_data returned 0, the item that it was to begin with"),
    (Bare, "process_punctuation", FIRST, "out.send was given an array of int64"),
    (Astray, "process_punctuation", FIRST, "out.send was given the stage 'elsewhere'; expected the one"),
    (Beyond, "process_punctuation", FIRST, "out.send was given the task 2; expected one of next"),
    (Writing, "prepare", "items stay as they are", "changed its items"),
    (Clocked, "process_punctuation", "the same calls lead to", "Clocked.process_punctuation sent something else"),
    (Tracing, "prepare", "prepare leaves no trace", "Tracing.prepare changed seen"),
    (Alone, "prepare", "prepare gives the same in several threads", "while 4 threads called it: array 0[0] is"),
    (NoResults, "results", "results are arrays by name", "NoResults.results returned a tuple of 2"),
    (Unbounded, "results", "results are arrays by name", "1 of 1 numbers of array 0 are NaN or infinite"),
    (NoMetrics, "metrics", "metrics are numbers by name", "NoMetrics.metrics returned None as 'keys'"),
    (Whole, "process_data", "theta may stop it anywhere", "Whole.process_data"),
    (Early, "process_data", "theta may stop it anywhere", "before the end of the block"),
    (Outside, "process_punctuation", "a restored operator goes on", "after a restart behind window 1: to next"),
]


@pytest.mark.parametrize(
    ("mutant", "method", "law", "said"), OPERATORS, ids=lambda value: getattr(value, "__name__", "")
)
def test_each_law_of_operators(mutant: type[DataflowOperator], method: str, law: str, said: str) -> None:
    found = broken(outcomes_of(mutant))
    text, complaint = next(iter(found.items()))
    assert len(found) == 1 and text.startswith(law) and said in complaint, found
    if mutant is not Writing:
        check_place(complaint, getattr(mutant, method))


STATES = [
    (Vague, "state_divergence", FIRST, "Vague.state_divergence returned None; expected a number"),
    (Listed, "backup_state", "backup_all saves all", "returned a list of 1; expected a Backup"),
    (Restless, "state_divergence", "backup_all saves all", "behind backup_all"),
    (Rounded, "recover_state", "recover_state makes the same", "Rounded.recover_state made another state"),
    (Shared, "backup_all", "backups are copies", "returned arrays that changed later"),
    (Parts, "recover_state", "and of what backup_state saved", "made another state from backup_state"),
]


@pytest.mark.parametrize(("mutant", "method", "law", "said"), STATES, ids=lambda value: getattr(value, "__name__", ""))
def test_each_law_of_states(mutant: type[State], method: str, law: str, said: str) -> None:
    found = broken(outcomes_of(with_state(mutant)))
    text, complaint = next(iter(found.items()))
    assert text.startswith(law) and said in complaint, found
    assert mutant.__name__ in complaint


@pytest.mark.parametrize("kind", [Ports, with_state(Total)], ids=["map", "own state"])
def test_sound_operators_break_no_law(kind: type[DataflowOperator]) -> None:
    assert all(outcome.ok for outcome in outcomes_of(kind)), broken(outcomes_of(kind))


class Stateless(DataflowOperator):
    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        out.send(items.arrays, items.count)
        return items.count


def test_without_a_state_its_laws_are_not_tried() -> None:
    outcomes = outcomes_of(Stateless)
    assert not broken(outcomes)
    assert {outcome.not_tried for outcome in outcomes} == {"", "it has no state", "it defines no prepare"}


class Echo(DataflowOperator):
    """Sends what comes on, and back what comes from there."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str, int, int]] = []

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.seen.append(items[:4])
        if items.stage == "":
            out.send(items.arrays, items.count)
        else:
            out.feed_back(items.arrays, items.count)
        return items.count

    def process_feedback(self, items: Items, out: Emitter) -> None:
        self.seen.append(items[:4])


def test_a_graph_hands_blocks_and_feedback_to_the_tasks_that_are_joined() -> None:
    places = {
        "a": [Context(index=i, parallelism=2, upstream={}, downstream={"b": 2}) for i in range(2)],
        "b": [Context(index=i, parallelism=2, upstream={"a": 2}, downstream={}) for i in range(2)],
    }
    routes = [Route("a", "b", [[0], [1]]), Route("b", "a", [[0, 1], [0, 1]], feedback=True)]
    graph = Graph(places, routes, lambda stage: Echo())
    graph.feed("a", 1, [np.arange(4)], 4)
    graph.close()
    seen = {(task.stage, task.context.index): task.operator.seen for tasks in graph.stages.values() for task in tasks}  # type: ignore[attr-defined]
    assert seen == {
        ("a", 0): [(1, "b", 1, 4)],
        ("a", 1): [(1, "", 0, 4), (1, "b", 1, 4)],
        ("b", 0): [],
        ("b", 1): [(1, "a", 1, 4)],
    }


def test_blocks_are_dealt_in_turn_and_the_second_time_alike() -> None:
    def dealt() -> list[tuple[int, ...]]:
        graph = Graph(
            {
                "a": [Context(index=0, parallelism=1, upstream={}, downstream={"b": 3})],
                "b": [Context(index=i, parallelism=3, upstream={"a": 1}, downstream={}) for i in range(3)],
            },
            [Route("a", "b", [[0, 1, 2]], in_turn=True)],
            lambda stage: Stateless() if stage == "a" else Echo0(),
        )
        for number in range(30):
            graph.feed("a", 0, [np.full(2, number)], 2)
        return [message.to for entry in graph.stages["a"][0].calls for message in entry.sent]

    first = dealt()
    assert set(first) == {(0,), (1,), (2,)} and dealt() == first


class Echo0(DataflowOperator):
    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        return items.count


def test_a_graph_names_the_task_that_raised() -> None:
    graph = Graph({"a": [PLACE]}, [], lambda stage: Stateless())
    with pytest.raises(JobFailed, match=r"out.send was given the stage None; expected the one that is meant of: none"):
        graph.feed("a", 0, [np.arange(3)], 3)
    assert graph.broken is graph.stages["a"][0] and len(graph.broken.calls) == 1
