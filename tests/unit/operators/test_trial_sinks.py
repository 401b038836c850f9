"""Each law of sinks is broken by a mutant that keeps all others, and names its line."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from trial_parts import CONTEXT, EPOCHS, Counted, NoList, Sums, broken, check_place

from riprap.operators.base import Arrays, Context, Sink
from riprap.operators.trial import processor, sink
from riprap.operators.trial.law import RESTS, Cause, Outcome, try_laws
from riprap.operators.trial.play import Play
from riprap.operators.trial.subjects import opened_processor, opened_sink


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


def test_a_complaint_is_made_once_for_all_stages() -> None:
    case = processor.ProcessorCase(partial(opened_processor, NoList, CONTEXT), EPOCHS[0])
    behind = partial(opened_sink, Summing, NoList, CONTEXT)
    pair = sink.SinkCase(lambda: (opened_processor(NoList, CONTEXT), behind()), EPOCHS)
    complaints: set[Cause] = set()
    first = list(try_laws("processor", case, processor.LAWS, complaints))
    second = list(try_laws("sink", pair, sink.LAWS, complaints))
    assert len(broken(first)) == 1 and not broken(second)
    assert {outcome.not_tried for outcome in second} == {"", RESTS}


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
