"""Each law of sources, processors and sinks is broken by a mutant that keeps all others, and names its line."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.operators.base import Arrays, Context, Processor, Sink, Source
from riprap.operators.trial import processor, sink, source
from riprap.operators.trial.law import RESTS, Cause, Outcome, try_laws
from riprap.operators.trial.play import Play
from riprap.operators.trial.subjects import opened_processor, opened_sink, opened_source

CONTEXT = Context(("a", "b", "c"))
ROWS = np.random.default_rng(1).standard_normal((240, 3))
EPOCHS = [np.array_split(part, 4) for part in np.array_split(ROWS, 3)]


def broken(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {outcome.law: str(outcome.complaint) for outcome in outcomes if outcome.complaint}


def check_place(complaint: str, kind: type, method: str) -> None:
    """It ends in the line of the method, or names one within it."""
    lines, first = inspect.getsourcelines(getattr(kind, method))
    places = {f"{Path(__file__)}:{line}" for line in range(first, first + len(lines))}
    assert any(place in complaint for place in places), complaint


class Counting(Source):
    """What the others are mutants of."""

    items = 200

    def schema(self) -> tuple[tuple[str, ...], str | None]:
        return ("a", "b"), "b"

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.column_stack([np.arange(start, stop), np.arange(start, stop) % 2]).astype(float)


class Empty(Counting):
    def open(self, context: Context) -> None:
        self.items = 0


class Endless(Counting):
    def open(self, context: Context) -> None:
        self.items = None


class Unnamed(Counting):
    def schema(self) -> Any:
        return None


class TooFew(Counting):
    def read(self, start: int, stop: int) -> np.ndarray:
        return super().read(start, stop - 1)


class Raising(Counting):
    def read(self, start: int, stop: int) -> np.ndarray:
        raise OSError("the disk is gone")


class Holes(Counting):
    def read(self, start: int, stop: int) -> np.ndarray:
        return np.where(super().read(start, stop) == 7, np.nan, super().read(start, stop))


class Random(Counting):
    def read(self, start: int, stop: int) -> np.ndarray:
        return super().read(start, stop) + np.random.default_rng().random()


class ByIncarnation(Counting):
    made = itertools.count()

    def open(self, context: Context) -> None:
        self.number = next(self.made)

    def read(self, start: int, stop: int) -> np.ndarray:
        return super().read(start, stop) + self.number


class ByPiece(Counting):
    def read(self, start: int, stop: int) -> np.ndarray:
        return super().read(start, stop) - super().read(start, stop).mean(axis=0)


class Reused(Counting):
    def open(self, context: Context) -> None:
        self.buffer = np.zeros((200, 2))

    def read(self, start: int, stop: int) -> np.ndarray:
        self.buffer[: stop - start] = super().read(start, stop)
        return self.buffer[: stop - start]


class NoEnd(Counting):
    items = 400

    def read(self, start: int, stop: int) -> np.ndarray:
        if stop > 300:
            raise EOFError("there is no more")
        return super().read(start, stop)


SOURCES = [
    (Empty, "open", "schema names the columns", "set `items` to 0"),
    (Unnamed, "schema", "schema names the columns", "Unnamed.schema returned None"),
    (TooFew, "read", "read returns float64 rows", "TooFew.read(0, 200) returned an array of float64 of shape (199, 2)"),
    (Raising, "read", "read returns float64 rows", "Raising.read raised OSError: the disk is gone"),
    (Holes, "read", "read returns finite numbers", "1 of 400 numbers of array 0 are NaN"),
    (Random, "read", "read returns the same bytes again", "Random.read returned other rows the second time"),
    (ByIncarnation, "read", "a second source reads the same bytes", "returned other rows from a second source"),
    (ByPiece, "read", "in pieces it reads the same bytes", "returned other rows in pieces"),
    (Reused, "read", "rows that were read stay as they are", "changed the rows that it had returned before"),
    (NoEnd, "read", "the last items can be read", "NoEnd.read raised EOFError: there is no more"),
]


@pytest.mark.parametrize(("mutant", "method", "law", "said"), SOURCES, ids=lambda value: getattr(value, "__name__", ""))
def test_each_law_of_sources(mutant: type[Source], method: str, law: str, said: str) -> None:
    case = source.SourceCase(partial(opened_source, mutant, Context()), 200)
    ((text, complaint),) = broken(list(try_laws("source", case, source.LAWS))).items()
    assert text.startswith(law) and said in complaint
    check_place(complaint, mutant, method)


def test_a_sound_source_breaks_no_law_and_may_keep_bad_rows() -> None:
    for kind, keeps in ((Counting, False), (Holes, True), (Endless, False)):
        case = source.SourceCase(partial(opened_source, kind, Context()), 200, keeps)
        assert all(outcome.ok for outcome in try_laws("source", case, source.LAWS))


class Sums(Processor):
    """What the others are mutants of: sums of columns, times a weight that is fed back."""

    weight = 1.0

    def process_data(self, items: np.ndarray) -> Arrays:
        return [np.sum(items, axis=0) * self.weight, np.array([float(len(items))])]

    def process_feedback(self, feedback: Arrays) -> None:
        self.weight = float(feedback[0][0])


class NoList(Sums):
    def process_data(self, items: np.ndarray) -> Any:
        return items.sum(axis=0)


class Overflowing(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        with np.errstate(all="ignore"):
            return [items.sum(axis=0) / np.zeros(3)]


class Moody(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        return super().process_data(items)[: 2 if len(items) > 3 else 1]


class Scaling(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        result = super().process_data(items)
        if items.flags.writeable:  # as a kernel that does not ask would
            items *= 2
        return result


class InPlace(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        items *= 2
        return super().process_data(items)


class Keeping(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        self.last = items[1:]
        return super().process_data(items)


class Counted(Sums):
    calls = 0

    def process_data(self, items: np.ndarray) -> Arrays:
        self.calls += 1
        return [np.sum(items, axis=0) + self.calls, np.array([float(len(items))])]


class OneBuffer(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        if not hasattr(self, "buffer"):
            self.buffer = np.zeros(3)
        self.buffer[:] = items.sum(axis=0)
        return [self.buffer]


class ByAddress(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        return [np.array([float(items.ctypes.data % 8 == 3)])]


class Remembering(Sums):
    def process_feedback(self, feedback: Arrays) -> None:
        self.weight += float(feedback[0][0])


class Borrowing(Sums):
    weight: Any = np.ones(1)

    def process_feedback(self, feedback: Arrays) -> None:
        self.weight = feedback[0][:1]


class Bent(Sums):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items + 1.0

    def process_data(self, items: np.ndarray) -> Arrays:
        return self.process_nonlinear(self.process_linear(items), items)

    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> Arrays:
        return [linear.sum(axis=0)]


class Straight(Bent):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return np.array(items)


class Needy(Straight):
    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> Arrays:
        return [linear.sum(axis=0) + (0.0 if items is None else 1.0)]


class NoFeedback(Processor):
    def process_data(self, items: np.ndarray) -> Arrays:
        return [items.sum(axis=0)]


PROCESSORS = [
    (NoList, "process_data", "process_data returns a list", "NoList.process_data returned an array of float64"),
    (Overflowing, "process_data", "results are finite", "3 of 3 numbers of array 0 are NaN or infinite"),
    (Moody, "process_data", "blocks of any length", "Moody.process_data returned float64 for 1 of a block's rows"),
    (InPlace, "process_data", "process_data returns a list", "InPlace.process_data raised ValueError"),
    (Scaling, "process_data", "items stay as they are", "Scaling.process_data changed its items"),
    (Keeping, "process_data", "items are not kept", "Keeping.process_data kept its items"),
    (Counted, "process_data", "the same items give", "Counted.process_data returned another result the second time"),
    (OneBuffer, "process_data", "results stay as they are", "that changed with the next block"),
    (ByAddress, "process_data", "misaligned items", "at an address 3 bytes behind an aligned one"),
    (
        Remembering,
        "process_feedback",
        "a fresh processor goes on",
        "Remembering.process_feedback left a fresh processor",
    ),
    (Borrowing, "process_feedback", "feedback is copied", "Borrowing.process_feedback kept the arrays"),
    (Bent, "process_linear", "process_linear is linear", "Bent.process_linear is not linear: f(0) is 1, not 0"),
    (Needy, "process_nonlinear", "process_nonlinear needs no items", "without the items than process_data with them"),
]


def of_processor(kind: type[Processor]) -> list[Outcome]:
    feedbacks = [[np.array([2.0])], [np.array([3.0])]]
    case = processor.ProcessorCase(partial(opened_processor, kind, CONTEXT), EPOCHS[0], feedbacks)
    return list(try_laws("processor", case, processor.LAWS))


@pytest.mark.parametrize(
    ("mutant", "method", "law", "said"), PROCESSORS, ids=lambda value: getattr(value, "__name__", "")
)
def test_each_law_of_processors(mutant: type[Processor], method: str, law: str, said: str) -> None:
    ((text, complaint),) = broken(of_processor(mutant)).items()
    assert text.startswith(law) and said in complaint
    check_place(complaint, mutant, method)


def test_sound_processors_break_no_law_and_what_cannot_be_tried_is_said() -> None:
    assert not broken(of_processor(Sums)) and not broken(of_processor(Straight))
    left_out = {outcome.law: outcome.not_tried for outcome in of_processor(Sums) if outcome.not_tried}
    assert set(left_out.values()) == {"it defines no process_linear"} and len(left_out) == 2


def test_a_method_that_is_missing_is_named_by_its_class() -> None:
    (complaint,) = broken(of_processor(NoFeedback)).values()
    line = inspect.getsourcelines(NoFeedback)[1]
    assert complaint.startswith(f"NoFeedback.process_feedback is not defined ({Path(__file__)}:{line})\n")


class Summing(Sink):
    """What the others are mutants of."""

    combines = {"items": "sum"}

    def open(self, context: Context) -> None:
        self.total, self.items = np.zeros(3), 0.0

    def aggregate(self, result: Arrays) -> None:
        self.total = self.total + result[0]
        self.items += float(result[1][0])

    def commit(self, epoch: int) -> Arrays:
        return [np.array([1.0 + epoch])]

    def model(self) -> dict[str, np.ndarray]:
        return {"total": self.total}

    def metrics(self) -> dict[str, float]:
        return {"items": self.items}

    def outputs(self) -> np.ndarray | None:
        return self.total[None, :]

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"total": self.total.copy(), "items": np.array([self.items])}

    def restore(self, snapshot: Any) -> None:
        self.total, self.items = np.array(snapshot["total"]), float(snapshot["items"][0])


class NoMetrics(Summing):
    def metrics(self) -> dict[str, float]:
        return {"mean": 1 / self.items} if self.items else 1 / 0  # type: ignore[return-value]


class NoModel(Summing):
    def model(self) -> Any:
        return [self.total]


class Nothing(Summing):
    def commit(self, epoch: int) -> Any:
        return None


class Flat(Summing):
    def outputs(self) -> Any:
        return self.total


class Widening(Summing):
    def outputs(self) -> np.ndarray | None:
        self.width = getattr(self, "width", 0) + 1
        return np.zeros((1, self.width))


class Diverging(Summing):
    def commit(self, epoch: int) -> Arrays:
        return [np.array([np.inf if epoch > 2 else 1.0])]


class Renaming(Summing):
    def model(self) -> dict[str, np.ndarray]:
        return {f"total of {self.items}": self.total}


class Averaging(Summing):
    combines = {"items": "average"}


class Clocked(Summing):
    made = itertools.count()

    def open(self, context: Context) -> None:
        super().open(context)
        self.total += next(self.made)


class Approximate(Summing):
    def recompute(self, items: np.ndarray) -> Arrays:
        return [np.round(array, 1) for array in super().recompute(items)]


class Sharing(Summing):
    def aggregate(self, result: Arrays) -> None:
        self.total += result[0]
        self.items += float(result[1][0])

    def snapshot(self) -> dict[str, np.ndarray]:
        return super().snapshot() | {"total": self.total}


class Forgetting(Summing):
    def restore(self, snapshot: Any) -> None:
        self.total = np.array(snapshot["total"])


class Momentum(Summing):
    """What it forgets shows in later epochs alone."""

    def open(self, context: Context) -> None:
        super().open(context)
        self.speed = 0.0

    def commit(self, epoch: int) -> Arrays:
        self.speed += 1.0
        return [np.array([self.speed])]

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot)


class Unsaved(Summing):
    def snapshot(self) -> Any:
        return {"total": [self.total] * 3}


SINKS = [
    (NoMetrics, "metrics", "metrics are numbers before the first commit", "NoMetrics.metrics raised ZeroDivisionError"),
    (NoModel, "model", "model is a dictionary of arrays before", "NoModel.model returned a list of 1"),
    (Nothing, "commit", "commit, outputs, model and metrics return", "Nothing.commit returned None; expected a list"),
    (Flat, "outputs", "commit, outputs, model and metrics return", "Flat.outputs returned an array of float64"),
    (Widening, "outputs", "commit, outputs, model and metrics return", "expected 1 columns, as before"),
    (Diverging, "commit", "feedback and model are finite", "returned arrays in epoch 3 of which 1 of 1 numbers"),
    (Renaming, "model", "the model's names stay the same", "Renaming.model named ['total of 160.0']"),
    (Averaging, "metrics", "combines says sum or mean", "has 'average' in `combines`"),
    (Clocked, "commit", "the same results give the same bits", "came to another model the second time, in epoch 1"),
    (Approximate, "recompute", "recompute gives what processors give", "another result than a processor"),
    (Sharing, "snapshot", "snapshots are copies", "returned arrays that changed later: total: array 0[0]"),
    (Forgetting, "restore", "a restored sink goes on", "left another model or other metrics behind"),
    (Momentum, "restore", "a restored sink goes on", "led to another model after a restart behind epoch 1"),
    (Unsaved, "snapshot", "snapshots are copies", "Unsaved.snapshot returned a list of 3 as 'total'"),
]


def of_sink(kind: type[Sink], trains: bool = True) -> list[Outcome]:
    behind = partial(opened_sink, kind, Sums, CONTEXT)
    case = sink.SinkCase(lambda: (opened_processor(Sums, CONTEXT), behind()), EPOCHS, trains)
    return list(try_laws("sink", case, sink.LAWS))


@pytest.mark.parametrize(("mutant", "method", "law", "said"), SINKS, ids=lambda value: getattr(value, "__name__", ""))
def test_each_law_of_sinks(mutant: type[Sink], method: str, law: str, said: str) -> None:
    found = broken(of_sink(mutant))
    text, complaint = next(iter(found.items()))
    assert len(found) == 1 and text.startswith(law) and said in complaint
    if mutant is not Averaging:
        check_place(complaint, mutant, method)


def test_sound_sinks_break_no_law_with_feedback_or_without() -> None:
    assert not broken(of_sink(Summing)) and not broken(of_sink(Summing, trains=False))


class Short(Summing):
    snapshot, restore = Sink.snapshot, Sink.restore


def test_a_sink_that_cannot_be_restored_is_no_complaint_but_said() -> None:
    outcomes = of_sink(Short)
    assert not broken(outcomes)
    assert [outcome.law for outcome in outcomes if "snapshot" in outcome.not_tried] == [
        "snapshots are copies", "a restored sink goes on to the same bits",
    ]  # fmt: skip


def test_what_rests_on_a_complaint_is_not_tried() -> None:
    after = [outcome for outcome in of_processor(NoList) if outcome.not_tried]
    assert len(after) == len(processor.LAWS) - 1
    assert {outcome.not_tried for outcome in after} == {RESTS}


def test_a_complaint_is_made_once_for_all_stages() -> None:
    case = processor.ProcessorCase(partial(opened_processor, NoList, CONTEXT), EPOCHS[0])
    behind = partial(opened_sink, Summing, NoList, CONTEXT)
    pair = sink.SinkCase(lambda: (opened_processor(NoList, CONTEXT), behind()), EPOCHS)
    complaints: set[Cause] = set()
    first = list(try_laws("processor", case, processor.LAWS, complaints))
    second = list(try_laws("sink", pair, sink.LAWS, complaints))
    assert len(broken(first)) == 1 and not broken(second)
    assert {outcome.not_tried for outcome in second} == {"", RESTS}


class Exiting(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        sys.exit(3)


def test_an_operator_that_exits_makes_a_complaint() -> None:
    (complaint,) = broken(of_processor(Exiting)).values()
    assert "Exiting.process_data raised sys.exit(3)" in complaint


class Debugged(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        from bdb import BdbQuit

        raise BdbQuit


def test_leaving_the_debugger_ends_the_trial() -> None:
    from bdb import BdbQuit

    with pytest.raises(BdbQuit):
        of_processor(Debugged)


def test_a_play_feeds_back_what_the_sink_commits() -> None:
    play = Play(*(opened_processor(Sums, CONTEXT), opened_sink(Summing, Sums, CONTEXT)))
    total = np.zeros(3)
    for number, blocks in enumerate(EPOCHS, 1):
        weight = 1.0 if number == 1 else float(number)
        for block in blocks:
            total = total + np.sum(block, axis=0) * weight
        epoch = play.run(blocks)
        assert epoch.feedback[0].tolist() == [1.0 + number] and epoch.model["total"].tobytes() == total.tobytes()
    assert play.metrics() == {"items": 240.0}


def test_a_sink_is_not_blamed_for_its_processor() -> None:
    behind = partial(opened_sink, Summing, Counted, CONTEXT)
    case = sink.SinkCase(lambda: (opened_processor(Counted, CONTEXT), behind()), EPOCHS)
    outcomes = list(try_laws("sink", case, sink.LAWS))
    assert not broken(outcomes)
    left_out = {outcome.law for outcome in outcomes if "its processor returns other bits" in outcome.not_tried}
    assert left_out == {"recompute gives what processors give", "a restored sink goes on to the same bits"}
