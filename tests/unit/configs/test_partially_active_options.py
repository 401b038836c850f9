"""The options of `partially_active`: replicas by name or by plan, and what they cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from riprap.codec.errors import ConfigError
from riprap.configs.loading import load
from riprap.configs.schemes import PartiallyActiveOptions
from riprap.configs.shape import EdgeSection, Shape, placed
from riprap.configs.topology import Topology
from riprap.configs.validation import TOPOLOGY, resolved

EDGES = [
    {"from": "read", "to": "count", "partitioning": "full"},
    {"from": "count", "to": "total", "partitioning": "merge"},
]
STAGES = {"read": 2, "count": 4, "total": 1}


def shape(**more: Any) -> Shape:
    return Shape(STAGES, placed([EdgeSection.of(edge) for edge in [*EDGES, *more.get("edges", ())]]))


def problems(options: dict[str, Any], of: Shape | None = None) -> list[str]:
    found = PartiallyActiveOptions(scheme="partially_active", **options).problems(of or shape())
    return [f"{'.'.join(map(str, problem.path))} {problem.wrong}" for problem in found]


def plan(path: Path, tasks: list[str], stages: dict[str, int] | None = None, edges: Any = EDGES) -> str:
    path.write_text(json.dumps({"topology": {"stages": stages or STAGES, "edges": edges}, "tasks": tasks}))
    return str(path)


def test_in_place_is_a_way_of_tentative_output() -> None:
    assert problems({"reconcile": False, "tentative_after_ms": 200}) == []
    (found,) = problems({"reconcile": False})
    assert found.startswith("fault_tolerance.reconcile is false, and without tentative output")


def test_stages_and_tasks_may_have_replicas() -> None:
    assert problems({"replicate": ["read", "count.3", "total"]}) == []


@pytest.mark.parametrize("options", [{"reconcile": False, "tentative_after_ms": 200}, {"adapt": True}])
def test_destinations_have_none_where_copies_would_differ_or_plans_move_them(
    options: dict[str, Any],
) -> None:
    (found,) = problems({"replicate": ["count", "total.0"]} | options)
    assert found.startswith("fault_tolerance.replicate.1 is total.0, a destination, and")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("total.1", "no such"), ("count.4", "no such"), ("count.03", "no such"), ("nobody", "no such"), ("", "no such"),
        ("count.0~1", "no such"),
    ],
)  # fmt: skip
def test_who_can_have_none_is_named(name: str, wrong: str) -> None:
    (found,) = problems({"replicate": ["read.0", name]})
    assert found.startswith("fault_tolerance.replicate.1") and wrong in found


BACK = {"from": "total", "to": "read", "feedback": True}
LOOP = {"from": "count", "to": "count", "loop": True}


@pytest.mark.parametrize("consistency", [{}, {"consistency": "bsp"}, {"consistency": "ssp", "staleness": 3}])
def test_feedback_that_a_window_waits_for_has_its_place(consistency: dict[str, Any]) -> None:
    assert problems({"replicate": ["count"], "budget": None}, shape(edges=[BACK | consistency])) == []


def test_a_loop_is_taken_which_ends_within_its_window() -> None:
    assert problems({"replicate": ["count", "total"]}, shape(edges=[LOOP])) == []


@pytest.mark.parametrize(
    ("edge", "options", "wrong"),
    [
        (BACK | {"consistency": "asp"}, {}, "scheme is partially_active, and total->read feeds back under asp"),
        (BACK, {"tentative_after_ms": 200}, "tentative_after_ms is given, and total->read feeds back"),
        (LOOP, {"tentative_after_ms": 200}, "tentative_after_ms is given, and count->count feeds back"),
        (LOOP, {"checkpoint_s": None, "replay_s": 2}, "checkpoint_s is null, and count->count feeds back"),
        (BACK, {"checkpoint_s": None, "replay_s": 2}, "checkpoint_s is null, and total->read feeds back"),
    ],
)  # fmt: skip
def test_feedback_without_a_place_is_refused(edge: dict[str, Any], options: dict[str, Any], wrong: str) -> None:
    (found,) = problems(options, shape(edges=[edge]))
    assert found.startswith(f"fault_tolerance.{wrong}")


def test_a_plan_names_the_replicas(tmp_path: Path) -> None:
    options = {"plan": plan(tmp_path / "plan.json", ["read.0", "count.2", "total.0"])}
    assert problems(options) == []
    chosen = PartiallyActiveOptions(scheme="partially_active", **options).chosen(shape())
    assert chosen == {"replicate": ["read.0", "count.2", "total.0"], "plan": None}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"adapt": True}, "adapt is true: plans move the replicas of the stages before"),
        (
            {"reconcile": False, "tentative_after_ms": 200},
            "reconcile is false: its copies would not write the same",
        ),
    ],
)
def test_a_plan_with_a_destination_that_can_have_none_is_refused(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    path = plan(tmp_path / "plan.json", ["read.0", "total.0"])
    (found,) = problems({"plan": path, **options})
    assert found == f"fault_tolerance.plan {path} names total.0, a destination, and {why}"
    has = "the topology has 6 tasks that can have a replica, and each has one at most"
    assert problems({"budget": 7, **options}) == [f"fault_tolerance.budget is 7: {has}"]
    assert problems({"budget": 6, **options}) == []


def test_a_plan_of_another_topology_is_refused_with_all_differences(tmp_path: Path) -> None:
    other = [EDGES[0] | {"partitioning": "stripe"}, {"from": "count", "to": "sum", "partitioning": "merge"}]
    path = plan(tmp_path / "plan.json", ["read.0"], {"read": 3, "count": 4, "sum": 1}, other)
    (found,) = problems({"plan": path})
    for said in (
        "stage read has 3 tasks in the plan and 2 here", "stage sum has 1 tasks in the plan and 0 here",
        "stage total has 0 tasks in the plan and 1 here", "edge read->count is stripe in the plan and full here",
        "edge count->sum is in the plan alone", "edge count->total is here alone",
    ):  # fmt: skip
        assert said in found


@pytest.mark.parametrize(
    "content", ["", "7", "[]", "{}", '{"topology": {"stages": {"a": 1.5}, "edges": []}, "tasks": []}',
                '{"topology": {"stages": {}, "edges": [7]}, "tasks": []}',
                '{"topology": {"stages": {}, "edges": []}, "tasks": [7]}', "\x00", "[" * 100_000],
)  # fmt: skip
def test_what_is_no_plan_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "plan.json").write_text(content)
    (found,) = problems({"plan": str(tmp_path / "plan.json")})
    assert "plan.json" in found
    with pytest.raises(ConfigError):
        PartiallyActiveOptions(scheme="partially_active", plan=str(tmp_path / "plan.json")).chosen(shape())


def test_a_plan_that_is_not_there_or_stands_beside_names_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in problems({"plan": str(tmp_path / "none.json")})[0]
    path = plan(tmp_path / "plan.json", ["read.9"])
    assert "names read.9, and there is no such task" in problems({"plan": path})[0]
    assert "beside replicate" in problems({"plan": path, "replicate": ["read"]})[0]


@pytest.mark.parametrize("budget", [0, 7, "25%", "0%", "100%"])
def test_a_budget_is_a_number_or_a_share(budget: int | str) -> None:
    assert problems({"budget": budget, "planner": "greedy"}) == []


@pytest.mark.parametrize("budget", [8, "101%", "-1%", "many%", "nan%"])
def test_more_than_the_tasks_that_can_have_a_replica_is_refused(budget: int | str) -> None:
    (found,) = problems({"budget": budget})
    has = "the topology has 7 tasks that can have a replica, and each has one at most"
    assert found == f"fault_tolerance.budget is {budget}: {'not a number of tasks' if budget == 'many%' else has}"


@pytest.mark.parametrize("budget", [-1, 2.5, True, "8", "many", [1]])
def test_what_is_no_budget_is_refused(budget: Any) -> None:
    with pytest.raises(ValidationError, match="a number of tasks, as 8, or a share of them, as 25%"):
        PartiallyActiveOptions(scheme="partially_active", budget=budget)


def test_replicas_are_named_in_one_way(tmp_path: Path) -> None:
    path = plan(tmp_path / "plan.json", ["read.0"])
    told = problems({"budget": 2, "plan": path, "replicate": ["read"]})
    assert [found.partition(" is ")[2] for found in told] == [
        "given beside replicate", "given beside plan", "given beside replicate"
    ]  # fmt: skip
    assert problems({"planner": "dp"}) == ["fault_tolerance.planner is dp, and there is no budget to plan for"]


def test_a_copy_is_not_rebuilt_from_something_older() -> None:
    (found,) = problems({"checkpoint_s": 20, "rebuild_after_s": 10})
    assert found == "fault_tolerance.rebuild_after_s is 10, and what another copy has saved may be 20 s old"
    options = PartiallyActiveOptions(scheme="partially_active", checkpoint_s=20)
    assert problems({"checkpoint_s": 20}) == [] and options.rebuild_after_s == 20
    assert problems(options.model_dump(exclude={"scheme"})) == [], "as it is submitted, with all that was not said"
    assert problems({"checkpoint_s": 20, "rebuild_after_s": 20}) == []
    assert problems({"checkpoint_s": 20, "rebuild_after_s": None}) == []


def test_a_source_replay_stands_for_checkpoints() -> None:
    assert problems({"checkpoint_s": None, "replay_s": 30}) == []
    assert problems({"checkpoint_s": None}) == ["fault_tolerance.replay_s is missing, and checkpoint_s is null"]
    assert problems({"replay_s": 30}) == ["fault_tolerance.replay_s is 30, and checkpoint_s 1"]


@pytest.mark.parametrize("given", [{"replicate": ["read"]}, {"budget": 2}, {"tentative_after_ms": 200}])
def test_what_needs_a_whole_state_is_refused_without_checkpoints(given: dict[str, Any]) -> None:
    (found,) = problems({"checkpoint_s": None, "replay_s": 30, **given})
    (key,) = given
    assert found == f"fault_tolerance.{key} is given, and checkpoint_s is null: who starts again has no whole state"


def test_a_job_that_adapts_may_have_a_replica_of_each_task_but_its_destinations() -> None:
    topology = _topology({"adapt": True, "replicate": ["count.1"]})
    assert [str(copy) for copy in topology.copies] == ["read.0~1", "read.1~1", *(f"count.{i}~1" for i in range(4))]
    assert topology.to_dict()["wanted"] == ["count.1~1"]
    fixed = _topology({"replicate": ["count.1"]})
    assert [str(copy) for copy in fixed.copies] == ["count.1~1"]
    assert "wanted" not in fixed.to_dict()


def _topology(options: dict[str, Any]) -> Topology:
    stages = {name: {"operator": "m:O", "parallelism": tasks} for name, tasks in STAGES.items()}
    values = {"job": "j", "micro_batch": 10, "input": {"path": "x"}, "stages": stages, "edges": EDGES}
    scheme = {"scheme": "partially_active", **options}
    return resolved(TOPOLOGY.validate_python(values | {"fault_tolerance": scheme}))


def test_who_adapts_builds_copies_anew() -> None:
    assert problems({"adapt": True, "rebuild_after_s": None}) == [
        "fault_tolerance.rebuild_after_s is null, and a replica that is started late may have to begin anew"
    ]
    (found,) = problems({"adapt": True, "checkpoint_s": None, "replay_s": 3})
    assert found.startswith("fault_tolerance.adapt is given, and checkpoint_s is null")


@pytest.mark.parametrize("content", [None, "no plan"])
def test_a_plan_that_cannot_be_read_is_told_with_its_line_and_all_else(tmp_path: Path, content: str | None) -> None:
    file, path = tmp_path / "job.yaml", tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    stages = {name: {"operator": "a:B", "parallelism": tasks} for name, tasks in STAGES.items()}
    scheme = {"scheme": "partially_active", "plan": str(path)}
    values = {"job": "trial", "micro_batch": 0, "stages": stages, "edges": EDGES, "fault_tolerance": scheme}
    file.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in values.items()))
    with pytest.raises(ConfigError) as caught:
        load(file)
    said = str(caught.value)
    assert f"{file}:2: micro_batch: is 0" in said and f"{file}:5: fault_tolerance.plan: {path} " in said
