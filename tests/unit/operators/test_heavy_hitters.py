"""Heavy hitters against exact sums, with and without failures (AF Theorem 2)."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.packets.flows import ENDS
from riprap.operators.packets.heavy_hitters import GlobalSketch, LocalSketch
from riprap.operators.tables import Schema
from tests.unit.operators.dataflow_harness import Outbox, Pipeline, input_items

PACKET = np.dtype([("time_ns", "<i8"), ("size", "<u4"), ("payload", "<u4"), ("flow", "<u8")])
ALPHA = 1500


def packets(rng: np.random.Generator, count: int, flows: int = 3000) -> np.ndarray:
    records = np.zeros(count, PACKET)
    ranks = np.minimum(rng.zipf(1.2, count), flows).astype(np.uint64)
    records["flow"] = ranks * np.uint64(0x9E3779B97F4A7C15)
    records["size"] = rng.integers(40, ALPHA + 1, count)
    return records


def exact(blocks: list[np.ndarray]) -> Counter[int]:
    """Bytes of each flow."""
    sums: Counter[int] = Counter()
    for block in blocks:
        for flow, size in zip(block["flow"].tolist(), block["size"].tolist(), strict=True):
            sums[flow] += size
    return sums


def pipeline(
    tasks: int, threshold: float, width: int = 8000, theta: float = np.inf, slack: float | None = None
) -> Pipeline:
    return Pipeline(
        [
            ("local", lambda: LocalSketch(threshold, width, slack), tasks),
            ("global", lambda: GlobalSketch(threshold, width), 1),
        ],
        theta,
    )


@pytest.mark.parametrize("tasks", [1, 3])
def test_windows_report_exactly_the_heavy_hitters_of_a_wide_sketch(tasks: int) -> None:
    rng, threshold = np.random.default_rng(1), 50_000.0
    line = pipeline(tasks, threshold)
    expected = {}
    for _ in range(3):
        blocks = [packets(rng, 4000, flows=200) for _ in range(tasks)]
        for index, block in enumerate(blocks):
            line.feed(index, block[:1500])
            line.feed(index, block[1500:])
        expected[line.close()] = {(f, b) for f, b in exact(blocks).items() if b > threshold}
    results = line.task(1).operator.results()
    found = list(zip(*(results[name].tolist() for name in ("epoch", "flow", "bytes")), strict=True))
    assert len(expected[1]) >= 3
    assert {epoch: {(f, b) for e, f, b in found if e == epoch} for epoch in expected} == expected
    written = line.task(1).out.written
    assert [name for name, _ in written] == ["heavy_hitters"] * 3
    assert set(written[1][1]["flow"].tolist()) == {flow for flow, _ in expected[2]}


def test_a_sketch_does_not_count_two_windows_as_one() -> None:
    """One of two senders is ahead: its packets of window 2 come before the others', or before window 1 is closed."""
    block = packets(np.random.default_rng(1), 10)
    for closes in (False, True):
        sketch = LocalSketch()
        sketch.open(Context())
        sketch.process_data(input_items(2, block), 0, Outbox())
        with pytest.raises(ConfigError, match=r"(?s)windows 1 and 2 come to one sketch at once.*one_to_one"):
            if closes:
                sketch.process_punctuation(1, Outbox())
            else:
                sketch.process_data(input_items(1, block), 0, Outbox())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 10), st.sampled_from([64, 1000]))
def test_no_heavy_hitter_is_missed_after_failures(seed: int, tasks: int, failures: int, width: int) -> None:
    """Theorem 2: tasks die and lose what followed their last backup, and some items; nothing heavy is missed."""
    rng, threshold, theta, items = np.random.default_rng(seed), 200_000.0, 20_000.0, 8
    line = pipeline(tasks, threshold, width, theta, slack=theta + 2 * items * ALPHA)
    blocks = [packets(rng, 3000) for _ in range(tasks)]
    cuts = np.sort(rng.integers(0, 3000, failures + 1))
    lost, begin = dict.fromkeys(range(tasks), items), 0
    for cut in cuts:
        for index, block in enumerate(blocks):
            if begin < cut:
                line.feed(index, block[begin:cut])
        if cut != cuts[-1]:
            victim = int(rng.integers(0, tasks))
            line.task(0, victim).fail(items=lost[victim])
            begin = cut + (lost[victim] if tasks == 1 else 0)
            lost[victim] //= 2
        else:
            begin = cut
    for index, block in enumerate(blocks):
        line.feed(index, block[begin:])
    line.close()
    sums = exact(blocks)
    heavy = {flow for flow, size in sums.items() if size > threshold}
    results = line.task(1).operator.results()
    assert heavy and heavy <= set(results["flow"].tolist())
    assert all(
        size >= sums[flow] for flow, size in zip(results["flow"].tolist(), results["bytes"].tolist(), strict=True)
    )


@pytest.mark.parametrize("lost", [0, 8])
def test_without_compensation_a_heavy_hitter_would_be_missed(lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    block = np.zeros(100, PACKET)
    block["flow"], block["size"] = 7, 1000

    def found() -> list[int]:
        line = pipeline(1, 99_000.0, theta=20_000.0)
        line.feed(0, block[:60])
        line.task(0).fail(items=lost)
        line.feed(0, block[60 + lost :])
        line.close()
        return line.task(1).operator.results()["flow"].tolist()

    assert found() == [7]
    compensate = LocalSketch.recovered
    if lost:
        monkeypatch.setattr(LocalSketch, "recovered", lambda self, theta, items: compensate(self, theta, 0))
    else:
        monkeypatch.setattr(LocalSketch, "recovered", lambda *_: None)
    assert found() == []


@pytest.mark.parametrize(("theta", "lost"), [(np.inf, 0), (0.0, np.inf), (1e300, 0)])
def test_nothing_makes_up_for_a_loss_without_a_bound(theta: float, lost: float) -> None:
    """Counters are what was counted; the flow that is heavy all the same is found."""
    block = np.zeros(100, PACKET)
    block["flow"], block["size"] = 7, 1000
    line = pipeline(1, 30_000.0)
    line.feed(0, block[:60])
    line.task(0).back_up()
    line.task(0).fail(theta, lost)
    line.feed(0, block[60:])
    line.close()
    assert line.task(1).operator.results()["bytes"].tolist() == [100_000]


def test_the_destination_comes_back_with_its_windows_and_its_findings() -> None:
    rng = np.random.default_rng(2)
    line, undisturbed = pipeline(2, 50_000.0), pipeline(2, 50_000.0)
    for task in line.stages[1]:
        task.theta = task.operator.state.theta = 0.0
    for _ in range(3):
        for index in range(2):
            block = packets(rng, 2000)
            line.feed(index, block)
            undisturbed.feed(index, block)
        for task in line.stages[0]:
            task.operator.process_punctuation(line.epoch + 1, task.out)
            line._deliver(line.epoch + 1)
            line.task(1).fail()
        line.epoch += 1
        line.task(1).operator.process_punctuation(line.epoch, line.task(1).out)
        line.task(1).back_up()
        line.task(1).fail()
        undisturbed.close()
    results, expected = line.task(1).operator.results(), undisturbed.task(1).operator.results()
    assert len(expected["flow"]) > 5
    assert all((results[name] == expected[name]).all() for name in expected)


def test_heavy_hitters_are_named_by_addresses_and_ports() -> None:
    """What is shown of each is what an exact count by the 5-tuple finds."""
    dtype = np.dtype([("size", "<u4"), ("flow", "<u8"), *ENDS.descr])
    records = np.zeros(600, dtype)
    rng = np.random.default_rng(3)
    hosts = [bytes(10) + b"\xff\xff" + bytes([10, 0, 0, n]) for n in range(5)]
    for record, flow in zip(records, rng.integers(0, 5, 600).tolist(), strict=True):
        record["source"] = np.frombuffer(hosts[flow], np.uint8)
        record["destination"] = np.frombuffer(bytes.fromhex("20010db8") + bytes(11) + b"\1", np.uint8)
        record["source_port"], record["destination_port"], record["protocol"] = 1000 + flow, 443, 6 if flow else 99
        record["version"], record["flow"], record["size"] = 4, flow + 1, 100 * (flow + 1)
    records["destination"][:] = np.frombuffer(hosts[4], np.uint8)
    line = pipeline(2, 20_000.0)
    line.feed(0, records[:300])
    line.feed(1, records[300:])
    line.close()
    table = GlobalSketch.tables([line.task(1).operator.results()], Schema())["heavy_hitters"]
    found = list(zip(*(column.tolist() for column in table.columns.values()), strict=True))
    sums = exact([records])
    expected = sorted(((size, flow - 1) for flow, size in sums.items() if size > 20_000), reverse=True)
    assert len(expected) >= 3 and [row[:7] for row in found] == [
        (1, f"10.0.0.{flow}", "10.0.0.4", "TCP" if flow else "99", 1000 + flow, 443, size) for size, flow in expected
    ]
    assert list(table.columns)[-1] == "error_max" and table.columns["error_max"][0] == math.ceil(
        math.e / 8000 * sum(sums.values())
    )


def test_packets_without_addresses_are_named_by_their_flow() -> None:
    line = pipeline(1, 1000.0)
    line.feed(0, packets(np.random.default_rng(1), 500))
    line.close()
    columns = GlobalSketch.tables([line.task(1).operator.results()], Schema())["heavy_hitters"].columns
    assert "flow" in columns and set(columns["source"]) == {""}


def test_an_idle_window_reports_nothing() -> None:
    line = pipeline(2, 1000.0)
    assert line.close() == 1
    assert len(line.task(1).operator.results()["flow"]) == 0 and line.task(1).operator.metrics() == {
        "heavy_hitters": 0.0
    }


@pytest.mark.parametrize(
    "options",
    [{"threshold": 0}, {"width": 0}, {"width": 2**24 + 1}, {"slack": -1}, {"slack": 10e6}, {"packet_bytes_max": 0}],
)
def test_wrong_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        LocalSketch(**options).open(Context())  # type: ignore[arg-type]


def test_sketches_go_to_one_task() -> None:
    with pytest.raises(ConfigError, match="one task"):
        LocalSketch().open(Context(downstream={"global": 2}))


def test_input_without_packets_is_named() -> None:
    operator = LocalSketch()
    operator.open(Context())
    with pytest.raises(DataError, match="no column flow"):
        operator.process_data(input_items(1, np.zeros(3)), 0, Outbox())


def test_a_sketch_of_another_width_is_refused() -> None:
    operator = GlobalSketch(width=100)
    operator.open(Context())
    with pytest.raises(ConfigError, match="same width"):
        operator.process_data(input_items(1, np.zeros((4, 99), np.int64), np.empty(0, np.uint64), count=1), 0, Outbox())
