"""The count-min sketch against a dumb one, its guarantees, and those of Apache DataSketches."""

from __future__ import annotations

import math

import datasketches
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.operators.packets.count_min import ROWS, CountMin
from riprap.operators.packets.flows import of_bytes
from riprap.operators.states.base import Backup

PACKET = np.dtype([("size", "<u4"), ("gap", "u1"), ("flow", "<u8"), ("end", "u1")])


def packets(flows: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    records = np.zeros(len(flows), PACKET)
    records["flow"], records["size"] = flows, sizes
    return records


def zipf(seed: int, count: int, skew: float = 1.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    flows = np.minimum(rng.zipf(skew, count), 2**40).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return flows, rng.integers(40, 1501, count)


class DumbSketch:
    """The same counters, one packet at a time."""

    def __init__(self, like: CountMin, limit: float) -> None:
        self.like, self.limit = like, limit
        self.totals = np.zeros((ROWS, like.width), np.int64)
        self.saved = self.totals.copy()
        self.kept: dict[int, None] = {}

    def add(self, flow: int, size: int) -> float:
        columns = self.like.columns(np.array([flow], np.uint64))[:, 0]
        self.totals[range(ROWS), columns] += size
        if self.totals[range(ROWS), columns].min() > self.limit:
            self.kept[flow] = None
        return float((self.totals - self.saved).max())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1500)), max_size=80),
    st.floats(0, 5000),
    st.integers(1, 40),
    st.integers(0, 2**63),
)
def test_it_counts_stops_and_keeps_as_one_packet_at_a_time(
    stream: list[tuple[int, int]], theta: float, width: int, seed: int
) -> None:
    sketch = CountMin(width, seed, 3000.5)
    sketch.theta = theta
    dumb = DumbSketch(sketch, 3000.5)
    records = packets(*np.array(stream, np.uint64).reshape(-1, 2).T)
    restored, first = CountMin(width, seed, 3000.5), 0
    while first < len(stream):
        left = sketch.add(records, first)
        for position in range(first, left):
            divergence = dumb.add(*stream[position])
            assert (divergence > theta) == (position == left - 1 and sketch.exceeded)
        assert sketch.state_divergence() == divergence
        first = left
        if sketch.exceeded:
            restored.recover_state(sketch.backup_state())
            dumb.saved = dumb.totals.copy()
            assert sketch.state_divergence() == 0 and (restored.totals() == dumb.totals).all()
    restored.recover_state(sketch.backup_state())
    assert (sketch.totals() == dumb.totals).all() and (restored.totals() == dumb.totals).all()
    assert sketch.kept.tolist() == list(dumb.kept) == restored.kept.tolist()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1500)), max_size=80),
    st.lists(
        st.tuples(st.sampled_from([700.0, 2000.5, 5000.0, math.inf]), st.sampled_from([0.0, 100.5, 1500.0, math.inf])),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 40),
)
def test_a_restored_sketch_differs_by_the_divergence_at_most(
    stream: list[tuple[int, int]], limits: list[tuple[float, float]], width: int
) -> None:
    """The limits change while it counts, as after a failure."""
    sketch, restored = CountMin(width), CountMin(width)
    records = packets(*np.array(stream, np.uint64).reshape(-1, 2).T)
    restored.recover_state(sketch.backup_state())
    for position in range(len(records)):
        sketch.theta, sketch.save_above = limits[position // 8 % len(limits)]
        assert sketch.add(records[: position + 1], position) == position + 1
        lacking = sketch.totals() - restored.totals()
        assert 0 <= lacking.min() <= lacking.max() <= sketch.state_divergence()
        assert sketch.exceeded or lacking.max() <= sketch.theta
        if sketch.exceeded:
            backup = sketch.backup_state()
            beyond = set(np.flatnonzero(lacking > sketch.spared).tolist())
            assert not backup.full and set(backup.arrays[1].tolist()) == beyond
            assert len(backup.arrays[1]) == len(beyond), "each once"
            restored.recover_state(backup)
            lacking = sketch.totals() - restored.totals()
            assert lacking.max() <= sketch.state_divergence() <= sketch.spared and not sketch.exceeded
    restored.recover_state(sketch.backup_all())
    assert (sketch.totals() == restored.totals()).all() and sketch.state_divergence() == 0


@pytest.mark.parametrize("save_above", [0, 15])
def test_what_is_counted_without_a_threshold_is_looked_up_when_somebody_asks(save_above: int) -> None:
    sketch, restored = CountMin(1000, 1), CountMin(1000, 1)
    sketch.save_above = save_above
    restored.recover_state(sketch.backup_state())
    for size in (10, 20):
        sketch.add(packets(np.array([size, 5], np.uint64), np.array([size, 6])))
        assert not sketch.exceeded
    assert sketch.state_divergence() == 20
    restored.recover_state(sketch.backup_state())
    spared = {0: 0, 15: 12}[save_above]
    assert (sketch.totals() - restored.totals()).max() == spared
    assert sketch.state_divergence() == {0: 0, 15: 15}[save_above], "an upper bound"
    sketch.theta = 20.0
    ones = packets(np.full(200, 20, np.uint64), np.ones(200))
    assert sketch.add(ones) == 21 and sketch.exceeded
    sketch.theta = math.inf
    sketch.add(ones, 100)
    sketch.theta = 50.0
    others = packets(np.full(200, 5, np.uint64), np.ones(200))
    assert sketch.add(others) == 1 and sketch.state_divergence() == 121, "it was exceeded before"


def test_counters_within_the_line_stay_out_until_they_add_up() -> None:
    sketch = CountMin(1000, 1)
    sketch.theta, sketch.save_above = 100, 10
    sketch.backup_state()
    sketch.add(packets(np.array([1, 2, 2], np.uint64), np.array([10, 6, 5])))
    assert sketch.backup_state().arrays[2].tolist() == [11] * ROWS and sketch.state_divergence() == 10
    assert len(sketch.backup_state().arrays[2]) == 0
    sketch.add(packets(np.array([1], np.uint64), np.array([1])))
    assert sketch.backup_state().arrays[2].tolist() == [11] * ROWS
    sketch.add(packets(np.array([1], np.uint64), np.array([1])))
    sketch.clear()
    sketch.backup_state()
    assert len(sketch.backup_state().arrays[2]) == 0, "nothing is listed any more"


def test_counters_are_listed_anew_when_the_line_moves() -> None:
    sketch = CountMin(1000, 1)
    sketch.theta, sketch.save_above = 100, 10
    sketch.backup_state()
    sketch.add(packets(np.array([1, 2], np.uint64), np.array([10, 30])))
    sketch.save_above = 20
    assert sorted(sketch.backup_state().arrays[2].tolist()) == [30] * ROWS
    sketch.save_above = 5
    assert sorted(sketch.backup_state().arrays[2].tolist()) == [10] * ROWS and sketch.state_divergence() == 5


def test_a_partial_backup_needs_the_one_before() -> None:
    sketch, restored = CountMin(100), CountMin(100)
    full = sketch.backup_state()
    sketch.add(packets(np.array([1], np.uint64), np.array([10])))
    partial = sketch.backup_state()
    with pytest.raises(ValueError, match="partial"):
        restored.recover_state(partial)
    restored.recover_state(full)
    restored.add(packets(np.array([2], np.uint64), np.array([5])))
    with pytest.raises(ValueError, match="partial"):
        restored.recover_state(partial)
    restored.recover_state(full)
    restored.recover_state(partial)
    assert (restored.totals() == sketch.totals()).all()


def test_partial_backups_hold_what_changed() -> None:
    sketch = CountMin(1000, 1)
    sketch.add(packets(np.arange(100, dtype=np.uint64), np.full(100, 10)))
    assert sketch.backup_state().full
    sketch.add(packets(np.array([5], np.uint64), np.array([10])))
    partial = sketch.backup_state()
    assert not partial.full and len(partial.arrays[1]) == ROWS
    whole, restored = sketch.backup_all(), CountMin(1000, 1)
    restored.recover_state(whole)
    assert whole.full and (restored.totals() == sketch.totals()).all()
    assert not sketch.cleared
    sketch.clear()
    assert sketch.cleared, "a backup is due"
    empty = sketch.backup_state()
    assert empty.full and len(empty.arrays[1]) == 0


def test_compensation_raises_every_counter_and_diverges_until_it_is_saved() -> None:
    sketch = CountMin(10)
    sketch.compensate(99.5)
    assert (sketch.totals() == 100).all() and sketch.state_divergence() == 100
    restored = CountMin(10)
    restored.recover_state(sketch.backup_state())
    assert (restored.totals() == 100).all() and sketch.state_divergence() == 0
    sketch.clear()
    assert (sketch.totals() == 0).all()


def test_a_compensated_sketch_is_backed_up_before_it_goes_on() -> None:
    sketch = CountMin(10)
    sketch.theta = 1000.0
    sketch.recover_state(CountMin(10).backup_state())
    sketch.compensate(1)
    assert sketch.exceeded, "though it is within theta"
    sketch.backup_state()
    assert not sketch.exceeded
    sketch.compensate(1)
    sketch.clear()
    assert not sketch.exceeded


def test_many_flows_are_kept_in_their_order() -> None:
    sketch = CountMin(8000, limit=0)
    flows = np.random.default_rng(3).permutation(5000).astype(np.uint64)
    sketch.add(packets(np.repeat(flows, 2), np.ones(10_000)))
    assert sketch.kept.tolist() == flows.tolist()


@pytest.mark.parametrize("skew", [1.05, 1.3])
def test_the_error_is_within_the_guarantee_and_like_that_of_datasketches(skew: float) -> None:
    flows, sizes = zipf(5, 60_000, skew)
    width, seeds = 200, range(4)
    keys, inverse = np.unique(flows, return_inverse=True)
    truth = np.bincount(inverse, sizes).astype(np.int64)
    bound = math.e / width * sizes.sum()
    for seed in seeds:
        ours = CountMin(width, seed)
        ours.add(packets(flows, sizes))
        theirs = datasketches.count_min_sketch(ROWS, width, seed)
        signed = keys.view(np.int64).tolist()
        for key, weight in zip(signed, truth.tolist(), strict=True):
            theirs.update(key, weight)
        peer = np.array([theirs.get_estimate(key) for key in signed])
        errors, peer_errors = ours.estimate(keys) - truth, peer - truth
        assert errors.min() >= 0 and peer_errors.min() >= 0
        assert (errors > bound).mean() <= math.exp(-ROWS) and (peer_errors > bound).mean() <= math.exp(-ROWS)
        assert errors.mean() <= 1.3 * peer_errors.mean() + 0.01 * bound, "as accurate as the peer"
        assert (ours.totals().sum(axis=1) == sizes.sum()).all()


def test_columns_are_spread_evenly_and_rows_differ() -> None:
    sketch = CountMin(50, 11)
    columns = sketch.columns(np.arange(100_000, dtype=np.uint64))
    counts = np.array([np.bincount(row, minlength=50) for row in columns])
    assert counts.min() > 1500 and counts.max() < 2500
    assert (columns[0] == columns[1]).mean() < 0.04
    assert (CountMin(50, 12).columns(np.arange(1000, dtype=np.uint64)) != columns[:, :1000]).any()


def wrong_backups() -> list[tuple[np.ndarray, ...]]:
    ends = np.zeros((1, 38), np.uint8)
    good = (np.array([10, 0]), np.array([3], np.uint32), np.array([5]), np.array([7], np.uint64), ends)
    CountMin(10).recover_state(Backup(True, good))
    swaps = [
        (0, np.array([11, 0])), (0, np.array([10])), (0, np.array([10, -1])), (1, np.array([40], np.uint32)),
        (1, np.array([3])), (1, np.array([3, 4], np.uint32)), (2, np.array([-5])), (2, np.array([5.0])),
        (3, np.empty((1, 0), np.uint64)), (3, np.empty(0, np.uint64)), (4, ends[:, :9]), (4, ends.reshape(-1)),
    ]  # fmt: skip
    twice = (*good[:3], np.array([7, 7], np.uint64), np.zeros((2, 38), np.uint8))
    return [good[:3], twice, *((*good[:at], array, *good[at + 1 :]) for at, array in swaps)]


@pytest.mark.parametrize("arrays", wrong_backups())
def test_malformed_backups_are_refused(arrays: tuple[np.ndarray, ...]) -> None:
    with pytest.raises(ValueError):
        CountMin(10).recover_state(Backup(True, arrays))


def test_flows_keep_their_ends_through_partial_backups() -> None:
    """Each flow's packets have its number as their source port; flows cross the limit in several blocks."""
    dtype = np.dtype([*PACKET.descr, ("source_port", "<u2"), ("version", "u1")])
    rng = np.random.default_rng(6)
    sketch, restored, first = CountMin(4000, limit=50.0), CountMin(4000, limit=50.0), 0
    sketch.theta = 500.0
    records = np.zeros(5000, dtype)
    records["flow"] = records["source_port"] = rng.integers(1, 400, 5000)
    records["size"], records["version"] = 20, 4
    while first < len(records):
        first = sketch.add(records, first)
        restored.recover_state(sketch.backup_state())
    flows, ends = restored.kept, of_bytes(restored.ends)
    assert len(flows) == 399 and (flows == ends["source_port"]).all() and (ends["version"] == 4).all()
    assert (sketch.ends == restored.ends).all()
    sketch.clear()
    assert len(sketch.ends) == len(sketch.kept) == 0


@pytest.mark.parametrize(
    "dtype", [[("flow", "<u8")], [("flow", "<i8"), ("size", "<u4")], [("flow", ">u8"), ("size", "<u4")]]
)
def test_other_records_are_refused(dtype: list[tuple[str, str]]) -> None:
    with pytest.raises(ValueError, match="no column"):
        CountMin().add(np.zeros(3, dtype))


def test_positions_beyond_the_end_are_the_end() -> None:
    assert CountMin().add(np.zeros(0, PACKET)) == 0
    assert CountMin().add(np.zeros(3, PACKET), 3) == 3
    with pytest.raises(ValueError):
        CountMin(0)
