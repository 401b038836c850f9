"""The stream that a job makes of its shards: repeats, limit, shares, replay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operator_streams import write_shards

from riprap.codec.errors import ConfigError
from riprap.operators.base import Context
from riprap.operators.inputs.shard_source import ShardSource

ROWS = 23


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards of 23 rows whose first column counts them."""
    directory = tmp_path_factory.mktemp("shards")
    matrix = np.column_stack([np.arange(ROWS), np.random.default_rng(0).normal(size=(ROWS, 4))])
    write_shards(directory, [matrix[:10], matrix[10:11], matrix[11:]])
    return directory


def opened(path: Path, index: int = 0, parallelism: int = 1, **further: object) -> ShardSource:
    """An open source."""
    source = ShardSource()
    source.open(Context(index=index, parallelism=parallelism, input={"path": path, **further}))
    return source


@given(
    repeat=st.integers(1, 4), limit=st.none() | st.integers(1, 100), tasks=st.integers(1, 7), step=st.integers(1, 70)
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_shares_are_disjoint_complete_and_even(
    shards: Path, repeat: int, limit: int | None, tasks: int, step: int
) -> None:
    stream = []
    lengths = []
    for index in range(tasks):
        source = opened(shards, index, tasks, repeat=repeat, limit=limit)
        lengths.append(source.items)
        for start in range(0, source.items, step):
            stream.append(source.read(start, min(start + step, source.items)))
            assert stream[-1].flags.c_contiguous and stream[-1].dtype == np.float64
    expected = np.tile(np.arange(ROWS), repeat)[:limit]
    assert np.concatenate(stream)[:, 0].tolist() == expected.tolist()
    assert max(lengths) - min(lengths) <= 1


def test_any_range_is_read_again_with_the_same_bytes(shards: Path) -> None:
    first, second = (opened(shards, repeat=3) for _ in range(2))
    whole = first.read(0, first.items)
    for start, stop in [(0, 0), (5, 15), (9, 10), (20, 30), (22, 24), (11, 69), (69, 69)]:
        assert second.read(start, stop).tobytes() == whole[start:stop].tobytes()
        assert second.read(start, stop).shape == (stop - start, 5)


def test_a_range_within_a_shard_is_not_copied(shards: Path) -> None:
    source = opened(shards, repeat=2)
    assert np.shares_memory(source.read(0, 5), source.read(3, 8))
    assert np.shares_memory(source.read(ROWS, ROWS + 5), source.read(0, 5))


def test_schema_is_the_manifests(shards: Path) -> None:
    assert opened(shards).schema() == (("c0", "c1", "c2", "c3", "c4"), "c0")


@given(tasks=st.integers(1, 7), start=st.integers(0, 200), count=st.integers(0, 90))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_without_end_each_task_streams_its_rows_again_and_again(
    shards: Path, tasks: int, start: int, count: int
) -> None:
    own: list[float] = []
    for index in range(tasks):
        source = opened(shards, index, tasks, repeat="forever")
        assert source.items is None
        rows = [row for _, run in list(source.sample())[:1] for row in run[:, 0]]
        own += rows
        expected = [rows[place % len(rows)] for place in range(start, start + count)]
        assert source.read(start, start + count)[:, 0].tolist() == expected
    assert own == list(range(ROWS))


def test_more_tasks_than_rows_cannot_stream_for_ever(shards: Path) -> None:
    with pytest.raises(ConfigError, match=f"source task 0 of {ROWS + 1} would have no row"):
        opened(shards, 0, ROWS + 1, repeat="forever")
    assert opened(shards, repeat="forever", limit=7).items == 7


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 2), (0, ROWS + 1)])
def test_ranges_outside_the_stream_are_refused(shards: Path, start: int, stop: int) -> None:
    with pytest.raises(ValueError, match=f"of a stream of {ROWS}"):
        opened(shards).read(start, stop)


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ({"repeat": 0}, "input.repeat is 0"),
        ({"limit": 0}, "input.limit is 0"),
        ({"limit": 1.5}, "input.limit is 1.5"),
        ({"path": None}, "no path"),
    ],
)
def test_bad_inputs_are_refused(shards: Path, further: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        opened(**{"path": shards, **further})
