"""What a job's sink is told of a sample of its items, and what the user is told of features that it says nothing of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from riprap.engine.run.preflight import CheckedJob, check_job
from riprap.operators.learning.curvature import unpacked_moments
from riprap.prep_spark.shards import write_manifest

ROWS = 400
JOB = """\
job: trial
input: {{path: {shards}, verify: false}}
micro_batch: 100
stages:
  source: {{operator: "shard_source:ShardSource", parallelism: 2}}
  processor: {{operator: "svm:Gradient", parallelism: 2}}
  sink: {{operator: "svm:Model", parallelism: 2}}
edges:
  - {{from: source, to: processor, partitioning: stripe}}
  - {{from: processor, to: sink, partitioning: merge}}
  - {{from: sink, to: processor, feedback: true}}
fault_tolerance: {{scheme: erasure}}
"""


@pytest.fixture
def rows() -> np.ndarray:
    """A label among features, of which x1 never varies."""
    generator = np.random.default_rng(0)
    return np.column_stack(
        [generator.standard_normal(ROWS), np.arange(ROWS) % 2, np.full(ROWS, 3.0), generator.standard_normal(ROWS)]
    )


@pytest.fixture
def checked(rows: np.ndarray, tmp_path: Path) -> CheckedJob:
    np.save(tmp_path / "part-00000.npy", rows)
    size = (tmp_path / "part-00000.npy").stat().st_size
    entry = {"file": "part-00000.npy", "rows": ROWS, "bytes": size, "crc32": "00000000"}
    write_manifest(str(tmp_path), [entry], {"columns": ["x0", "label", "x1", "x2"], "label": "label"})
    (tmp_path / "job.yaml").write_text(JOB.format(shards=tmp_path))
    return check_job(str(tmp_path / "job.yaml"), ())


def test_the_moments_are_those_of_the_features_of_all_sources(checked: CheckedJob, rows: np.ndarray) -> None:
    moments = unpacked_moments(checked.schema.fields()["moments"])
    assert moments is not None and np.isinf(moments[1, 1])
    features = np.column_stack([rows[:, [0, 3]], np.ones(ROWS)])
    kept = np.ix_([0, 2, 3], [0, 2, 3])
    np.testing.assert_allclose(moments[kept], features.T @ features / ROWS, rtol=1e-12)


def test_a_feature_that_never_varies_is_told(checked: CheckedJob) -> None:
    told = checked.cautions
    assert len(told) == 1 and told[0].startswith("1 of 3 features are the same in all items that were looked at")
    assert "(x1), so their weights stay 0" in told[0]


def test_a_rate_of_ones_own_asks_for_no_sample(checked: CheckedJob, tmp_path: Path) -> None:
    job = check_job(str(tmp_path / "job.yaml"), ["stages.sink.options.learning_rate=0.5"])
    assert "moments" not in job.schema.fields() and job.cautions == ()
