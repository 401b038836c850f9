"""Services that die are started again, but not for ever."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from riprap.codec.errors import ConfigError, RiprapError
from riprap.controller import zookeeper
from riprap.engine.run import session
from riprap.engine.run.session import Session
from riprap.engine.services.backup_servers import BackupServer
from riprap.engine.services.host import RESTARTS_MAX, Services
from riprap.engine.services.hosts import OwnHost, pretended_hosts


def make(
    folder: Path,
    program: str,
    backups: int = 0,
    hosts: Sequence[OwnHost] | None = None,
    ensemble: str | None = "127.0.0.1:1",
) -> tuple[Services, list[str]]:
    """Services all of whose commands are this program, and the list of those that were started again."""
    restarted: list[str] = []

    def spawn(words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as stream:
            return subprocess.Popen([sys.executable, "-S", "-c", program, *words], stdout=stream, stderr=stream)

    servers = [BackupServer(f"ipc://@{number}", str(folder)) for number in range(backups)]
    note = lambda name, code: restarted.append(name)  # noqa: E731
    return Services(folder, ensemble, hosts=hosts, on_restart=note, spawn=spawn, backups=servers), restarted


def ended(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_what_dies_is_started_again(tmp_path: Path) -> None:
    services, restarted = make(tmp_path, "import time; time.sleep(60)")
    try:
        services.start()
        before = services.pids()
        assert set(before) == {"agent", "controller"}
        services.supervise()
        assert restarted == [] and services.pids() == before
        os.kill(before["agent"], signal.SIGKILL)
        ended(before["agent"])
        services.supervise()
        assert restarted == ["agent"]
        assert services.pids()["agent"] != before["agent"] and services.pids()["controller"] == before["controller"]
    finally:
        services.stop()
    assert services.pids() == {}


def test_for_other_keys_all_but_the_agent_are_started_again_and_none_has_died(tmp_path: Path) -> None:
    services, restarted = make(tmp_path, "import time; time.sleep(60)", backups=1)
    try:
        services.start()
        before = services.pids()
        for _ in range(RESTARTS_MAX + 1):
            services.renew()
        services.supervise()
        after = services.pids()
        assert restarted == [] and after.keys() == before.keys() == {"agent", "backup", "controller"}
        assert {name for name in after if after[name] == before[name]} == {"agent"}
    finally:
        services.stop()


def test_several_hosts_have_an_agent_each_that_others_reach(tmp_path: Path) -> None:
    program = "import sys, time; print(*sys.argv[1:], flush=True); time.sleep(60)"
    services, _ = make(tmp_path, program, hosts=pretended_hosts(3, ["rack=2"]))
    try:
        services.start()
        assert services.agents == {"host-1": "agent", "host-2": "agent.2", "host-3": "agent.3"}
        before = services.pids()
        assert set(before) == {"agent", "agent.2", "agent.3", "controller"}
        await_words(tmp_path, ["agent", "agent.2", "agent.3"], "--zookeeper")
        told = (tmp_path / "agent.2.log").read_text()
        assert told.startswith("agent --host host-2 --address 127.0.0.1 --label rack=rack-2 --zookeeper")
        services.renew()
        assert {name for name, pid in services.pids().items() if before[name] == pid} == set(services.agents.values())
    finally:
        services.stop()
    assert services.pids() == {}


def test_all_hosts_of_a_domain_may_die_at_once(tmp_path: Path) -> None:
    hosts = pretended_hosts(RESTARTS_MAX + 1, [])
    services, restarted = make(tmp_path, "import time; time.sleep(60)", hosts=hosts)
    try:
        services.start()
        pids = services.pids()
        for name in services.agents.values():
            os.kill(pids[name], signal.SIGKILL)
            ended(pids[name])
        services.supervise()
        assert sorted(restarted) == sorted(services.agents.values())
    finally:
        services.stop()


TELLING = """\
import signal, sys, time
def end(signum, frame):
    print("ended", sys.argv[1], time.monotonic_ns(), flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("began", " ".join(sys.argv[1:]), flush=True)
time.sleep(60)
"""


def test_backup_servers_are_restarted_alike_and_end_last(tmp_path: Path) -> None:
    services, restarted = make(tmp_path, TELLING, backups=2)
    names = ["agent", "backup", "backup.2", "controller"]
    try:
        services.start()
        before = services.pids()
        assert sorted(before) == names
        await_words(tmp_path, names, "began")
        os.kill(before["backup.2"], signal.SIGKILL)
        ended(before["backup.2"])
        services.supervise()
        assert restarted == ["backup.2"]
        await_words(tmp_path, ["backup.2"], "began", times=2)
    finally:
        services.stop()
    words = (tmp_path / "backup.2.log").read_text().splitlines()
    assert words[0] == words[1] and words[0].startswith("began backup --listen ipc://@1 --storage"), "as it was"
    assert "--zookeeper" not in words[0]
    at = {name: int((tmp_path / f"{name}.log").read_text().split()[-1]) for name in names}
    assert max(at["agent"], at["controller"]) < min(at["backup"], at["backup.2"])


def await_words(folder: Path, names: list[str], word: str, times: int = 1) -> None:
    deadline = time.monotonic() + 20
    while any((folder / f"{name}.log").read_text().count(word) < times for name in names):
        assert time.monotonic() < deadline, f"{names} did not say {word}"
        time.sleep(0.005)


def test_what_keeps_dying_is_an_error_that_shows_its_last_words(tmp_path: Path) -> None:
    services, restarted = make(tmp_path, "import sys; sys.exit('it cannot live like this')")
    try:
        services.start()
        deadline = time.monotonic() + 30
        with pytest.raises(RiprapError, match="keeps dying") as caught:
            while time.monotonic() < deadline:
                services.supervise()
        assert "it cannot live like this" in str(caught.value) and ".log" in caught.value.remedy
        assert len(restarted) == RESTARTS_MAX
    finally:
        services.stop()


def test_the_log_of_a_zookeeper_that_does_not_start_is_beside_those_of_the_others_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho cannot allocate the heap\nexit 4\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    services, _ = make(tmp_path, "import time; time.sleep(60)", ensemble=None)
    try:
        with pytest.raises(RiprapError, match="cannot allocate the heap") as caught:
            services.start()
    finally:
        services.stop()
    shutil.rmtree(tmp_path / ".zookeeper")  # as runs and `riprap down` do
    assert caught.value.remedy == f"see {tmp_path / 'zookeeper.log'}"
    assert (tmp_path / "zookeeper.log").read_text() == "cannot allocate the heap\n"


@pytest.mark.parametrize("starts", [0, 1], ids=["first", "again"])
def test_a_zookeeper_that_is_killed_while_it_starts_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: int
) -> None:
    services, restarted = make(tmp_path, "import time; time.sleep(60)", ensemble=None)
    answers, kills = zookeeper._answers, [True]

    def killing(*asked: Any) -> bool:
        if kills and len(restarted) == starts:
            kills.pop()
            os.kill(services.pids()["zookeeper"], signal.SIGKILL)
            ended(services.pids()["zookeeper"])
        return answers(*asked)

    monkeypatch.setattr(zookeeper, "_answers", killing)
    try:
        services.start()
        assert len(restarted) == 1 - starts
        first = services.pids()["zookeeper"]
        os.kill(first, signal.SIGKILL)
        ended(first)
        services.supervise()
        assert restarted == ["zookeeper", "zookeeper"] and services.pids()["zookeeper"] != first
    finally:
        services.stop()


class Connecting(Session):
    """A session that is about to connect to its ZooKeeper."""

    def __init__(self, services: Services) -> None:
        self._services = services


@pytest.mark.parametrize("dies", [True, False])
def test_a_run_outlives_services_that_die_before_it_is_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    services, restarted = make(tmp_path, "import time; time.sleep(60)")
    clients = []

    def connect(zookeeper: str, timeout_s: float) -> Any:
        clients.append(zookeeper)
        if len(clients) == 2:
            return "a client"
        if dies:
            os.kill(services.pids()["agent"], signal.SIGKILL)
            ended(services.pids()["agent"])
        raise ConfigError("ZooKeeper did not answer", "start it")

    monkeypatch.setattr(session, "open_client", connect)
    try:
        services.start()
        if dies:
            found: Any = Connecting(services)._open_client()
            assert found == "a client" and restarted == ["agent"]
        else:
            with pytest.raises(ConfigError, match="did not answer"):
                Connecting(services)._open_client()
            assert len(clients) == 1 and restarted == []
    finally:
        services.stop()
