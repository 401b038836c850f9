"""Jobs on an ensemble that demands TLS, certificates and SASL; what its file holds is nowhere else."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import Cli, await_that, paced

sys.path.append(str(Path(__file__).parents[1] / "cluster"))

from secured_zookeeper import KEY_PASSWORD, PASSWORD, SecuredZooKeeper, sasl, tls, write_auth

from riprap import Job
from riprap.codec.errors import ConfigError
from riprap.codec.trust.keys import FOLDER_VARIABLE
from riprap.controller import ensemble

SECRETS = (PASSWORD.encode(), KEY_PASSWORD.encode())


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    with SecuredZooKeeper(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture
def words(cli: Cli, secured: SecuredZooKeeper) -> tuple[str, ...]:
    """The options that name the ensemble and say how it is entered."""
    write_auth(cli.directory / "auth.yaml", tls(secured.certificates), sasl())
    return "--zookeeper", secured.secure, "--zookeeper-auth", "auth.yaml"


class Onlooker:
    """Reads what anybody sees of the processes of a command, and their environments, for as long as it is entered."""

    def __init__(self, cli: Cli) -> None:
        self._cli, self._over = cli, threading.Event()
        self.seen: set[bytes] = set()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.05):
            for pid in self._cli.processes():
                for name in ("cmdline", "environ"):
                    try:
                        self.seen.add(Path(f"/proc/{pid}/{name}").read_bytes())
                    except OSError:
                        continue

    def __enter__(self) -> Onlooker:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def shown_in(*texts: bytes) -> list[bytes]:
    return [text for text in texts for secret in SECRETS if secret in text]


def test_a_run_survives_its_dead_and_shows_no_secret(cli: Cli, words: tuple[str, ...]) -> None:
    faults = ("--fault", "kill:processor.1@30%", "--fault", "kill:controller@60%")
    with Onlooker(cli) as onlooker:
        ended = cli.run("run", "job.yaml", "--out", "out", "--json", *paced(2500), *faults, *words)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["completed"] and summary["faults_not_injected"] == {}
    assert {failure["worker"] for failure in summary["failures"]} >= {"processor.1", "controller"}
    files = [path.read_bytes() for path in (cli.directory / "out").rglob("*") if path.is_file()]
    assert any(b"controller" in text for text in onlooker.seen) and len(files) > 5
    assert not shown_in(*files, *onlooker.seen, ended.stdout.encode(), ended.stderr.encode())
    cli.await_no_process()


def test_a_run_that_ends_early_says_how_to_go_on(cli: Cli, words: tuple[str, ...]) -> None:
    run = cli.start("run", "job.yaml", "--out", "out", *paced(2000), *words)
    csv = cli.directory / "out/epochs.csv"
    await_that(lambda: csv.exists() and len(csv.read_text().splitlines()) > 3, 120, lambda: "nothing was committed")
    run.terminate()
    _, said = run.communicate()
    options = f"--zookeeper {words[1]} --zookeeper-auth {cli.directory}/auth.yaml"
    command = f"riprap run --resume {cli.directory}/out {options}"
    assert f"go on where it ended with: {command}" in said
    resumed = cli.run(*command.split()[1:], "--json")
    assert resumed.returncode == 0 and json.loads(resumed.stdout)["completed"], resumed.stderr


def test_a_program_enters_the_ensemble_too(cli: Cli, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cli.directory)
    job = Job.load("job.yaml")
    with pytest.raises(ConfigError, match="none is named"):
        job.run(out="refused", zookeeper_auth="auth.yaml")
    assert job.run(out="out", zookeeper=words[1], zookeeper_auth="auth.yaml")["completed"]
    assert ensemble.VARIABLE not in os.environ


def test_up_remembers_how_its_ensemble_is_entered(cli: Cli, words: tuple[str, ...]) -> None:
    up = cli.run("up", "--standby", "0", "--json", *words)
    assert up.returncode == 0, up.stderr
    for command in (("submit", "job.yaml", "--out", "out"), ("status", "trial"), ("jobs",)):
        ended = cli.answer(*command)
        assert ended.returncode == 0, ended.stderr
    other = {ensemble.VARIABLE: "/of/another/ensemble.yaml"}
    assert cli.answer("status", "trial", environment=other).returncode == 0, "the cluster of `up` has its own"
    token = cli.answer("token").stdout.strip()
    joined = cli.run("join", token, environment={FOLDER_VARIABLE: str(cli.directory / "elsewhere")})
    assert f"riprap agent --zookeeper {words[1]} --zookeeper-auth FILE" in joined.stdout, joined.stderr
    await_that(lambda: "COMPLETED" in cli.answer("status", "trial").stdout, 120, lambda: cli.answer("status").stdout)
    assert cli.answer("forget", "trial").returncode == 0
    assert cli.run("down").returncode == 0
    files = [path.read_bytes() for name in ("out", "runtime") for path in (cli.directory / name).rglob("*.*")]
    assert len(files) > 5 and not shown_in(*files)
    cli.await_no_process()


@pytest.mark.parametrize("command", [("run", "job.yaml", "--out", "out"), ("up",), ("submit", "job.yaml"), ("status",)])
def test_a_wrong_password_is_said_at_once(cli: Cli, words: tuple[str, ...], command: tuple[str, ...]) -> None:
    auth = cli.directory / "auth.yaml"
    auth.write_text(auth.read_text().replace(PASSWORD, "another-2c9e"))
    ended = cli.run(*command, *words)
    assert ended.returncode == 2 and "refuses SASL user alice" in ended.stderr
    assert f"sasl.password in {auth}" in ended.stderr and "another-2c9e" not in ended.stdout + ended.stderr
    cli.await_no_process()


def test_a_file_without_an_ensemble_is_refused(cli: Cli, words: tuple[str, ...]) -> None:
    for command in (("run", "job.yaml"), ("up",), ("status",)):
        ended = cli.answer(*command, *words[2:])
        assert ended.returncode == 2 and "none is named" in ended.stderr
    variable = {ensemble.VARIABLE: str(cli.directory / "auth.yaml")}
    assert cli.run("run", "job.yaml", environment=variable).returncode == 0, "an embedded server needs no file"
