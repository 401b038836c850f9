"""All that can happen in small jobs under checkpoints, and a death at each moment: explore.py says how, and what is
demanded. And each rule that makes checkpoints consistent is broken once, which must be found."""

from __future__ import annotations

from typing import Any

import pytest
from explore import Case, Found, explore, replay, truth_of
from explore_controller import Controller
from explore_jobs import ITEM, JOBS, TOKEN
from test_checkpoint_mutants import (
    announce_what_is_closed,
    forget_what_comes_behind,
    hold_nothing,
    never_hurry,
    save_nothing_that_leaves,
    save_nothing_that_waits,
)

from riprap.controller.checkpoints import Coordinator
from riprap.engine.flow.links import Links
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.progress import At
from riprap.engine.schemes.barrier import Barrier, Moving
from riprap.engine.schemes.parts.chain import Chain

CASES = [
    "chain-aligned-triggers=2",
    "chain-unaligned-items=1",
    "chain-stop_the_world-triggers=2",
    "cycle-aligned-items=1-triggers=2",
    "cycle-timeout-items=1",
    "diamond-aligned-items=1",
    "two_cycles-aligned-items=1",
    "chain-aligned-items=1-triggers=0-victim=2",
    "cycle-aligned-items=1-victim=0",
    "cycle-aligned-items=1-victim=1",
]
LARGE = [
    "self-aligned-items=1",
    "nested-stop_the_world-items=1",
    "chain-aligned-items=3-triggers=2",
    "chain-aligned-windows=2-triggers=2",
    "chain-unaligned-items=1-triggers=2",
    "chain-unaligned-items=1-window=1",
    "diamond-stop_the_world-triggers=2",
    "diamond-unaligned-items=1",
    "self-stop_the_world-items=1",
    "two_cycles-stop_the_world-windows=2",
    "two_cycles-unaligned-items=1",
    "nested-aligned-items=1",
    "chain-aligned-items=1-victim=0",
    "chain-aligned-items=1-victim=1",
    "chain-aligned-items=1-victim=2",
    "chain-unaligned-items=1-victim=1",
    "chain-stop_the_world-items=1-victim=1",
    "chain-aligned-items=1-triggers=0-leaders=1-victim=2",
    "cycle-unaligned-items=1-victim=0",
    "cycle-unaligned-items=1-victim=1",
    "cycle-stop_the_world-items=3-triggers=2",
    "cycle-stop_the_world-victim=1",
    "self-aligned-items=1-triggers=0-victim=1",
]
"""Each of some seconds to some minutes; up to a million states."""


def check(case: Case) -> None:
    """Nothing is wrong in it; and it says something: checkpoints are whole at several moments."""
    counts = explore(case)
    print(f"{case}: {counts}")
    assert counts.ends and counts.cuts > 1 and counts.replayed


@pytest.mark.parametrize("case", CASES)
def test_whatever_happens_checkpoints_are_consistent_and_the_result_is_true(case: str) -> None:
    check(Case.parse(case))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", LARGE)
def test_the_same_of_larger_cases(case: str) -> None:
    check(Case.parse(case))


@pytest.mark.parametrize("job", JOBS)
def test_each_item_is_handed_on_once(job: str) -> None:
    """The truth of which the tests speak: items at the source, and at one task behind it, or at all of a stage."""
    workers = Case(job, "aligned").world().plan.workers
    facts = [(worker, fact) for worker, (noted, _) in zip(workers, truth_of(Case(job, "aligned"))) for fact in noted]
    for item in (1, 2):
        places = [worker for worker, (kind, _, _, number) in facts if kind == ITEM and number == item]
        assert len(places) == len(set(places)) > 1 and places[0].stage == "a"
    assert any(kind == TOKEN for _, (kind, *_) in facts) == (job not in ("chain", "diamond"))


@pytest.mark.parametrize(
    "case", ["chain-aligned-items=1", "cycle-unaligned-items=1", "cycle-aligned-items=1-triggers=0-victim=1"]
)
def test_what_is_left_out_comes_to_the_same(case: str) -> None:
    """The same ends and the same checkpoints, in fewer states."""
    reduced, full = explore(Case.parse(case)), explore(Case.parse(case), reduces=False)
    assert (reduced.ends, reduced.cuts) == (full.ends, full.cuts)
    assert reduced.states < full.states and reduced.replayed <= full.replayed


def log_past_the_barrier(self: Barrier, entry: Any) -> None:
    """What comes behind the barrier of its link is logged too, while another is awaited."""
    cut = self._line.cut if self._line is not None else None
    if cut is not None:
        cut.came.append(Moving(entry.link, entry.block, entry.stage))


def count_all_reports(self: Coordinator, saved: dict[str, int], now: float) -> Any:
    """A part of any checkpoint counts for the one under way."""
    number = self.pending.number if self.pending is not None else 0
    return hear(self, {worker: number if part else 0 for worker, part in saved.items()}, now)


def build_on_what_is_lost(self: Chain) -> None:
    """What was copied for a checkpoint that was given up counts as saved."""


def number_barriers_sent(self: Outlet, checkpoint: int, overtakes: bool, savepoint: str = "") -> None:
    """A barrier takes a block's place on its link, though it overtakes some."""
    put_barrier(self, checkpoint, overtakes, savepoint)
    for link in self.links:
        number, items = self.progress.sent.get(link, At())
        self.progress.sent[link] = At(number + 1, items)


def number_barriers_heard(self: Barrier, link: Any, block: Any) -> None:
    """The same at the other end."""
    heard = self.bench.progress.heard[link]
    heard.at = At(heard.at.number + 1, heard.at.items)
    on_barrier(self, link, block)


def take_all_rounds(self: Links, round_: int) -> bool:
    """What was sent before a rollback is taken in behind it."""
    return True


def tell_before_it_is_durable(self: Controller) -> Any:
    """That a checkpoint is whole is told when that is decided."""
    return view(self)._replace(body=(self.coordinator.triggered, self.coordinator.marks.completed, tuple(self.lives)))


hear, put_barrier, on_barrier, view = Coordinator.hear, Outlet.put_barrier, Barrier.on_barrier, Controller.view
Patch = tuple[type, str, Any]
MUTANTS: dict[str, tuple[str, list[Patch]]] = {
    "no log of back edges": ("cycle-aligned-items=1", [(Barrier, "on_receive", forget_what_comes_behind)]),
    "no log of what is on its way": ("chain-unaligned-items=1", [(Barrier, "on_receive", forget_what_comes_behind)]),
    "a log past the barrier": ("two_cycles-aligned-items=1", [(Barrier, "on_receive", log_past_the_barrier)]),
    "no alignment": ("diamond-aligned-items=1", [(Barrier, "has_passed", hold_nothing)]),
    "no queued input": ("chain-unaligned-items=1", [(Barrier, "_before", save_nothing_that_waits)]),
    "no queued output": ("chain-unaligned-window=1", [(Barrier, "_leaving", save_nothing_that_leaves)]),
    "output before the decision": (
        "chain-aligned-items=1-victim=2", [(Barrier, "announced", property(announce_what_is_closed))],
    ),
    "told before it is durable": (
        "chain-aligned-items=1-triggers=0-leaders=1-victim=2", [(Controller, "view", tell_before_it_is_durable)],
    ),
    "no fence between rounds": ("chain-aligned-items=1-triggers=0-victim=2", [(Links, "is_of_round", take_all_rounds)]),
    "no last checkpoint": ("chain-aligned-items=1", [(Coordinator, "trigger", never_hurry)]),
    "a report of another checkpoint": (
        "chain-aligned-items=1-triggers=2-aborts=1", [(Coordinator, "hear", count_all_reports)],
    ),
    "changes behind what is lost": (
        "cycle-aligned-items=1-triggers=2-aborts=1", [(Chain, "lose", build_on_what_is_lost)],
    ),
    "a barrier with a number": (
        "chain-unaligned-window=1",
        [(Outlet, "put_barrier", number_barriers_sent), (Barrier, "on_barrier", number_barriers_heard)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_rule_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its schedule shows it again."""
    text, patches = MUTANTS[mutant]
    case = Case.parse(text)
    truth = truth_of(case)
    for patch in patches:
        monkeypatch.setattr(*patch)
    with pytest.raises(Found) as found:
        explore(case, truth=truth)
    wrong, command = str(found.value).split("\n")
    with pytest.raises(Exception) as again:
        list(replay(case, command.split("'")[1], truth))
    assert repr(again.value) == wrong
