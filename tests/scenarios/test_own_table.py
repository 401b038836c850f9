"""A table of one's own, from a file to a model, by the commands that the documentation shows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from cli_harness import Cli

import riprap
from riprap.prep_spark.context import spark_context

SHARED_ENSEMBLE = True


@pytest.fixture(scope="module")
def spark() -> Iterator[None]:
    """One Spark for all commands of this process."""
    with spark_context():
        yield


@pytest.mark.usefixtures("spark")
def test_from_a_csv_file_to_a_model_that_has_learned(cli: Cli) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(4000, 2))
    town = rng.integers(0, 3, len(rows))
    late = rows @ [1.0, -1.0] + (town == 1) > 0
    lines = [f"{a:.4f},t{t},{b:.4f},{'yes' if y else 'no'}" for (a, b), t, y in zip(rows, town, late)]
    (cli.directory / "flights.csv").write_text("\n".join(["wind,town,rain,late", *lines]) + "\n")
    prepared = cli.answer(
        "prep", "table", "flights.csv", "--label", "late", "--scale", "standard", "--out", "own", "--json"
    )
    assert prepared.returncode == 0, prepared.stderr
    assert json.loads(prepared.stdout)["classes"] == ["no", "yes"]
    assert "town" in prepared.stderr and "0 or 1 for each category" in prepared.stderr
    ran = cli.answer("run", "job.yaml", "--set", "input.path=own", "--set", "input.repeat=5", "--out", "out", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["metrics"]["recent_accuracy"] > 0.9
    cli.await_no_process()


@pytest.mark.usefixtures("spark")
def test_a_bad_cell_ends_the_command_with_file_line_and_column(cli: Cli) -> None:
    (cli.directory / "flights.csv").write_text("wind,late\n" + "1.5,0\n" * 1200 + "calm,1\n")
    ended = cli.answer("prep", "table", "flights.csv", "--label", "late", "--out", "own")
    assert ended.returncode == 2
    place = f"{cli.directory}/flights.csv, line 1202, column 1 (wind): expected a number, found 'calm'"
    assert place in ended.stderr and "--categorical wind" in ended.stderr
    assert not (cli.directory / "own").exists()


def test_shards_of_arrays_train_a_model(cli: Cli) -> None:
    features = np.random.default_rng(1).normal(size=(4000, 3))
    riprap.write_shards(cli.directory / "own", features, label=features.sum(axis=1) > 0)
    ran = cli.answer("run", "job.yaml", "--set", "input.path=own", "--set", "input.repeat=5", "--out", "out", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["metrics"]["recent_accuracy"] > 0.9


def test_help_does_not_wait_for_spark_or_arrow() -> None:
    code = (
        "import sys\nfrom riprap.engine.cli.main import main\n"
        "try: main(['prep', 'table', '--help'])\n"
        "finally: print([m for m in ('pyspark', 'pyarrow', 'pandas') if m in sys.modules])"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert "--dry-run" in said and said.strip().endswith("[]")
