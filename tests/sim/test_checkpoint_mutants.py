"""Each rule that makes checkpoints consistent is broken once; the simulation must notice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from dataflow_simulator import DataflowCase, DataflowSimulation
from test_checkpoints_sim import FAULTS, LONG
from test_dataflow_sim import EXACT, errors

from riprap.controller.checkpoints import Coordinator
from riprap.engine.flow.progress import LinkKey
from riprap.engine.schemes.barrier import Barrier

SEEDS = 8


def forget_what_comes_behind(self: Barrier, entry: Any) -> None:
    """What was on its way when the line was drawn is not logged."""


def hold_nothing(self: Barrier, link: LinkKey, barrier: int) -> bool:
    """What comes behind a barrier is processed before the line is drawn."""
    return True


def save_nothing_that_waits(self: Barrier, line: Any) -> Iterator[Any]:
    """What came before the line and is not processed is not saved."""
    return iter(())


def save_nothing_that_leaves(self: Barrier) -> Iterator[Any]:
    """What waits to leave, and is overtaken by the barrier, is not saved."""
    return iter(())


def announce_what_is_closed(self: Barrier) -> int:
    """Windows are announced before the checkpoint is whole."""
    return self.bench.progress.epoch


def never_hurry(self: Coordinator, durable: Any, now: float, hurried: bool) -> int:
    """None is made behind the end of the stream."""
    return 0 if hurried else trigger(self, durable, now, hurried)


trigger = Coordinator.trigger
MUTANTS: dict[str, tuple[type, str, Any, str, str]] = {
    "no log of back edges": (Barrier, "on_receive", forget_what_comes_behind, "barrier", "bsp"),
    "no log of what is on its way": (Barrier, "on_receive", forget_what_comes_behind, "unaligned", "windows"),
    "no alignment": (Barrier, "has_passed", hold_nothing, "barrier", "windows"),
    "no held input": (Barrier, "_before", save_nothing_that_waits, "barrier", "bsp"),
    "no queued input": (Barrier, "_before", save_nothing_that_waits, "unaligned", "windows"),
    "no queued output": (Barrier, "_leaving", save_nothing_that_leaves, "unaligned", "windows"),
    "output before the decision": (Barrier, "announced", property(announce_what_is_closed), "barrier", "full"),
    "no last checkpoint": (Coordinator, "trigger", never_hurry, "barrier", "full"),
}


def goes_wrong(scheme: str, shape: str, seed: int) -> bool:
    """True when it ends in an error, or with another result."""
    faults = FAULTS["many"] | {"kill_until_s": 1.0}
    long = LONG | {"items": 1600, "windows": 40}  # half of it does not show each rule
    simulation = DataflowSimulation(DataflowCase(EXACT[scheme], shape, **long | faults, log=[]), seed)
    try:
        simulation.run()
    except Exception:
        return True
    return bool(errors(simulation).any())


is_wrong_as_it_is = cache(goes_wrong)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_rule_is_noticed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, broken, scheme, shape = MUTANTS[mutant]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, broken)
        seed = next((seed for seed in range(SEEDS) if goes_wrong(scheme, shape, seed)), None)
    assert seed is not None, "nobody noticed"
    assert not is_wrong_as_it_is(scheme, shape, seed), "as it is, nothing is wrong"
