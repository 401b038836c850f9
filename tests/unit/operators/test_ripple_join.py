"""The online join against an exact one, its confidence interval, and failures (AF Experiment 4, Theorem 3)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.joins.ripple_join import JoinedSamples, RippleJoin, SamplePackets, join_keys, sample
from riprap.operators.states.base import Backup
from tests.unit.operators.dataflow_harness import Outbox, Task, input_items

PACKET = np.dtype([("time_ns", "<i8"), ("source", "u1", (16,)), ("destination", "u1", (16,)), ("size", "<u4")])
SIDES = ("left", "right")


def packets(seed: int, count: int, hosts: int = 40, seconds: int = 20) -> np.ndarray:
    rng = np.random.default_rng(seed)
    records = np.zeros(count, PACKET)
    records["time_ns"] = rng.integers(0, seconds * 10**9, count)
    records["destination"][:, 10:12] = 255
    records["destination"][:, 15] = np.minimum(rng.zipf(1.5, count), hosts)
    return records


def exact(left: np.ndarray, right: np.ndarray) -> int:
    """The number of pairs with the same destination and second."""
    counts = [
        Counter(zip(map(bytes, side["destination"]), (side["time_ns"] // 10**9).tolist(), strict=True))
        for side in (left, right)
    ]
    return sum(count * counts[1][key] for key, count in counts[0].items())


class Join:
    """Two sources and `tasks` joins."""

    def __init__(self, rate: float, tasks: int = 1, theta: float = np.inf, seed: int = 1) -> None:
        downstream = {"join": tasks}
        self.sources = [
            Task(
                lambda salt=salt: SamplePackets(rate, salt),
                Context(index=0, parallelism=1, upstream={}, downstream=downstream, seed=seed),
                theta,
            )
            for salt in range(2)
        ]
        upstream = dict.fromkeys(SIDES, 1)
        self.joins = [
            Task(
                lambda: RippleJoin(rate),
                Context(index=i, parallelism=tasks, upstream=upstream, downstream={}, seed=seed),
                theta,
            )
            for i in range(tasks)
        ]

    def feed(self, side: int, records: np.ndarray) -> None:
        source = self.sources[side]
        source.process(input_items(1, records))
        sent, source.out.sent = source.out.sent, []
        for arrays, count, to, _ in sent:
            assert to is not None
            self.joins[to].process(Items(1, SIDES[side], 0, count, tuple(arrays)))

    def results(self) -> tuple[float, float]:
        parts = [task.operator.results() for task in self.joins]
        for task, part in zip(self.joins, parts, strict=True):
            assert task.operator.metrics()["estimate"] == part["estimate"][0], "incrementally and at once"
        return sum(float(part["estimate"][0]) for part in parts), sum(float(part["variance"][0]) for part in parts)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(0, 300),
    st.integers(0, 300),
    st.integers(1, 3),
    st.sampled_from([0.0, 7.5, np.inf]),
)
def test_a_sample_of_all_gives_the_exact_join(seed: int, left: int, right: int, tasks: int, theta: float) -> None:
    sides = packets(seed, left), packets(seed + 1, right)
    join = Join(1.0, tasks, theta)
    for begin in range(0, 300, 90):
        for number, side in enumerate(sides):
            join.feed(number, side[begin : begin + 90])
    assert join.results() == (exact(*sides), 0.0)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    sides = packets(5, 6000), packets(6, 6000)
    truth, covered, estimates, variances = exact(*sides), 0, [], []
    for seed in range(200):
        join = Join(0.1, seed=seed)
        for number, side in enumerate(sides):
            join.feed(number, side)
        results = join.joins[0].operator.results()
        low, high = results["interval"]
        covered += low <= truth <= high
        estimates.append(results["estimate"][0])
        variances.append(results["variance"][0])
    assert 178 <= covered <= 200, "95 % of 200, and three standard deviations"
    assert abs(np.mean(estimates) / truth - 1) < 0.03, "unbiased"
    assert 0.75 < np.mean(variances) / np.var(estimates) < 1.35


def test_after_ten_failures_the_estimate_is_close_and_its_interval_wider() -> None:
    sides = packets(7, 20_000), packets(8, 20_000)
    truth = exact(*sides)
    join, undisturbed = Join(0.1, 2, theta=60.0), Join(0.1, 2, theta=60.0)
    for number, begin in enumerate(range(0, 20_000, 1000)):
        for side in range(2):
            join.feed(side, sides[side][begin : begin + 1000])
            undisturbed.feed(side, sides[side][begin : begin + 1000])
        if number % 2:
            for task in join.joins:
                task.fail()
    estimate, variance = join.results()
    assert abs(estimate - truth) / truth < 0.25 and variance > 0
    lost = [task.operator.state.lost for task in join.joins]
    assert all(60 <= count <= 130 for count in lost), "a geometric series, rounded up"
    sampled = sum(sum(task.operator.state.packets()) for task in join.joins)
    assert 0 <= sum(sum(task.operator.state.packets()) for task in undisturbed.joins) - sampled <= sum(lost)
    state = join.joins[0].operator.state
    assert state.joined == state.moments()[0]


@pytest.mark.parametrize(("theta", "lost"), [(np.inf, 0), (0.0, np.inf), (1e300, 0)])
def test_after_a_loss_without_a_bound_the_interval_is_that_of_one_packet(theta: float, lost: float) -> None:
    """Theorem 3 where nothing is known to be left of the sample, also after a second failure."""
    join = Join(0.5)
    for side in range(2):
        join.feed(side, packets(7 + side, 2000))
    before, (task,) = join.results(), join.joins
    for _ in range(2):
        task.back_up()
        task.fail(theta, lost)
    sampled = sum(task.operator.state.packets())
    assert join.results() == pytest.approx((before[0], before[1] * sampled))


def test_the_position_survives_so_that_the_same_packets_are_sampled() -> None:
    records, sampled = packets(9, 3000), []
    for failing in (False, True):
        task = Task(
            lambda: SamplePackets(0.1),
            Context(index=0, parallelism=1, upstream={}, downstream={"join": 1}, seed=4),
            np.inf,
        )
        for begin in range(0, 3000, 500):
            task.process(input_items(1, records[begin : begin + 500]))
            if failing:
                task.back_up()
                task.fail()
        sampled.append(np.concatenate([arrays[0] for arrays, *_ in task.out.sent]).tolist())
    assert sampled[0] == sampled[1] and 220 < len(sampled[0]) < 380


def test_samples_have_their_rate_and_are_independent() -> None:
    one, other = sample(0, 100_000, 0.1, 1), sample(0, 100_000, 0.1, 2)
    assert abs(one.mean() - 0.1) < 0.005 and abs((one & other).mean() - 0.01) < 0.002
    assert (sample(500, 900, 0.1, 1) == one[500:900]).all()


def test_keys_tell_destinations_and_seconds_apart() -> None:
    records = np.zeros(6, PACKET)
    records["destination"][1:3, 0], records["destination"][3, 15] = [1, 2], 1
    records["time_ns"][4], records["time_ns"][5] = 10**9, 10**9 - 1
    keys = join_keys(records)
    assert len(np.unique(keys[:5])) == 5 and keys[5] == keys[0]


def test_wrong_options_edges_and_input_are_named() -> None:
    for rate in (0.0, 1.1):
        with pytest.raises(ConfigError):
            SamplePackets(rate)
        with pytest.raises(ConfigError):
            RippleJoin(rate)
    with pytest.raises(ConfigError, match="two stages"):
        RippleJoin().open(Context(upstream={"left": 1}))
    operator = SamplePackets()
    operator.open(Context())
    for array in (np.zeros(3), np.zeros(3, [("time_ns", "<i8")])):
        with pytest.raises(DataError, match="no packets"):
            operator.process_data(input_items(1, array), 0, Outbox())


def test_both_sides_share_theta() -> None:
    state = JoinedSamples()
    state.theta = 5
    assert state.add(0, np.arange(4)) == 4 and not state.exceeded
    assert state.add(1, np.arange(10)) == 2 and state.state_divergence() == 6 and state.joined == 2
    state.backup_state()
    assert state.state_divergence() == 0


def test_malformed_backups_are_refused() -> None:
    good = JoinedSamples().backup_state().arrays
    JoinedSamples().recover_state(Backup(True, good))
    for arrays in (good[:-1], (good[0][:2], *good[1:]), (*good[:2], np.zeros(1, np.int64), *good[3:])):
        with pytest.raises(ValueError):
            JoinedSamples().recover_state(Backup(True, arrays))
