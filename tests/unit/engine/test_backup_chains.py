"""Every operator with a state goes on from any chain of its backups, wherever between two calls it dies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from riprap.configs.document import read_document
from riprap.engine.run.kinds import dataflow_trial
from riprap.engine.run.trial import Trial
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.states.base import Backup, Slice, Sliced
from riprap.operators.trial.arrays import differing_names, first_difference, stored
from riprap.operators.trial.dataflow import OperatorCase, results_of, sent_differently
from riprap.operators.trial.graph import call
from riprap.operators.trial.law import Law, NotTried
from tests.unit.engine.test_trial import EXAMPLES, ITEMS, inputs, overrides  # noqa: F401 - a fixture

SEEDS = range(3)
SLICES = 3
DATAFLOW = [path for path in EXAMPLES if "processor" not in read_document(path).values["stages"]]
"""Jobs of DataflowOperators; sinks have laws of their own."""


@dataclass
class Chained:
    """An operator, and its backups as a server holds them."""

    case: OperatorCase
    rng: Random
    operator: DataflowOperator = field(init=False)
    saved: list[Sliced] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.operator = self.case.make()
        self.save([Sliced(self.operator.state.backup_all())])

    def save(self, backups: Iterable[Sliced]) -> None:
        for one in backups:
            if one.backup.full:
                self.saved.clear()
            self.saved.append(as_stored(one))

    def back_up(self) -> None:
        """All, the changes, or a round of slices."""
        state, way = self.operator.state, self.rng.random()
        if way < 0.2:
            self.save([Sliced(state.backup_all())])
        elif way < 0.5 and state.rolls:
            self.save(state.backup_rolling(place, SLICES) for place in range(SLICES))
        else:
            self.save([Sliced(state.backup_state())])

    def die(self) -> None:
        before, self.operator = self.operator, self.case.make()
        self.operator.state.recover_chain(self.saved)
        self.operator.recovered(0.0, 0)
        assert self.operator.state.state_divergence() == 0
        again, wanted = self.operator.state.backup_all(), before.state.backup_all()
        assert not first_difference(again.arrays, wanted.arrays)
        self.save([Sliced(again)])


def as_stored(one: Sliced) -> Sliced:
    backup = Backup(one.backup.full, tuple(map(stored, one.backup.arrays)))
    return Sliced(backup, one.slice and Slice(*one.slice[:3], tuple(map(stored, one.slice.arrays))))


def goes_on_from_any_chain(case: OperatorCase) -> None:
    if case.operator.state is None:
        raise NotTried("it has no state")
    for seed in SEEDS:
        chained, out = Chained(case, Random(seed)), case.outbox()
        for entry in case.calls:
            sent = call(chained.operator, entry.kind, entry.given, out)
            assert not sent_differently(sent, entry.sent), f"seed {seed}"
            if chained.rng.random() < 0.4:
                chained.back_up()
                if chained.rng.random() < 0.5:
                    chained.die()
        assert not differing_names(results_of(chained.operator), results_of(case.operator)), f"seed {seed}"


@pytest.mark.parametrize("path", DATAFLOW, ids=lambda path: path.stem)
def test_operators_go_on_from_any_chain_of_backups(
    path: Path, inputs: dict[str, Path], monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.setattr(dataflow_trial.states, "LAWS", (Law("any chain of backups will do", goes_on_from_any_chain),))
    monkeypatch.setattr(dataflow_trial.dataflow, "LAWS", ())
    outcomes = list(Trial.of(str(path), overrides(path, inputs), ITEMS).outcomes())
    assert not [str(outcome.complaint) for outcome in outcomes if outcome.complaint]
    assert any(outcome.ok for outcome in outcomes)
