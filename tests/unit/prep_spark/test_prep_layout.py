"""Which row goes where, against a plain loop over all rows."""

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from riprap.prep_spark import layout
from riprap.prep_spark.layout import chosen, held_back, plan_shards


def rows_of(plan: layout.ShardPlan, fraction: float, seed: int) -> list[int]:
    mask = chosen(plan.part, plan.start, plan.stop, fraction, seed)
    rows = range(plan.start, plan.stop)
    return list(rows) if mask is None else [row for row, taken in zip(rows, mask) if taken]


@given(st.integers(0, 300), st.sampled_from([0.0, 0.1, 0.5, 0.9]), st.integers(-5, 2**63), st.integers(1, 70))
def test_shards_hold_every_row_once_and_in_order(rows: int, fraction: float, seed: int, shard_rows: int) -> None:
    plans = plan_shards(rows, fraction, seed, shard_rows)
    held = set(np.flatnonzero(held_back(0, rows, fraction, seed)).tolist())
    for part in ("all", "train", "test"):
        mine = [plan for plan in plans if plan.part == part]
        contents = [rows_of(plan, fraction, seed) for plan in mine]
        assert [plan.number for plan in mine] == list(range(len(mine)))
        assert [len(content) for content in contents] == [plan.rows for plan in mine]
        assert all(plan.rows == shard_rows for plan in mine[:-1])
        wanted = [row for row in range(rows) if part == "all" or (row in held) == (part == "test")]
        assert list(chain(*contents)) == (wanted if (part == "all") == (fraction == 0) else [])


def test_the_plan_does_not_depend_on_the_size_of_a_chunk(monkeypatch) -> None:
    whole = plan_shards(5000, 0.3, 9, 100)
    monkeypatch.setattr(layout, "CHUNK_ROWS", 37)
    assert plan_shards(5000, 0.3, 9, 100) == whole


def test_the_held_back_fraction_is_as_asked_and_the_seed_matters() -> None:
    first, second = held_back(0, 100_000, 0.1, 1), held_back(0, 100_000, 0.1, 2)
    assert abs(first.mean() - 0.1) < 0.005
    assert abs((first & second).mean() - 0.01) < 0.002  # independent of each other
    halves = first.reshape(100, 1000).mean(axis=1)
    assert halves.min() > 0.05  # and drawn from all over the stream
    assert halves.max() < 0.15
