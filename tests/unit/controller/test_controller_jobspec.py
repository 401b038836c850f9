"""What a topology must say for the control plane, and what a user is told when it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from riprap.codec.errors import ConfigError, DataError
from riprap.codec.ids import Incarnation, WorkerId
from riprap.configs.limits import JobLimits
from riprap.controller.jobspec import JobSpec
from riprap.controller.phases import Phase
from riprap.controller.record import Assignment, JobRecord

STAGES = {"source": {"parallelism": 1}, "processor": {"parallelism": 2}, "sink": {"parallelism": 1}}


def test_workers_are_all_tasks_in_order_and_sinks_default_to_the_last_stage() -> None:
    spec = JobSpec.read("a", {"stages": STAGES}, "/r")
    assert [str(worker) for worker in spec.workers] == ["source.0", "processor.0", "processor.1", "sink.0"]
    assert spec.sinks == {WorkerId("sink", 0)}


@pytest.mark.parametrize("named", [["processor"], ["processor.0", "processor.1"], ["processor.0", "processor"]])
def test_sinks_are_named_by_stage_or_worker(named: list[str]) -> None:
    spec = JobSpec.read("a", {"stages": STAGES, "sinks": named}, "/r")
    assert spec.sinks == {WorkerId("processor", 0), WorkerId("processor", 1)}


def test_limits_come_from_the_cluster_section() -> None:
    limits = JobLimits.from_topology({"cluster": {"heartbeat_timeout_s": 0.5, "unknown": "ignored here"}})
    assert (limits.heartbeat_timeout_s, limits.recovery_timeout_s) == (0.5, 60.0)


@pytest.mark.parametrize(
    ("name", "topology", "run_dir", "complaint"),
    [
        ("a b", {"stages": STAGES}, "/r", "'a b' is not a job name"),
        ("a", {"stages": STAGES}, "r", "an absolute run directory"),
        ("a", {"stages": STAGES}, "/r/../etc", "without . and .."),
        ("a", {"stages": STAGES}, "/r\0", "cannot be printed"),
        ("a", {"stages": STAGES}, "/r\nanother line", "cannot be printed"),
        ("a", [], "/r", "submitted with a topology"),
        ("a", {}, "/r", "has no stages"),
        ("a", {"stages": {"S": {}}}, "/r", "'S' is not a stage name"),
        ("a", {"stages": {"s": {"parallelism": 0}}}, "/r", "stages.s.parallelism"),
        ("a", {"stages": {"s": {"parallelism": 99999}}}, "/r", "more than 4096"),
        ("a", {"stages": STAGES, "sinks": ["sunk"]}, "/r", "'sunk'"),
        ("a", {"stages": STAGES, "cluster": [1]}, "/r", "`cluster` must be a map"),
        ("a", {"stages": STAGES, "cluster": {"startup_timeout_s": -1}}, "/r", "cluster.startup_timeout_s is -1"),
    ],
)
def test_what_is_wrong_is_named(name: str, topology: Any, run_dir: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as error:
        JobSpec.read(name, topology, run_dir)
    assert error.value.remedy


def test_a_record_comes_back_as_it_was_stored() -> None:
    tasks = {WorkerId("sink", 0): Assignment(Incarnation(3), "h1", "abc")}
    record = JobRecord(Phase.RECOVERING, "e", "r", tasks, 1.5, ({"worker": "sink.0", "incarnation": 2},), None)
    assert JobRecord.from_json(record.to_json(7), "/x") == (record, 7)


def test_a_record_too_large_for_a_znode_goes_without_its_last_status() -> None:
    record = JobRecord(final={"stats": "x" * 2_000_000}, error="kept")
    data = record.to_json(1)
    assert len(data) < 1_000_000
    assert JobRecord.from_json(data, "/x")[0].error == "kept"


def stored(**changes: Any) -> bytes:
    return json.dumps({**json.loads(JobRecord().to_json(1)), **changes}).encode()


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"tasks": {"x": 1}}', b"\xff", b"[" * 100_000])
def test_a_node_that_is_no_record_is_named(data: bytes) -> None:
    with pytest.raises(DataError, match="/riprap/jobs/a/state"):
        JobRecord.from_json(data, "/riprap/jobs/a/state")


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"phase": "ASLEEP"},
        {"tasks": [1]},
        {"tasks": {"sink.0": [1]}},
        {"tasks": {"sink.0": ["x", "h", "i"]}},
        {"failures": 3},
        {"failures": ["lost"]},
        {"failures": [{"worker": "nobody", "incarnation": 1}]},
        {"failures": [{"worker": "sink.0"}]},
        {"started_at": None},
        {"final": 7},
        {"term": []},
    ],
)
def test_a_record_with_a_field_of_another_kind_is_refused(changes: dict[str, Any]) -> None:
    assert JobRecord.from_json(stored(), "/x")[0] == JobRecord()
    with pytest.raises(DataError, match="znode /x is not a job's state"):
        JobRecord.from_json(stored(**changes), "/x")
