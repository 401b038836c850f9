"""Every role is killed at every step of the checkpoint protocol, with real processes: nobody outside can tell."""

from __future__ import annotations

import pytest
from cli_harness import Cli
from fault_points import END, LAUNCHER, LOSS, PARTS, ROLLBACK, STEPS, TRANSACTION, Step, Watched, in_turn, named

SHARED_ENSEMBLE = True
LONG = pytest.mark.long
ROLES = ("read.0", "tally.0", "write.0", "backup", "controller", "agent")
RUNS = {
    "parts": (*PARTS, *(step for step in ROLLBACK if step.process.startswith(("read", "tally")))),
    "transactions": (*TRANSACTION, *(step for step in ROLLBACK if step.process == "write.0"), END[0]),
    "decisions": named("part written", "trigger passed on", "decision written", "rollback written"),
    "rollbacks": named(
        "decision not logged", "replacement forked", "restore point sent", "replacement not told of", "done"
    ),
}
"""A worker costs a tenth of what a service costs, so these are all steps of workers and some of services."""


@pytest.mark.parametrize("steps", RUNS.values(), ids=RUNS)
def test_nobody_can_tell_that_somebody_died_at_each_of_these_steps(cli: Cli, steps: tuple[Step, ...]) -> None:
    """One after the other."""
    Watched(cli, in_turn(*((step, "") for step in steps))).run()


@pytest.mark.parametrize(
    "step", [LOSS, *(pytest.param(step, marks=LONG) for step in STEPS)], ids=lambda step: step.name
)
def test_nobody_can_tell_that_all_died_at_a_step(cli: Cli, step: Step) -> None:
    """The job is resumed, and its stream drained, as soon as there is somebody to ask."""
    Watched(cli, in_turn((step, LAUNCHER))).run()


@LONG
@pytest.mark.parametrize("step", [step for step in STEPS if not step.at_end], ids=lambda step: step.name)
def test_nobody_can_tell_who_died_at_a_step(cli: Cli, step: Step) -> None:
    """Each role in turn."""
    Watched(cli, in_turn(*((step, role) for role in ("", *ROLES) if role != step.process))).run()


@LONG
@pytest.mark.parametrize("victim", [role for role in ROLES if role != "write.0"])
@pytest.mark.parametrize("step", END, ids=lambda step: step.name)
def test_nobody_can_tell_who_died_at_the_end(cli: Cli, step: Step, victim: str) -> None:
    Watched(cli, in_turn((step, victim))).run()
