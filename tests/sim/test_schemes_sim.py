"""The pure halves of all schemes, run under random kills, hangs, lost connections, delays and reorderings.

`RIPRAP_SIM_SEEDS` sets how many seeds each case gets (`make sim` runs thousands). A failure prints its seed and the
command that replays it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from pairs import IS_WHOLE
from staged_jobs import Case, StagedSimulation, WeighLinearly

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "1"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))


def erasure(k: int, r: int, **options: object) -> dict[str, object]:
    return {"scheme": "erasure", "code": "gf256", "attachment": "lazy", "k": k, "r": r, "hedge": "cost", **options}


EXACT = {
    "lazy-4-2": erasure(4, 2),
    "lazy-5-1": erasure(5, 1, code="xor"),
    "lazy-2-2-of-6": erasure(2, 2, hedge=20),
    "eager-4-2": erasure(4, 2, attachment="eager", hedge=20),
    "eager-5-1": erasure(5, 1, code="xor", attachment="eager"),
    "afterwards-4-2": erasure(4, 2, incremental=False, hedge="none"),
    "hybrid-4-2": erasure(4, 2, code="stable", attachment="hybrid"),
    "replication-2": {"scheme": "replication", "copies": 2},
    "replication-3": {"scheme": "replication", "copies": 3},
}
KINDS = (
    ("lazy-4-2", "lazy-5-1", "lazy-2-2-of-6"),
    ("eager-4-2", "eager-5-1", "afterwards-4-2"),
    ("hybrid-4-2",),
    ("replication-2", "replication-3"),
)
"""Schemes that differ in their numbers, their code and their hedge alone. By default each kind meets each fault, and
the schemes of a kind take turns; `make sim` runs all combinations."""
FAULTS = {
    "nothing": {},
    "two-kills": {"kills": 2},
    "many-kills": {"kills": 8, "restart_s": 0.01},
    "three-at-once": {"kills": 1, "kill_at_once": 3},
    "all-at-once": {"kills": 1, "kill_at_once": 6},
    "hangs": {"hangs": 3},
    "cuts": {"cuts": 4},
    "all-of-it-two-pairs": {"kills": 2, "hangs": 1, "cuts": 2, "pairs": 2, "rows": 2},
    "tiny-epochs": {"kills": 3, "micro_batch": 3, "items": 150},
    "source": {"kills": 2, "faulty": ("source",)},
    "sink": {"kills": 2, "faulty": ("sink",)},
    "source-and-sink": {"kills": 2, "kill_at_once": 2, "faulty": ("source", "sink")},
    "any-role": {
        "kills": 5,
        "kill_at_once": 2,
        "faulty": ("source", "sink", "processor"),
        "cuts": 2,
        "pairs": 2,
        "rows": 2,
    },
    "long-windows": {"kills": 3, "micro_batch": 600, "block_bytes": 16, "faulty": ("source", "sink", "processor")},
    "long-windows-in-long-rows": {"kills": 3, "micro_batch": 600, "block_bytes": 16, "rows": 4},
    "everything-at-once": {"kills": 2, "kill_at_once": 99, "faulty": ("source", "sink", "processor")},
    "rollbacks": {"rollbacks": 2},
    "rollbacks-among-kills": {
        "rollbacks": 3,
        "kills": 3,
        "hangs": 1,
        "cuts": 2,
        "pairs": 2,
        "faulty": ("source", "sink", "processor"),
    },
    "any-role-tiny": {"kills": 4, "faulty": ("source", "sink", "processor"), "micro_batch": 3, "items": 150},
}


def run(case: Case, seed: int) -> StagedSimulation:
    """One simulation; a failure names what replays it."""
    simulation = StagedSimulation(replace(case, log=[]), seed)
    try:
        simulation.run()
    except Exception as error:
        tail = "\n".join(simulation.case.log[-30:])
        raise AssertionError(f"seed {seed} of {case.fault_tolerance}: {error!r}\n{tail}") from error
    return simulation


def states(simulation: StagedSimulation) -> list[tuple[int, int]]:
    return simulation.states()


@cache
def undisturbed(scheme: str, pairs: int, micro_batch: int, items: int, block_bytes: int) -> list[tuple[int, int]]:
    """What comes out of a job of this form when nothing happens."""
    form = {"pairs": pairs, "micro_batch": micro_batch, "items": items, "block_bytes": block_bytes}
    return states(run(Case(EXACT[scheme], **form), 0))


def cases() -> Iterator[tuple[str, str]]:
    """The schemes and their faults."""
    if IS_WHOLE:
        yield from itertools.product(EXACT, FAULTS)
        return
    for kind in KINDS:
        yield from zip(itertools.cycle(kind), FAULTS)


@pytest.mark.parametrize(("scheme", "fault"), list(cases()))
def test_the_model_is_that_of_an_undisturbed_run(scheme: str, fault: str) -> None:
    faulty = Case(EXACT[scheme], **FAULTS[fault])
    expected = undisturbed(scheme, faulty.pairs, faulty.micro_batch, faulty.items, faulty.block_bytes)
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = run(faulty, seed)
        replay = f"RIPRAP_SIM_FIRST={seed} RIPRAP_SIM_SEEDS=1 pytest tests/sim -k '{scheme}-{fault}'"
        assert states(simulation) == expected, f"seed {seed}; replay: {replay}"


@pytest.mark.parametrize("fault", FAULTS)
def test_linear_work_gives_the_same_model_by_its_linear_parts_alone(fault: str) -> None:
    alone = Case(EXACT["hybrid-4-2"], weigh=WeighLinearly, **FAULTS[fault])
    expected = undisturbed("hybrid-4-2", alone.pairs, alone.micro_batch, alone.items, alone.block_bytes)
    for seed in range(FIRST, FIRST + SEEDS):
        assert states(run(alone, seed)) == expected, f"seed {seed}"


@pytest.mark.parametrize("fault", FAULTS)
def test_scheme_none_counts_what_it_lost_and_repeats_nothing(fault: str) -> None:
    case = Case({"scheme": "none"}, **FAULTS[fault])
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = run(case, seed)
        for sink in simulation.sinks:
            task = simulation.nodes[sink].task
            assert task.operator.sink.items + task.lost == case.items // case.pairs, f"seed {seed}"
            if not case.kills:
                assert task.lost == 0, f"seed {seed}"


@pytest.mark.parametrize("attachment", ["lazy-4-2", "eager-4-2"])
def test_r_processors_may_die_at_every_step_of_a_micro_batch(attachment: str) -> None:
    """The second death falls on every few events after the first one, those among which the sink asks for pieces
    included (`make sim`: on more of them); the source is never needed, and the model is the undisturbed one."""
    case = Case(EXACT[attachment], items=150, restart_s=1.0)
    expected = states(run(case, 3))
    asked_in_vain = 0
    for first, step in itertools.product((200, 300, 400), range(1, 420, 5 if IS_WHOLE else 12)):
        simulation = run(replace(case, kill_at_steps=((first, "processor.1"), (first + step, "processor.4"))), 3)
        assert states(simulation) == expected, f"steps {first} and {first + step}"
        counts = simulation.nodes[simulation.sinks[0]].counts
        asked_in_vain += counts.get("asked_pieces", 0) > 4 * counts.get("decoded_rows", 0)
        assert not simulation.nodes[simulation.sources[0]].counts.get("resent_blocks"), f"step {first + step}"
    assert (asked_in_vain > 0) == attachment.startswith("lazy"), "some second deaths hit workers that were asked"


@pytest.mark.parametrize("attachment", ["lazy-4-2", "eager-4-2"])
def test_up_to_r_deaths_cost_no_request_to_the_source(attachment: str) -> None:
    """Tolerated failures are decoded at the sink; the source is asked only beyond r (LEC III-A)."""
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = run(Case(EXACT[attachment], kills=1, kill_at_once=2), seed)
        counts = [node.counts for node in simulation.nodes.values()]
        assert not any(c.get("resent_blocks") for c in counts), f"seed {seed}"


@pytest.mark.parametrize("attachment", ["lazy-4-2", "eager-4-2"])
def test_nothing_is_decoded_when_nothing_fails(attachment: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = run(Case({**EXACT[attachment], "hedge": 100}), seed)
        assert not simulation.nodes[simulation.sinks[0]].counts.get("decoded_items"), f"seed {seed}"


def test_a_seed_repeats_itself() -> None:
    case = Case(EXACT["lazy-4-2"], kills=2, hangs=1, cuts=1)
    assert run(case, 5).case.log == run(case, 5).case.log
