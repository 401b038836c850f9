"""Pilots before they run, and what is said of them afterwards."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.loading import load
from riprap.configs.overrides import parse_set
from riprap.configs.topology import Topology
from riprap.engine.run.fault_plan import plan_faults
from riprap.engine.run.faults import parse_fault
from riprap.engine.tune.pilots import PilotOutcome, Quantity, _limits, flow, kills, pilot_items
from riprap.engine.tune.report import Tuning, document, text
from riprap.engine.tune.search import Measured, Setting

TOPOLOGY = """\
job: join
input: {{path: {path}, repeat: 10}}
micro_batch: 5
stages:
  left: {{operator: "ripple_join:SamplePackets", options: {{rate: 0.1, salt: 1}}}}
  right:
    operator: "ripple_join:SamplePackets"
    options: {{rate: 0.1, salt: 2}}
    input: {{path: {path}, repeat: 4}}
  join: {{operator: "ripple_join:RippleJoin", parallelism: 2, options: {{rate: 0.1}}}}
edges:
  - {{from: left, to: join, partitioning: full}}
  - {{from: right, to: join, partitioning: full}}
fault_tolerance: {{scheme: approximate, theta: 100, l: 10, gamma: 10}}
"""

SECTION = {"scheme": "approximate", "theta": 100.0, "l": 10.0, "gamma": 10.0, "window": "none"}


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    (tmp_path / "text.txt").write_text("line\n" * 10)
    (tmp_path / "job.yaml").write_text(TOPOLOGY.format(path=tmp_path / "text.txt"))
    return load(tmp_path / "job.yaml")


def test_kills_are_the_same_each_time_and_of_different_workers_at_even_distances(topology: Topology) -> None:
    specs = kills(topology, 20, 4)
    assert specs == kills(topology, 20, 4)
    faults = plan_faults([parse_fault(spec) for spec in specs], topology, None)
    assert {fault.target for fault in faults} == {"left.0", "right.0", "join.0", "join.1"}
    assert [fault.when.value for fault in faults] == [4, 8, 12, 16]
    assert len({parse_fault(spec).target for spec in kills(topology, 20, 6)}) == 4
    other = replace(topology, seed=topology.seed + 1)
    assert kills(other, 20, 4) != specs


def test_all_sources_are_cut_off_at_the_same_part_of_theirs(topology: Topology) -> None:
    assert _limits(topology, 50) == ["input.limit=50", "stages.right.input.limit=20"]


@pytest.mark.parametrize(
    ("asked", "items", "micro_batch", "wanted"),
    [(None, 10**9, 1000, 20_000), (None, 10**9, 10**6, 5 * 10**6), (None, 9000, 1000, 9000), (7000, 10**9, 1000, 7000)],
)
def test_a_pilot_has_twenty_windows_or_what_was_asked_for(
    asked: int | None, items: int, micro_batch: int, wanted: int
) -> None:
    assert pilot_items(asked, items, micro_batch, failures=4) == wanted


def test_a_pilot_needs_a_window_between_any_two_failures() -> None:
    with pytest.raises(ConfigError, match="has 4 windows, too few for 4 failures"):
        pilot_items(4000, 10**9, 1000, failures=4)


def test_a_section_on_one_line_is_read_back_as_it_was() -> None:
    section = {"scheme": "approximate", "theta": 1e-5, "l": math.inf, "gamma": 1234567.0, "window_epochs": 3}
    assert parse_set(f"fault_tolerance={flow(section)}") == (("fault_tolerance",), section)


def outcome(x: float, accuracy: float) -> PilotOutcome:
    results = {"a": {"x": np.array([x, 1.0]), "y": np.array([1.0])}}
    return PilotOutcome({"metrics": {"accuracy": accuracy}}, results)


@pytest.mark.parametrize(("name", "wanted"), [(None, 0.5), ("x", 0.5), ("y", 0.0), ("accuracy", 0.25)])
def test_what_was_lost_is_of_all_arrays_one_array_or_a_metric(name: str | None, wanted: float) -> None:
    assert Quantity(name).loss(outcome(3.0, 0.8), outcome(1.0, 0.6)) == pytest.approx(wanted)
    assert Quantity(name).loss(outcome(3.0, 0.8), outcome(3.0, 0.8)) == 0.0


def test_a_metric_that_nobody_reports_is_refused_with_those_there_are() -> None:
    assert Quantity("accuracy").sizes(outcome(3.0, 0.8)) == {"accuracy": 0.8}
    assert Quantity(None).sizes(outcome(3.0, 0.8)) == {"x": 4.0, "y": 1.0}
    with pytest.raises(ConfigError, match="the job reports accuracy, x, y"):
        Quantity("recall").sizes(outcome(3.0, 0.8))
    with pytest.raises(ConfigError, match="have no numbers as results"):
        Quantity(None).sizes(PilotOutcome({"metrics": {}}, {}))


def test_what_is_not_finite_is_refused_as_a_measure_and_lost_where_a_disturbed_pilot_has_it() -> None:
    """A summary has null for what is not finite."""
    sound, odd = outcome(3.0, 0.8), outcome(math.nan, math.nan)
    null = PilotOutcome({"metrics": {"accuracy": None}}, sound.results)
    for quantity, reference, name in [("accuracy", null, "accuracy"), (None, odd, "x"), ("x", odd, "x")]:
        with pytest.raises(ConfigError, match=f"^{name} of an undisturbed pilot is not finite"):
            Quantity(quantity).sizes(reference)
    assert Quantity("y").sizes(odd) == {"y": 1.0}
    assert Quantity("accuracy").loss(sound, null) == math.inf
    assert Quantity(None).loss(sound, odd) == Quantity("accuracy").loss(sound, odd) == math.inf


def tuning(chosen: bool = True, growth: float | None = 1.0, failures: int = 4) -> Tuning:
    small, large = Setting(100.0, 10.0, 10.0), Setting(1000.0, 100.0, 100.0)
    measured = [Measured(small, 0.001, 990.0, 40, 7, 4), Measured(large, 0.2, 995.0, 4, 0, 4)]
    none = Measured(small, 0.5, 1000.0, failures=4)
    best, proposal = (measured[0], Setting(10_000.0, 1000.0, 1000.0)) if chosen else (None, None)
    return Tuning(0.01, 1000, 100_000, 1100.0, none, measured, best, proposal, growth, failures, SECTION)


def test_the_table_has_a_row_a_pilot_and_ends_with_the_line_to_paste() -> None:
    lines = text(tuning()).splitlines()
    assert lines[0].split("  ")[0].strip() == "theta" and lines[0].endswith("failures")
    assert lines[1].split() == ["none", "1,000", "+0.0%", "0.5", "0", "0", "4"]
    assert lines[2].split() == ["100", "10", "10", "990", "-1.0%", "0.001", "40", "7", "4"]
    assert len({len(line) for line in lines[:4]}) == 1, "columns are aligned"
    assert lines[-1] == "fault_tolerance: {scheme: approximate, theta: 10000, l: 1000, gamma: 1000, window: none}"
    assert "to the power of 1.00" in lines[-2] and "to the power" not in text(tuning(growth=None))


def test_a_pilot_that_ended_before_its_failures_is_told() -> None:
    assert "only 4 of 5 failures came in time: raise --pilot-items" in text(tuning(failures=5))
    assert "failures came in time" not in text(tuning())


def test_without_a_proposal_there_is_nothing_to_paste() -> None:
    said = text(tuning(chosen=False))
    assert said.endswith("no thresholds that were measured kept the loss at 0.01 or below")
    found = document(tuning(chosen=False))
    assert (found["proposal"], found["chosen"], found["line"]) == (None, None, "")


def test_the_document_says_the_same_and_is_json() -> None:
    found = json.loads(json.dumps(document(tuning())))
    assert found["proposal"] == {"theta": 10_000.0, "l": 1000.0, "gamma": 1000.0}
    assert [one["loss"] for one in found["measured"]] == [0.001, 0.2]
    assert found["none"]["loss"] == 0.5 and found["none"]["theta"] is None
    assert found["chosen"] == found["measured"][0] and found["measured"][0]["against_none"] == pytest.approx(-0.01)
