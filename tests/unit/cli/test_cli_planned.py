"""A job whose replicas follow from a budget: planned before its first start, and the same ever after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.loading import load
from riprap.configs.topology import Topology
from riprap.engine.run.planned import told, with_planned_replicas, write_plan

ROOT = Path(__file__).parents[3]
SKETCHES = ROOT / "configs/heavy_hitters_staged.yaml"
"""read 2 -> sketch 2 -> merge 1."""
JOIN = ROOT / "configs/online_join_staged.yaml"


def topology(file: Path = SKETCHES, **options: Any) -> Topology:
    section = ", ".join(f"{key}: {value}" for key, value in {"scheme": "partially_active", **options}.items())
    return load(file, [f"fault_tolerance={{{section}}}"], with_input=False)


def test_a_budget_becomes_the_names_of_the_tasks() -> None:
    made, report = with_planned_replicas(topology(budget=3))
    assert report is not None and made.fault_tolerance["replicate"] == ["read.0", "sketch.0", "merge.0"]
    assert [str(copy) for copy in made.copies] == ["read.0~1", "sketch.0~1", "merge.0~1"]
    assert (made.fault_tolerance["budget"], made.fault_tolerance["planner"]) == (None, "auto")
    assert with_planned_replicas(made) == (made, None), "a later attempt plans nothing"
    assert report.plan.fidelity == 0.5 and list(report.curve) == [3]


@pytest.mark.parametrize(("budget", "copies"), [("50%", 2), ("99%", 4), ("100%", 5), (0, 0), (1, 1)])
def test_all_of_a_budget_is_spent(budget: int | str, copies: int) -> None:
    """What completes nothing in the worst case helps when one task dies."""
    made, _ = with_planned_replicas(topology(budget=budget))
    assert len(made.copies) == copies


@pytest.mark.parametrize("options", [{"adapt": "true"}, {"reconcile": "false", "tentative_after_ms": 200}])
def test_destinations_that_can_have_none_cost_nothing_and_are_told(options: dict[str, Any]) -> None:
    made, report = with_planned_replicas(topology(budget="100%", **options))
    assert [str(copy) for copy in made.copies] == ["read.0~1", "read.1~1", "sketch.0~1", "sketch.1~1"]
    assert report is not None and report.plan.fidelity == 1
    told_of = "destinations (merge) can have no replica and count as alive: kept is what reaches them"
    assert told_of in report.notes


def test_joins_are_those_of_the_operators() -> None:
    _, report = with_planned_replicas(topology(JOIN, budget=2))
    assert report is not None and report.plan.fidelity == 0, "a join needs both of its branches"


def test_the_planner_is_the_one_that_was_asked_for() -> None:
    _, report = with_planned_replicas(topology(budget=2, planner="greedy"))
    assert report is not None and report.algorithm == "greedy"


def test_a_planner_that_cannot_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riprap.controller.planning.dp.PAIRS_MAX", 1)
    with pytest.raises(ConfigError, match=r"fault_tolerance\.planner dp: the dynamic program has more than 1 pairs"):
        with_planned_replicas(topology(budget=2, planner="dp"))


def test_no_other_job_is_planned() -> None:
    made = topology(replicate="[sketch]")
    assert with_planned_replicas(made) == (made, None)
    other = load(SKETCHES, ["fault_tolerance=barrier"], with_input=False)
    assert with_planned_replicas(other) == (other, None)


def test_it_says_what_it_assumed_and_leaves_a_plan_that_a_job_takes(tmp_path: Path) -> None:
    made, report = with_planned_replicas(topology(budget=3))
    assert report is not None
    assert "read.0, sketch.0, merge.0, chosen as if" in told(report)
    assert "riprap plan TOPOLOGY --budget 3 --from RUNDIR" in told(report)
    write_plan(tmp_path, report)
    assert json.loads((tmp_path / "plan.json").read_text())["rates"] == "assumed"
    assert topology(plan=tmp_path / "plan.json").copies == made.copies


@pytest.mark.parametrize("budget", ["6", "101%"])
def test_a_larger_budget_is_refused_with_its_line(budget: str) -> None:
    with pytest.raises(ConfigError, match=r"fault_tolerance.budget=.*the topology has 5 tasks that can have a replica"):
        load(
            SKETCHES, ["fault_tolerance.scheme=partially_active", f"fault_tolerance.budget={budget}"], with_input=False
        )
