"""The synthetic stream: reproducible, shared out to tasks, and as separable as its options say."""

from __future__ import annotations

import numpy as np
import pytest

from riprap.codec.errors import ConfigError
from riprap.operators.base import Context
from riprap.operators.inputs.synthetic import BLOCK, Classification


def opened(seed: int = 1, index: int = 0, parallelism: int = 1, **options: object) -> Classification:
    source = Classification(**options)  # type: ignore[arg-type]
    source.open(Context(seed=seed, index=index, parallelism=parallelism))
    return source


def test_a_row_depends_on_its_number_and_the_seed_alone() -> None:
    few, many, other = (
        opened(seed, items=9000, features=5, distinct=distinct).read(0, 1500)
        for seed, distinct in ((1, 1500), (1, 3 * BLOCK), (2, 1500))
    )
    assert few.tobytes() == many.tobytes()
    assert not (few[:, 1:] == other[:, 1:]).any()


def test_distinct_rows_come_again_and_all_tasks_together_stream_all_items() -> None:
    whole = opened(items=1000, features=3, distinct=64)
    rows = whole.read(0, 1000)
    np.testing.assert_array_equal(rows, np.resize(rows[:64], (1000, 4)))
    assert len(np.unique(rows[:, 1])) == 64
    tasks = [opened(items=1000, features=3, distinct=64, index=index, parallelism=3) for index in range(3)]
    assert [task.items for task in tasks] == [333, 333, 334]
    assert b"".join(task.read(0, task.items).tobytes() for task in tasks) == rows.tobytes()


def test_rows_are_lent_and_cannot_be_changed() -> None:
    source = opened(items=1000, features=3, distinct=64)
    assert np.shares_memory(source.read(3, 60), source.read(67, 70))
    with pytest.raises(ValueError, match="read-only"):
        source.read(3, 60)[0, 0] = 1.0
    for start, stop in ((-1, 3), (5, 4), (990, 1001)):
        with pytest.raises(ValueError, match="of a stream of 1000"):
            source.read(start, stop)


def test_only_informative_features_tell_the_classes_apart() -> None:
    rows = opened(items=20_000, features=8, informative=3, separation=0.7, flip=0.0, distinct=20_000).read(0, 20_000)
    positive = rows[:, 0] == 1.0
    assert set(np.unique(rows[:, 0])) == {0.0, 1.0} and abs(positive.mean() - 0.5) < 0.02
    apart = np.abs(rows[positive, 1:].mean(axis=0) - rows[~positive, 1:].mean(axis=0))
    np.testing.assert_allclose(apart[:3], 1.4, atol=0.1)
    assert (apart[3:] < 0.1).all()
    np.testing.assert_allclose(rows[positive, 1:].std(axis=0), 1.0, atol=0.05)


def test_flipped_labels_are_drawn_anew() -> None:
    clean, flipped = (
        opened(items=10_000, features=2, separation=9.0, flip=flip, distinct=10_000).read(0, 10_000)
        for flip in (0.0, 0.2)
    )
    np.testing.assert_array_equal(clean[:, 1:], flipped[:, 1:])
    assert abs(np.mean(clean[:, 0] != flipped[:, 0]) - 0.1) < 0.02


def test_schema_and_options() -> None:
    assert opened(features=2, items=10).schema() == (("label", "x0", "x1"), "label")
    for options in ({"features": 0}, {"items": 0}, {"flip": 2}, {"separation": -1}, {"distinct": 0}):
        with pytest.raises(ConfigError):
            Classification(**options)
