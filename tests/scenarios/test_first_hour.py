"""The first hour's page, done as it is written: its files, its commands, and models as good as they should be."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import REPO, Cli
from sklearn.linear_model import LogisticRegression

PAGE = REPO / "docs/first_hour.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS_S = 110
FIRST = ("A table", "A job", "Three kills", "What came of it")


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which nothing but `data/` is, for all tests of the page."""
    folder = tmp_path_factory.mktemp("hour")
    (folder / "data").mkdir()
    shutil.copy(REPO / "tests/data/a9a/a9a_first20k.libsvm.gz", folder / "data")
    yield folder


def sections() -> dict[str, list[tuple[str, str]]]:
    """(language, text) of the blocks below each heading."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    return {title: BLOCK.findall(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def follow(folder: Path, *titles: str) -> str:
    """Do what these sections say; what the commands printed."""
    cli = Cli(folder)
    environment = cli.environment | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    said = []
    try:
        for language, text in [block for title in titles for block in sections()[title]]:
            if language != "bash":
                name = re.match(r"# (\S+)\n", text)
                assert name, "a file's first line names it"
                (folder / name[1]).write_text(text)
                continue
            done = subprocess.run(
                ["bash", "-ec", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMANDS_S
            )
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
            said.append(done.stdout + done.stderr)
        cli.await_no_process()
    finally:
        cli.kill_all()
    return "".join(said)


def summary(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / name / "summary.json").read_text())
    return found


def held_back_accuracy_of_scikit_learn(shards: Path) -> float:
    """Of a logistic regression on the same rows."""
    parts = []
    for part in ("train", "test"):
        manifest = json.loads((shards / part / "manifest.json").read_text())
        rows = np.concatenate([np.load(shards / part / shard["file"]) for shard in manifest["shards"]])
        label = manifest["columns"].index(manifest["label"])
        parts.append((np.delete(rows, label, axis=1), rows[:, label]))
    return float(LogisticRegression(max_iter=1000).fit(*parts[0]).score(*parts[1]))


def check_accuracy(hour: Path, name: str) -> None:
    reached = summary(hour, name)["metrics"]["holdout_accuracy"]
    expected = held_back_accuracy_of_scikit_learn(hour / "shards" / name)
    assert reached > expected - 0.01, f"{name}: {reached}, scikit-learn {expected}"


@pytest.mark.timeout(300)
def test_a_csv_of_ones_own_three_kills_and_a_plot(hour: Path) -> None:
    said = follow(hour, *FIRST)
    killed, undisturbed = summary(hour, "orders"), summary(hour, "undisturbed")
    assert [failure["action"] for failure in killed["failures"]] == ["kill"] * 3
    assert killed["model"]["sha256"] == undisturbed["model"]["sha256"]
    assert all(column in said for column in ("basket", "age_missing", "(intercept)"))
    assert (hour / "orders.svg").read_text().startswith("<?xml")
    check_accuracy(hour, "orders")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_other_files(hour: Path) -> None:
    """The same steps with other formats; that each gives the same shards tests/unit/prep_spark shows by default."""
    if not (hour / "first.yaml").exists():
        follow(hour, "A table", "A job")
    follow(hour, "Other files")
    for name in ("a9a", "parquet"):
        assert [failure["action"] for failure in summary(hour, name)["failures"]] == ["kill"]
        check_accuracy(hour, name)


def test_it_takes_ten_commands() -> None:
    texts = [text for title in FIRST for language, text in sections()[title] if language == "bash"]
    assert sum(len(text.splitlines()) for text in texts) <= 10
