"""What is done about lost workers follows from the submission alone: no code of the job runs in the controller."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from riprap.codec.ids import WorkerId
from riprap.controller.steps import Announce, Fence, Respawn, Unrecoverable
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


def test_the_schemes_with_coded_processors_are_those_that_workers_know() -> None:
    assert plans.SPREAD == schemes.SPREAD


def test_no_module_of_the_job_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends_its_importer.py").write_text("raise SystemExit('the controller of everybody')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plan_for(submission())(VIEW, [SINK])
    assert "ends_its_importer" not in sys.modules
