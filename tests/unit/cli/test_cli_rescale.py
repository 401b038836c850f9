"""`riprap rescale` where it does not go well: nothing is stopped in vain, and who was stopped can go on."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from riprap.backupserver.savepoint import FORMAT, MANIFEST, Savepoint
from riprap.codec.errors import ConfigError, RiprapError
from riprap.engine.cli import rescale, savepoint, submit
from riprap.engine.run import cluster_start, preflight, savepoint_checks
from riprap.engine.run_directory.directory import TOPOLOGY
from riprap.engine.services import cluster


class Waiting:
    """A client of a cluster whose job does not end."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir

    def status(self, job: str) -> dict[str, str]:
        return {"run_dir": str(self.run_dir)}

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *error: object) -> None: ...

    def wait(self, job: str, timeout_s: float, poll_s: float) -> None:
        raise RiprapError(f"job {job} is still CANCELLING", "wait")


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories of the savepoints that were asked for, of a job of a cluster whose checks all succeed."""
    found: list[Path] = []

    def made(client: Any, job: str, path: Path, stop: bool, timeout_s: float) -> Savepoint:
        assert stop
        found.append(path)
        return Savepoint(path, job, 7, {})

    def job(topology: str, sets: tuple[str, ...], verify: bool) -> SimpleNamespace:
        assert sets[0] == "start_from=null", "an earlier savepoint says nothing"
        shape = SimpleNamespace(parallelism={"split": 1, "count": int(sets[1][-1]) if sets[1:] else 2})
        return SimpleNamespace(topology=SimpleNamespace(shape=shape), begun_from=lambda savepoint: shape.parallelism)

    for module, name, value in (
        (cluster, "open_client", lambda zookeeper: Waiting(tmp_path)),
        (cluster_start, "check_is_of_cluster", lambda run_dir: None),
        (cluster_start, "submit_anew", lambda job, out, servers: None),
        (preflight, "check_job", job),
        (savepoint_checks, "check_rescaling", lambda before, after: None),
        (savepoint_checks, "check_moving", lambda after, savepoint: None),
        (savepoint, "make_savepoint", made),
    ):
        monkeypatch.setattr(module, name, value)
    return found


def rescaled(*words: str) -> RiprapError:
    """The error of the command."""
    error = CliRunner().invoke(rescale.command, ["words", "count=3", *words]).exception
    assert isinstance(error, RiprapError), error
    return error


def test_the_command_that_goes_on_is_named(tmp_path: Path, asked: list[Path]) -> None:
    error = rescaled()
    (path,) = asked
    assert f"ended with the savepoint {path}" in str(error.args[0]) and "still CANCELLING" in str(error.args[0])
    command = f"riprap submit {tmp_path}/topology.yaml --from {path} --set stages.count.parallelism=3"
    assert error.remedy.endswith(command)


def test_that_command_can_be_given_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Any) -> None:
    """It goes to the same ensemble, and its words are quoted for a shell."""
    there = tmp_path / "two words"
    monkeypatch.setattr(cluster, "open_client", lambda zookeeper: Waiting(there))
    words = shlex.split(rescaled("--zookeeper", "host:1").remedy.partition(": ")[2])
    assert words[:3] == ["riprap", "submit", f"{there}/topology.yaml"] and words[-2:] == ["--zookeeper", "host:1"]


def test_nothing_is_stopped_for_a_directory_that_cannot_be_had(tmp_path: Path, asked: list[Path]) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    error = rescaled("--out", str(tmp_path / "taken"))
    assert isinstance(error, ConfigError) and "not empty" in str(error.args[0]) and asked == []


def test_a_job_that_has_so_many_tasks_already_is_left_alone(asked: list[Path]) -> None:
    done = CliRunner().invoke(rescale.command, ["words", "count=2"])
    assert (done.exit_code, done.output) == (0, "words has count=2 already; nothing was stopped\n") and asked == []


def test_a_job_whose_feedback_was_on_its_way_goes_on_as_it_was(
    asked: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(after: Any, savepoint: Savepoint) -> None:
        raise ConfigError("items from count to split were on their way", "2")

    begun: list[dict[str, int]] = []
    monkeypatch.setattr(savepoint_checks, "check_moving", refuse)
    monkeypatch.setattr(cluster_start, "submit_anew", lambda job, out, servers: job)
    monkeypatch.setattr(Waiting, "wait", lambda *asked, **more: None)
    monkeypatch.setattr(submit, "hand_in", lambda start, *about, **more: begun.append(start))
    error = rescaled()
    assert str(error.args[0]).startswith("words goes on with the tasks that it had: items from count to split")
    assert begun == [{"split": 1, "count": 2}] and len(asked) == 1


def test_the_topology_is_that_of_the_job_that_runs(
    tmp_path: Path, asked: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory here that has the job's name is of an earlier run, before it was rescaled say."""
    here = tmp_path / "here"
    (here / "words").mkdir(parents=True)
    (here / "words" / TOPOLOGY).touch()
    monkeypatch.chdir(here)
    rescaled()
    assert [path.parent for path in asked] == [tmp_path / "savepoints"]


def test_a_savepoint_that_is_refused_leaves_no_directory_of_its_own(tmp_path: Path) -> None:
    def refuse(*asked: Any) -> None:
        raise ConfigError("there is no job nowhere", "choose another")

    client: Any = SimpleNamespace(savepoint=refuse)
    (tmp_path / "mine").mkdir()
    for name in ("mine", "new"):
        with pytest.raises(ConfigError, match="no job nowhere"):
            savepoint.make_savepoint(client, "nowhere", tmp_path / name, stop=False, timeout_s=60)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_savepoint_with_which_a_job_has_ended_meanwhile_is_found(tmp_path: Path) -> None:
    """The question comes just behind the look for it, and there is no job any more that could answer."""
    path = tmp_path / "saved"

    def refuse(job: str, directory: str, stop: bool) -> None:
        fields = {"format": FORMAT, "job": job, "checkpoint": 7, "topology": {"stages": {}}}
        (path / MANIFEST).write_text(json.dumps(fields) + "\n")
        raise ConfigError("job words is CANCELLED", "ask while it runs")

    client: Any = SimpleNamespace(savepoint=refuse)
    found = savepoint.make_savepoint(client, "words", path, stop=True, timeout_s=60)
    assert found.checkpoint == 7
