"""The core survives random faults: seeded runs in a simulated cluster."""

from __future__ import annotations

import pytest
from simulated_cluster import ADAPTING, World, simulate

from riprap.codec.ids import WorkerId

SEEDS = 60


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_jobs_complete_in_spite_of_faults(first: int) -> None:
    restarts = sum(len(simulate(seed).started) - 5 for seed in range(first, first + 10))
    assert restarts > 30, "the faults must bite"


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_jobs_complete_while_their_replicas_change(first: int) -> None:
    """In the end those run that were asked for last, and no others."""
    copies = 0
    for seed in range(first, first + 10):
        world = simulate(seed, ADAPTING)
        copies += sum("~1" in worker for worker, _ in world.started)
    assert copies > 30, "replicas must begin"


def test_the_same_seed_is_the_same_run() -> None:
    assert simulate(7).started == simulate(7).started


def test_the_simulation_sees_a_start_that_is_not_durable() -> None:
    world = World(1)
    world.run()
    _, record = world.stored["job"]
    with pytest.raises(AssertionError, match="is not durable"):
        world.note_start("sink.0", record.tasks[WorkerId("sink", 0)].incarnation + 1)
