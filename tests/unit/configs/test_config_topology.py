"""A loaded topology answers the questions that the engine asks, and survives the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from riprap.codec.ids import WorkerId
from riprap.configs.limits import JobLimits
from riprap.configs.loading import load
from riprap.configs.topology import Topology

Write = Callable[..., Path]


def test_defaults_are_filled_in(write: Write, shards: Path) -> None:
    topology = load(write())
    assert topology.input.path == str(shards)
    scheme = {"scheme": "erasure", "code": "gf256", "k": 4, "r": 2, "hedge": "cost"}
    assert topology.fault_tolerance == scheme | {"attachment": "lazy", "incremental": True, "rows": 1}
    assert (topology.backup.servers, topology.backup.durability, topology.backup.addresses) == (1, "interval", ())
    assert (topology.links.block_bytes, topology.links.window_epochs) == (262_144, 2)
    assert (topology.cluster.heartbeat_timeout_s, topology.cluster.startup_timeout_s) == (2.0, 30.0)
    assert (topology.stages["source"].parallelism, topology.stages["source"].threads) == (1, 1)


def test_every_limit_of_the_control_plane_can_be_set(write: Write) -> None:
    assert load(write()).cluster == JobLimits()
    names = JobLimits.keys()
    topology = load(write(), [f"cluster.{name}={number}" for number, name in enumerate(names, start=3)])
    assert JobLimits.from_topology(topology.to_dict()) == topology.cluster
    assert topology.cluster.to_plain() == dict(zip(names, range(3, 99)))


def test_workers_and_positions(write: Write) -> None:
    topology = load(write())
    assert (topology.sources, topology.processors, topology.sinks) == (("source",), ("processor",), ("sink",))
    assert topology.tasks("processor")[5] == WorkerId("processor", 5)
    assert [str(worker) for worker in topology.workers()] == [
        *("source.0", "processor.0", "processor.1", "processor.2", "processor.3", "processor.4", "processor.5"),
        "sink.0",
    ]


def test_positions_follow_the_edges_not_the_names_nor_the_order(write: Write) -> None:
    topology = load(
        write(
            *(("from: source", "from: alpha"), ("  source:", "  alpha:"), ("to: sink", "to: beta")),
            *(("from: sink", "from: beta"), ("  sink:", "  beta:")),
        )
    )
    assert (topology.sources, topology.sinks) == (("alpha",), ("beta",))


def test_edges_know_their_place_their_name_and_their_direction(write: Write) -> None:
    topology = load(write())
    assert [(edge.index, edge.name, edge.feedback) for edge in topology.edges] == [
        (0, "source->processor", False),
        (1, "processor->sink", False),
        (2, "sink->processor", True),
    ]
    assert [edge.index for edge in topology.in_edges("processor")] == [0, 2]
    assert [edge.index for edge in topology.out_edges("processor")] == [1]
    assert topology.edges[2].partitioning == "full"


def test_the_dict_survives_json_and_names_the_sink_tasks(write: Write) -> None:
    two = [("options: {rate: 1.0e-6}", "options: {rate: [1, {a: null}]}")]
    both = ["stages.source.parallelism=2", "stages.sink.parallelism=2"]
    topology = load(write(*two), [*both, "output.path=/rows", "stages.sink.cpus=[0, 1]"])
    plain = topology.to_dict()
    assert plain["sinks"] == ["sink.0", "sink.1"]
    assert Topology.from_dict(json.loads(json.dumps(plain))) == topology
    assert Topology.from_dict(json.loads(json.dumps(plain))).to_dict() == plain


def test_feedback_makes_no_position(write: Write) -> None:
    topology = load(write(("{from: sink, to: processor, feedback", "{from: sink, to: source, feedback")))
    assert (topology.sources, topology.processors, topology.sinks) == (("source",), ("processor",), ("sink",))


def test_anchors_and_aliases_are_plain_values(write: Write) -> None:
    topology = load(write(("seed: 7", "seed: &seven 7"), ("feedback: true", "feedback: &yes true")))
    assert topology.edges[2].feedback is True and type(topology.seed) is int


def test_nothing_of_a_topology_can_be_changed(write: Write) -> None:
    topology = load(write())
    for mapping in (topology.stages, topology.fault_tolerance, topology.stages["processor"].options):
        with pytest.raises(TypeError):
            mapping["x"] = 1  # type: ignore[index]
    with pytest.raises(AttributeError):
        topology.seed = 2  # type: ignore[misc]
    listed = load(write(("{rate: 1.0e-6}", "{rates: [1]}")))
    listed.to_dict()["stages"]["processor"]["options"]["rates"].append(2)
    assert listed.stages["processor"].options["rates"] == [1]
