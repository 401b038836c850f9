"""A sound topology file, and a way to write variants of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TOPOLOGY = """\
job: trial
input: {path: SHARDS, repeat: 1, limit: null}
micro_batch: 1000
seed: 7
stages:
  source:
    operator: shard_source:ShardSource
  processor:
    operator: logistic_regression:Gradient
    parallelism: 6
    options: {rate: 1.0e-6}
  sink:
    operator: logistic_regression:Model
edges:
  - {from: source, to: processor, partitioning: stripe}
  - {from: processor, to: sink, partitioning: merge}
  - {from: sink, to: processor, feedback: true}
fault_tolerance:
  scheme: erasure
  code: gf256
  k: 4
  r: 2
"""


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A directory that looks like shards to the schema, which opens none."""
    directory = tmp_path / "shards"
    directory.mkdir()
    (directory / "manifest.json").write_text("{}")
    return directory


@pytest.fixture
def write(tmp_path: Path, shards: Path) -> Callable[..., Path]:
    """Writes the sound file with (old, new) texts replaced, each of which must be there."""

    def write_variant(*replacements: tuple[str, str]) -> Path:
        text = TOPOLOGY
        for old, new in replacements:
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / "job.yaml"
        path.write_text(text.replace("SHARDS", str(shards)))
        return path

    return write_variant
