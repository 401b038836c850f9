"""What is done about lost workers follows from the submission alone: no code of the job runs in the controller."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from riprap.codec.ids import WorkerId
from riprap.controller.steps import Announce, Fence, Respawn, Rollback, Step, Unrecoverable
from riprap.controller.view import View
from riprap.engine.schemes import plans
from riprap.engine.schemes import registry as schemes
from riprap.engine.schemes.plans import plan_for

SINK, PROCESSOR = WorkerId("sink", 0), WorkerId("processor", 1)
VIEW: Any = None  # these plans do not look at it


def submission(**changes: Any) -> dict[str, Any]:
    stages = {"sink": {"operator": "ends_its_importer:Sink"}}
    sound = {"schema": {"columns": ["a"]}, "stages": stages, "sinks": ["sink.0"], "restorable": True}
    return {**sound, "fault_tolerance": {"scheme": "erasure"}, "backup": {"servers": ["ipc://@backup"]}, **changes}


NOTHING_KEPT: dict[str, Any] = {"restorable": False, "backup": {"servers": []}}


@pytest.mark.parametrize(
    "changes",
    [{}, NOTHING_KEPT | {"schema": {"windows": 3}}, NOTHING_KEPT | {"fault_tolerance": {"scheme": "upstream_backup"}}],
    ids=["saved", "dataflow", "no coded stage"],
)
def test_a_sink_that_can_be_restored_is_restarted(changes: dict[str, Any]) -> None:
    assert plan_for(submission(**changes))(VIEW, [SINK]) == [Fence(SINK), Respawn(SINK), Announce(SINK)]


@pytest.mark.parametrize("scheme", schemes.SPREAD)
@pytest.mark.parametrize("changes", [{"restorable": False}, {"backup": {"servers": []}}])
def test_a_sink_of_which_nothing_was_kept_ends_the_job(changes: dict[str, Any], scheme: str) -> None:
    plan = plan_for(submission(fault_tolerance={"scheme": scheme}, **changes))
    assert plan(VIEW, [PROCESSOR]) == [Fence(PROCESSOR), Respawn(PROCESSOR), Announce(PROCESSOR)]
    with pytest.raises(Unrecoverable, match="nothing was kept to restore it from"):
        plan(VIEW, [PROCESSOR, SINK])


LOCAL = {
    "fault_tolerance": {"scheme": "barrier", "recovery": "local"},
    "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}],
}


def local_steps(lost: list[str], *unsettled: str) -> list[Step]:
    view = View(1, "RUNNING", unsettled=frozenset(map(WorkerId.parse, unsettled)))
    return plan_for(submission(**LOCAL))(view, [WorkerId.parse(worker) for worker in lost])


@pytest.mark.parametrize(
    ("lost", "unsettled"),
    [
        (["b.0"], []),
        (["b.0", "b.1"], []),
        (["a.0", "c.0"], []),
        (["b.0"], ["b.0", "b.1"]),
        (["a.1"], ["c.0"]),
    ],
    ids=["one", "two of a stage", "two that no edge joins", "once more", "another's neighbour's neighbour"],
)
def test_a_task_goes_back_alone_where_its_neighbours_have_what_it_needs(lost: list[str], unsettled: list[str]) -> None:
    workers = [WorkerId.parse(worker) for worker in lost]
    steps = [step for worker in workers for step in (Fence(worker), Respawn(worker), Announce(worker))]
    assert sorted(local_steps(lost, *unsettled), key=repr) == sorted(steps, key=repr)


@pytest.mark.parametrize(
    ("lost", "unsettled", "named"),
    [
        (["a.0", "b.1"], [], ("b.1", "a.0")),
        (["b.0"], ["c.1"], ("c.1", "b.0")),
        (["c.0"], ["a.0", "b.1"], ("b.1", "c.0")),
        (["a.0", "c.0"], ["b.0"], ("b.0", "a.0")),
    ],
)
def test_all_go_back_where_a_neighbour_was_lost_too(
    lost: list[str], unsettled: list[str], named: tuple[str, str]
) -> None:
    *_, last = local_steps(lost, *unsettled)
    other, worker = named
    assert last == Rollback(f"{other}, whom {worker} is joined to, was lost since the last whole checkpoint too")


def test_all_go_back_under_barriers_unless_recovery_is_local() -> None:
    for changes in ({"fault_tolerance": {"scheme": "barrier"}}, {"fault_tolerance": {"scheme": "stop_the_world"}}):
        assert plan_for(submission(**LOCAL | changes))(VIEW, [PROCESSOR])[-1] == Rollback()


def test_the_schemes_with_coded_processors_are_those_that_workers_know() -> None:
    assert plans.SPREAD == schemes.SPREAD


def test_no_module_of_the_job_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends_its_importer.py").write_text("raise SystemExit('the controller of everybody')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plan_for(submission())(VIEW, [SINK])
    assert "ends_its_importer" not in sys.modules
