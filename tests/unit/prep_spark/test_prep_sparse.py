"""KDD12's rows as hashed one-hot features: the same as by a loop, and all that the job for matrices can do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.operators.inputs.job_input import open_input
from riprap.prep_spark import kdd12, kdd12_sparse, synth
from riprap.prep_spark.errors import PrepError

ROWS = 3000
MASK = 2**64 - 1


def mixed(z: int) -> int:
    """SplitMix64, with Python's numbers."""
    z = (z + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def bucket(column: int, text: str, buckets: int) -> int:
    bits = int(np.float64(float(text or 0)).view(np.uint64))
    return mixed((mixed(column) + bits) & MASK) % buckets


@pytest.fixture
def lines(tmp_path: Path) -> list[list[str]]:
    synth.kdd12(str(tmp_path / "raw"), ROWS)
    return [line.split("\t") for line in (tmp_path / "raw").read_text().splitlines()]


def records_of(path: Path) -> np.ndarray:
    whole = open_input(path)
    return whole.read(0, whole.items)[0]


def test_records_are_those_of_a_loop(job: Callable[..., Any], lines: list[list[str]], tmp_path: Path) -> None:
    counts = job(kdd12_sparse, buckets=1000, shard_rows=1000)
    records = records_of(tmp_path / "out")
    assert (counts["kept"], counts["shards"], len(records)) == (ROWS, 3, ROWS)
    expected = [[bucket(column, text, 1000) for column, text in enumerate(line[1:], 1)] for line in lines]
    assert records["indexes"].tolist() == expected
    assert records["label"].tolist() == [float(int(line[0]) > 0) for line in lines]
    assert records["impressions"].tolist() == [int(line[1]) for line in lines]
    assert (records["values"] == 1).all()


def test_rows_with_missing_values_are_dropped_as_those_of_the_matrix(job: Callable[..., Any], tmp_path: Path,
                                                                     lines: list[list[str]]) -> None:  # fmt: skip
    whole = [line for line in lines if all(float(text or 0) for text in line[1:])]
    counts = job(kdd12_sparse, missing="drop")
    assert (
        counts["dropped"]
        == {"missing": ROWS - len(whole)}
        == job(kdd12, missing="drop", out=str(tmp_path / "m"))["dropped"]
    )
    assert records_of(tmp_path / "out")["impressions"].tolist() == [int(line[1]) for line in whole]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["made_with"]["missing"], manifest["made_with"]["buckets"]) == ("drop", 1 << 20)
    assert "columns" not in manifest and manifest["format"] == "riprap-records"


def test_rows_are_held_back_as_those_of_the_matrix(
    job: Callable[..., Any], tmp_path: Path, lines: list[list[str]]
) -> None:
    job(kdd12_sparse, holdout=0.2)
    job(kdd12, holdout=0.2, out=str(tmp_path / "m"), scale="auto")
    for part in ("train", "test"):
        matrix = open_input(tmp_path / "m" / part)
        records = records_of(tmp_path / "out" / part)
        np.testing.assert_array_equal(records["label"], matrix.read(0, matrix.items)[0][:, 0])


def test_a_million_buckets_keep_features_apart() -> None:
    values = np.arange(1, 20_001, dtype=float)
    hashes = kdd12_sparse.feature_hash(np.arange(1, 12), np.repeat(values[:, None], 11, axis=1))
    assert len(np.unique(hashes)) == 220_000
    used = len(np.unique(hashes % np.uint64(1 << 20)))
    expected = (1 << 20) * (1 - np.exp(-220_000 / (1 << 20)))  # of balls thrown into urns
    assert abs(used / expected - 1) < 0.01


@pytest.mark.parametrize("options", [{"missing": "maybe"}, {"buckets": 0}, {"buckets": 2**32 + 1}])
def test_options_out_of_range_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(PrepError, match=f"--{next(iter(options))} is "):
        kdd12_sparse.run("raw", str(tmp_path / "out"), **options)
