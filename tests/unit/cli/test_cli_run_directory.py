"""The run directory: runs that begin in one second do not meet in it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from riprap.codec.errors import ConfigError
from riprap.engine.run_directory import directory
from riprap.engine.run_directory.attempts import Attempts
from riprap.engine.run_directory.directory import make_run_directory

RUNS = 8


def test_runs_of_one_second_get_directories_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(directory, "time", SimpleNamespace(strftime=lambda form: "now"))
    with ThreadPoolExecutor(RUNS) as pool:
        made = list(pool.map(lambda _: make_run_directory(None, "trial", {"job": "trial"}), range(RUNS)))
    assert len(set(made)) == RUNS
    assert {path.name for path in made} == {"trial-now", *(f"trial-now-{n}" for n in range(2, RUNS + 1))}


def test_a_directory_that_was_looked_for_and_then_made_by_another_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment between looking and making, held open."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(directory, "time", SimpleNamespace(strftime=lambda form: "now"))
    monkeypatch.setattr(Path, "exists", lambda self, **options: False)
    first, second = (make_run_directory(None, "trial", {"job": "trial"}) for _ in range(2))
    assert (first.name, second.name) == ("trial-now", "trial-now-2")


def test_a_directory_asked_for_by_name_is_taken_when_it_is_empty(tmp_path: Path) -> None:
    assert make_run_directory(str(tmp_path / "a" / "b"), "trial", {}).name == "b"
    with pytest.raises(ConfigError, match="not empty"):
        make_run_directory(str(tmp_path / "a" / "b"), "trial", {})


@pytest.mark.parametrize("name", ["run\udcfe", "run\0"])
def test_a_name_that_no_message_could_carry_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="not named in UTF-8"):
        make_run_directory(str(tmp_path / name), "trial", {"job": "trial"})
    assert list(tmp_path.iterdir()) == []


def test_a_topology_that_could_not_be_read_back_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    long = {"stages": {"source": {"options": {"weights": [0.123456] * 80_000}}}}
    with pytest.raises(ConfigError, match="larger than 1048576 bytes when its values are written out"):
        make_run_directory(str(tmp_path / "run"), "trial", long)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("servers", "command"),
    [(None, "riprap run --resume"), (["tcp://10.0.0.7:7070"], "riprap submit --resume")],
    ids=["of a launcher", "of a cluster"],
)
def test_one_that_was_used_is_gone_on_with_by_whom_it_is_of(
    tmp_path: Path, servers: list[str] | None, command: str
) -> None:
    with Attempts(tmp_path) as attempts:
        attempts.begin(servers=servers)
    with pytest.raises(ConfigError) as refused:
        make_run_directory(str(tmp_path), "trial", {})
    assert f"`{command} {tmp_path}`" in refused.value.remedy
