"""Shards that are damaged or hold NaN, and models that diverge: said before the job, or at its end."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import Cli, write_topology

SHARED_ENSEMBLE = True

ROWS = 5000


def strict(path: Path) -> Any:
    return json.loads(path.read_text(), parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


@pytest.fixture
def spoil(cli: Cli) -> Callable[..., None]:
    """Sets numbers of the shard; its checksum is right unless `damaged`."""

    def act(*places: tuple[int, int, float], damaged: bool = False) -> None:
        folder = cli.directory / "shards"
        rows = np.load(folder / "part-00000.npy")
        for row, column, value in places:
            rows[row, column] = value
        np.save(folder / "part-00000.npy", rows)
        manifest = json.loads((folder / "manifest.json").read_text())
        if not damaged:
            manifest["shards"][0]["crc32"] = f"{zlib.crc32((folder / 'part-00000.npy').read_bytes()):08x}"
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return act


def test_one_nan_is_named_before_anything_starts(cli: Cli, spoil: Callable[..., None]) -> None:
    spoil((1234, 2, np.nan))
    refused = cli.answer("run", "job.yaml", "--out", "out")
    assert refused.returncode == 2
    assert "part-00000.npy: row 1234 (from 0) has nan in column x1; 1 of 5,000 rows are not finite" in refused.stderr
    assert not (cli.directory / "out").exists() and cli.processes() == []


def test_bad_rows_are_dropped_and_counted(cli: Cli, spoil: Callable[..., None]) -> None:
    spoil((0, 2, np.nan), (1234, 0, np.inf), (4999, 3, -np.inf))
    ended = cli.answer("run", "job.yaml", "--out", "out", "--set", "input.bad_rows=drop", "--set", "input.repeat=2")
    assert ended.returncode == 0, ended.stderr
    assert "warning: 3 rows of" in ended.stderr and "hold NaN or infinity, and are dropped" in ended.stderr
    summary = strict(cli.directory / "out/summary.json")
    assert summary["completed"] and summary["items"] == 2 * (ROWS - 3) and summary["model"]["finite"] is True


def test_a_model_that_the_user_lets_be_ruined_is_said_to_be(cli: Cli, spoil: Callable[..., None]) -> None:
    spoil((1234, 2, np.nan))
    ended = cli.answer("run", "job.yaml", "--out", "out", "--set", "input.bad_rows=keep")
    assert ended.returncode == 0, ended.stderr
    assert "NOT FINITE: it holds NaN or infinity, and predicts nothing" in ended.stdout
    summary = strict(cli.directory / "out/summary.json")
    assert summary["completed"] and summary["model"]["finite"] is False
    again = cli.answer("run", "--resume", "out")
    assert again.returncode == 0 and "NOT FINITE" in again.stdout
    cli.await_no_process()


def test_a_model_that_diverges_ends_the_job_with_its_epoch(cli: Cli) -> None:
    module = "riprap.operators.learning.linear_regression"
    sets = [
        ("logistic_regression:Model", f"{module}:Model"),
        ("learning_rate: 0.5", "learning_rate: 1e9"),
    ]
    write_topology(cli.directory / "job.yaml", f"{module}:Gradient", sets)
    ended = cli.answer("run", "job.yaml", "--out", "out", "--set", "input.repeat=20", "--set", "micro_batch=100")
    assert ended.returncode == 1
    found = re.search(r"sink\.0: the model of epoch (\d+) is not finite: 3 of 3 coefficients", ended.stderr)
    assert found, ended.stderr
    assert "lower the learning rate" in ended.stderr and "Traceback" not in ended.stderr
    summary = strict(cli.directory / "out/summary.json")
    assert not summary["completed"] and summary["epochs"] < int(found[1]) < 1000, (
        "what was durable, perhaps nothing yet"
    )
    assert not (cli.directory / "out/model.npz").exists()
    cli.await_no_process()


def test_damage_is_named_unless_nobody_is_to_look(cli: Cli, spoil: Callable[..., None]) -> None:
    spoil((7, 1, 0.25), damaged=True)
    crc32 = json.loads((cli.directory / "shards/manifest.json").read_text())["shards"][0]["crc32"]
    found = f"{zlib.crc32((cli.directory / 'shards/part-00000.npy').read_bytes()):08x}"
    refused = cli.answer("run", "job.yaml", "--out", "out")
    assert refused.returncode == 2
    assert f"part-00000.npy: expected checksum {crc32}, found {found}" in refused.stderr
    assert not (cli.directory / "out").exists()
    trusted = cli.answer("run", "job.yaml", "--out", "out", "--no-verify")
    assert trusted.returncode == 0, trusted.stderr
    assert "verify: false" in (cli.directory / "out/topology.yaml").read_text(), "a resumed job need not be told again"
