"""The laws of a sink: a model that follows from the results alone, and a snapshot from which it goes on."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from riprap.operators import returns
from riprap.operators.base import Processor, Sink
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.trial.arrays import differing_names, first_difference, not_finite, received, stored
from riprap.operators.trial.law import Law, NotTried, breach
from riprap.operators.trial.play import Blocks, Epoch, Make, Play

COMBINES = ("sum", "mean")

_SAME = "the same bits from the same results"
_SNAPSHOT = "a sink that goes on to the same bits: what is restored after a failure"
_SNAPSHOT_REMEDY = "Let snapshot hold, as copies, all that later commits, model and metrics depend on."


@dataclass
class SinkCase:
    """Makes a processor and a sink, opened (see play.py); with the blocks of some epochs."""

    make: Make
    epochs: Sequence[Blocks]
    trains: bool = True
    keeps_bad_rows: bool = False

    def play(self) -> Play:
        """A fresh one of each."""
        return Play(*self.make(), trains=self.trains)

    @cached_property
    def first(self) -> tuple[Play, list[Epoch]]:
        """The one that most laws are tried on, at its end; and the results of each epoch."""
        play = self.play()
        return play, [play.run(blocks) for blocks in self.epochs]

    @property
    def blocks(self) -> list[np.ndarray]:
        """The blocks of all epochs."""
        return [block for blocks in self.epochs for block in blocks]

    @property
    def sink(self) -> Sink:
        """The sink at the end of all epochs."""
        return self.first[0].sink


def fed_back(case: SinkCase) -> list[list[np.ndarray]]:
    """The feedback of each epoch; fewer where the sink cannot be run on, which its laws complain about."""
    fed: list[list[np.ndarray]] = []
    try:
        play = case.play()
        for blocks in case.epochs if case.trains else ():
            fed.append(play.commit(blocks))
    except BdbQuit:
        raise
    except (Exception, SystemExit):  # noqa: S110 - the law that it breaks says so
        pass
    return fed


def has_a_model_at_first(case: SinkCase) -> None:
    case.play().model()


def has_metrics_at_first(case: SinkCase) -> None:
    case.play().metrics()


def commits(case: SinkCase) -> None:
    assert len(case.first[1]) == len(case.epochs)


def learns_finite_numbers(case: SinkCase) -> None:
    if case.keeps_bad_rows:
        raise NotTried("input.bad_rows is keep")
    for number, epoch in enumerate(case.first[1], 1):
        remedy = "Lower the learning rate, or look at the input."
        if found := not_finite(epoch.feedback):
            raise breach(case.sink, "commit", f"returned arrays in epoch {number} of which {found}", "", remedy)
        if found := not_finite(epoch.model.values()):
            raise breach(case.sink, "model", f"returned a model in epoch {number} of which {found}", "", remedy)


def names_its_model_always_alike(case: SinkCase) -> None:
    names = [list(epoch.model) for epoch in case.first[1]]
    if odd := next((found for found in names if found != names[0]), None):
        raise breach(
            case.sink, "model", f"named {odd} where it had named {names[0]}", "the same names in the same order"
        )


def says_how_metrics_combine(case: SinkCase) -> None:
    check_combines(case.sink)


def check_combines(owner: Sink | DataflowOperator) -> None:
    """Broken where its metrics of several tasks could not become the job's."""
    combines: Any = owner.combines
    ways = combines.values() if isinstance(combines, dict) else [combines]
    if odd := [way for way in ways if way not in COMBINES]:
        raise breach(owner, "metrics", f"has {odd[0]!r} in `combines`", 'a dictionary of "sum" or "mean" by metric')


def learns_the_same_again(case: SinkCase) -> None:
    play = case.play()
    for number, (blocks, wanted) in enumerate(zip(case.epochs, case.first[1]), 1):
        _compare(play.sink, play.run(blocks), wanted, f"the second time, in epoch {number}", _SAME)


def recomputes_what_processors_compute(case: SinkCase) -> None:
    play = _with_pure_processor(case)
    for blocks in case.epochs:
        for block in blocks:
            found = returns.result(play.sink, "recompute", play.sink.recompute(received(block)))
            if where := first_difference(found, play.result(block)):
                said = f"returned another result than a processor: {where}"
                raise breach(play.sink, "recompute", said, "the same bits: it stands in for a lost processor")
        play.run(blocks)


def takes_snapshots_of_their_own(case: SinkCase) -> None:
    play = _restorable(case)
    play.run(case.epochs[0])
    snapshot = _snapshot(play.sink)
    kept = {name: np.array(array) for name, array in snapshot.items()}
    for blocks in case.epochs[1:]:
        play.run(blocks)
    if where := differing_names(snapshot, kept):
        said = f"returned arrays that changed later: {where}"
        raise breach(play.sink, "snapshot", said, "copies: they are saved while the sink goes on", "Copy each array.")


def goes_on_from_a_snapshot(case: SinkCase) -> None:
    _restorable(case)
    _with_pure_processor(case)
    for last in range(len(case.epochs) - 1):
        play = case.play()
        for blocks in case.epochs[: last + 1]:
            epoch = play.run(blocks)
        again = restored(case, play, epoch)
        where = differing_names(again.sink.model(), play.sink.model())
        if where or repr(again.sink.metrics()) != repr(play.sink.metrics()):
            said = f"left another model or other metrics behind than it had: {where or again.sink.metrics()}"
            raise breach(play.sink, "restore", said, _SNAPSHOT, _SNAPSHOT_REMEDY)
        for number in range(last + 1, len(case.epochs)):
            found, wanted = again.run(case.epochs[number]), case.first[1][number]
            _compare(again.sink, found, wanted, f"after a restart behind epoch {last + 1}", _SNAPSHOT, "restore")


def restored(case: SinkCase, play: Play, epoch: Epoch) -> Play:
    """The same in new incarnations: from the snapshot and from the last epoch's feedback."""
    again = case.play()
    again.epoch = play.epoch
    again.sink.restore({name: stored(array) for name, array in _snapshot(play.sink).items()})
    if case.trains:
        for processor in (again.sink.processor, again.processor):
            _feed(processor, epoch.feedback)
    return again


def _feed(processor: Processor, feedback: Sequence[np.ndarray]) -> None:
    processor.process_feedback([received(array) for array in feedback])


def _snapshot(sink: Sink) -> dict[str, np.ndarray]:
    return returns.named_arrays(sink, "snapshot", sink.snapshot(), kept=True)


def _with_pure_processor(case: SinkCase) -> Play:
    """Without one nobody could say what a sink does differently."""
    block, play = case.blocks[0], case.play()
    first = play.result(block)
    if first_difference(play.result(block), first) or first_difference(case.play().result(block), first):
        raise NotTried("its processor returns other bits for the same items")
    return case.play()


def _restorable(case: SinkCase) -> Play:
    play = case.play()
    if not play.sink.is_restorable:
        raise NotTried("it defines no snapshot and restore, so its loss ends the job")
    return play


def _compare(sink: Sink, found: Epoch, wanted: Epoch, how: str, expected: str, method: str = "commit") -> None:
    remedy = _SNAPSHOT_REMEDY if method == "restore" else "Let nothing but the results decide; sum in a fixed order."
    led = "led to" if method == "restore" else "came to"
    if where := first_difference(found.arrays(), wanted.arrays()):
        raise breach(sink, method, f"{led} another model {how}: {where}", expected, remedy)
    if (where := repr(found.metrics)) != repr(wanted.metrics):
        raise breach(sink, method, f"{led} other metrics {how}: {where}, not {wanted.metrics}", expected, remedy)


LAWS: tuple[Law[SinkCase], ...] = (
    Law("model is a dictionary of arrays before the first commit", has_a_model_at_first),
    Law("metrics are numbers before the first commit", has_metrics_at_first),
    Law("commit, outputs, model and metrics return what they should", commits, essential=True),
    Law("feedback and model are finite", learns_finite_numbers),
    Law("the model's names stay the same", names_its_model_always_alike),
    Law("combines says sum or mean", says_how_metrics_combine),
    Law("the same results give the same bits", learns_the_same_again, essential=True),
    Law("recompute gives what processors give", recomputes_what_processors_compute),
    Law("snapshots are copies", takes_snapshots_of_their_own),
    Law("a restored sink goes on to the same bits", goes_on_from_a_snapshot),
)
