"""Jobs that train, run by the adapters of Source, Processor and Sink on plain links, under random kills and cuts.

`RIPRAP_SIM_SEEDS` sets how many seeds each case gets. A failure prints its seed and the command that replays it.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from functools import cache

import pytest
from dataflow_simulator import run_or_replay
from pairs import chosen
from staged_jobs import Case, StagedSimulation
from test_dataflow_sim import APPROXIMATE, EXACT, FAULTS

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "1"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
PROCESSORS, MICRO_BATCH, EPOCHS = 3, 40, 4
ITEMS = MICRO_BATCH * EPOCHS - 7


def case_of(scheme: dict[str, object], pairs: int, **faults: object) -> Case:
    """A small job of so many pairs."""
    small = Case(scheme, processors=PROCESSORS, pairs=pairs, items=ITEMS * pairs, micro_batch=MICRO_BATCH, window=24)
    return replace(small, **{"kill_until_s": 0.1, "faulty": (), **faults})


def run(case: Case, seed: int, replay: str) -> StagedSimulation:
    """One simulation; a failure names what replays it."""
    simulation = StagedSimulation(replace(case, log=[]), seed)
    run_or_replay(simulation, __file__, replay)
    for sink, announced in simulation.announced.items():
        assert [epoch for epoch, _ in announced] == list(range(1, EPOCHS + 1)), f"seed {seed}: {sink}"
    return simulation


@cache
def undisturbed(pairs: int) -> list[tuple[int, int]]:
    """What is folded when nothing happens."""
    calm = run(case_of({"scheme": "mini_batch"}, pairs), FIRST, "calm").states()
    assert [items for _, items in calm] == [ITEMS] * pairs
    return calm


TRAIN = [name for name in EXACT if name != "local"]
"""The exact schemes of jobs that feed back: local recovery is refused there."""


@pytest.mark.parametrize(("scheme", "fault", "pairs"), chosen(list(itertools.product(TRAIN, FAULTS, "12"))))
def test_exact_schemes_fold_what_an_undisturbed_run_folds(scheme: str, fault: str, pairs: str) -> None:
    """Order, repetition and omission of any result would show, and so would one under another epoch's model."""
    calm = undisturbed(int(pairs))
    case = case_of(EXACT[scheme], int(pairs), **FAULTS[fault])
    for seed in range(FIRST, FIRST + SEEDS):
        assert run(case, seed, f"{scheme}-{fault}-{pairs}").states() == calm, f"seed {seed}"


@pytest.mark.parametrize("fault", FAULTS)
def test_the_approximate_scheme_folds_no_result_twice(fault: str) -> None:
    """Items may be lost with a death, within the bounds; none is folded once more."""
    case = case_of({**APPROXIMATE, "l": 4.0}, 1, **FAULTS[fault])
    for seed in range(FIRST, FIRST + SEEDS):
        ((_, items),) = run(case, seed, f"approximate and {fault}").states()
        assert items <= ITEMS, f"seed {seed}"


@pytest.mark.parametrize("fault", FAULTS)
def test_with_no_loss_allowed_the_approximate_scheme_is_exact(fault: str) -> None:
    calm = undisturbed(1)
    case = case_of({**APPROXIMATE, "theta": 0.0, "l": 0.0, "gamma": 1.0}, 1, **FAULTS[fault])
    for seed in range(FIRST, FIRST + 12 * SEEDS):  # few show feedback that only the record of an output has
        assert run(case, seed, f"no_loss and {fault}").states() == calm, f"seed {seed}"
