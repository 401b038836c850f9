"""The services of one machine (ZooKeeper, backup servers, controllers, agents) as children that are restarted."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from riprap.codec.errors import RiprapError
from riprap.codec.files import full_disk, speaks_of_full_disk
from riprap.controller.zookeeper import ADDRESS, EmbeddedZooKeeper, ZooKeeperKilled, find_jars, find_java
from riprap.engine.services.backup_servers import BackupServer
from riprap.engine.services.hosts import OwnHost, this_host
from riprap.engine.services.spawn import spawn
from riprap.engine.services.state import ZOOKEEPER_DATA

AGENT = "agent"
RESTARTS_MAX = 5
RESTARTS_WINDOW_S = 60.0
STOP_TIMEOUT_S = 3.0


class Services:
    """Starts, watches and stops them; only for the main thread, to whose life the kernel ties the children.

    `folder` gets the logs and, for an embedded ZooKeeper, its data. `zookeeper` is the user's ensemble, or None for an
    embedded one on `port`. Other hosts reach this one at `address`; empty means that there are none. `hosts` get an
    agent each (None: this machine alone), `backups` are the backup servers to start here.
    """

    def __init__(
        self,
        folder: Path,
        zookeeper: str | None,
        standby: int = 0,
        port: int = 0,
        address: str = "",
        hosts: Sequence[OwnHost] | None = None,
        on_restart: Callable[[str, int], None] = lambda name, code: None,
        spawn: Callable[[Sequence[str], Path], subprocess.Popen[bytes]] = spawn,
        backups: Sequence[BackupServer] = (),
    ) -> None:
        self._folder = folder
        data, log = folder / ZOOKEEPER_DATA, folder / "zookeeper.log"
        self._embedded = None if zookeeper else EmbeddedZooKeeper(data, port, address or ADDRESS, log)
        self._zookeeper = zookeeper or ""
        self._spawn = spawn
        self._backups = {_numbered("backup", n): server.command() for n, server in enumerate(backups)}
        hosts = hosts or (this_host(),)
        reached_at = address if len(hosts) == 1 else address or ADDRESS  # workers of two hosts talk over tcp
        self.agents = {host.name: _numbered(AGENT, n) for n, host in enumerate(hosts)}
        """The service that is the agent of each host."""
        self._commands = {self.agents[host.name]: _agent_command(host, reached_at) for host in hosts}
        controller = ["controller", "--address", address or ADDRESS]
        self._commands |= {_numbered("controller", n): controller for n in range(standby + 1)}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._on_restart = on_restart
        self._restarted_at: list[float] = []

    @property
    def zookeeper(self) -> str:
        """The connect string that clients use."""
        return self._embedded.connect_string if self._embedded else self._zookeeper

    def start(self) -> None:
        """Start everything; raises a RiprapError that says what could not be started.

        The children need as long to import their modules as the JVM to boot, and then wait for it.
        """
        if self._embedded:
            find_java(), find_jars()
            self._embedded.port = self._embedded.port or _free_port(self._embedded.address)
        for name in (*self._backups, *self._commands):
            self._start(name)
        if self._embedded:
            self._start_zookeeper(self._embedded)

    def pids(self) -> dict[str, int]:
        """Service -> process id, of those that run; ids stay valid until `supervise` or `stop` reaps them."""
        pids = {name: child.pid for name, child in self._children.items()}
        if self._embedded and self._embedded.pid:
            pids["zookeeper"] = self._embedded.pid
        return pids

    def supervise(self) -> None:
        """Start dead services again; RiprapError when that happens too often to be an accident."""
        for name, child in list(self._children.items()):
            code = child.poll()
            if code is not None:
                self._count_restart(name, code)
                self._start(name)
        if self._embedded and self._embedded.pid and _has_ended(self._embedded.pid):
            self._count_restart("zookeeper", -1)
            self._embedded.kill()
            self._start_zookeeper(self._embedded)

    def _start_zookeeper(self, zookeeper: EmbeddedZooKeeper) -> None:
        """Again where it is killed while it starts."""
        while True:
            try:
                return zookeeper.start()
            except ZooKeeperKilled:
                self._count_restart("zookeeper", -1)

    def renew(self) -> None:
        """End controllers and backup servers and start them again, under the keys that are in the folder then.

        Nothing is lost: jobs go on without a leader, and workers send again what was not acknowledged. Agents stay,
        for their workers die with them.
        """
        names = [name for name in self._children if name not in self.agents.values()]
        self._end(names)
        for name in names:
            self._start(name)

    def stop(self) -> None:
        """End all of them; those that do not end in time are killed.

        Agents and controllers go first, then the backup servers, for workers save until their end, then ZooKeeper.
        """
        self._end([name for name in self._children if name not in self._backups])
        self._end(list(self._children))
        if self._embedded:
            self._embedded.stop()

    def _end(self, names: Sequence[str]) -> None:
        for name in sorted(names):
            self._children[name].terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for name in names:
            child = self._children.pop(name)
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _start(self, name: str) -> None:
        command = self._backups.get(name) or [*self._commands[name], "--zookeeper", self.zookeeper]
        self._children[name] = self._spawn(command, self._folder / f"{name}.log")

    def _count_restart(self, name: str, code: int) -> None:
        now = time.monotonic()
        self._restarted_at = [at for at in self._restarted_at if at > now - RESTARTS_WINDOW_S] + [now]
        if len(self._restarted_at) > RESTARTS_MAX * len(self.agents):  # all hosts of a domain may fail at once
            log = self._folder / f"{name}.log"
            tail = log.read_text(errors="replace")[-500:].strip() if log.exists() else ""
            if speaks_of_full_disk(tail):
                raise full_disk(self._folder / f"what the {name} writes")
            raise RiprapError(f"the {name} keeps dying (last with code {code})\n{tail}", f"see {log}")
        self._on_restart(name, code)


def _agent_command(host: OwnHost, address: str) -> list[str]:
    labels = [part for key, value in host.given.items() for part in ("--label", f"{key}={value}")]
    return ["agent", "--host", host.name, "--address", address, *labels]


def _numbered(name: str, index: int) -> str:
    return name if index == 0 else f"{name}.{index + 1}"


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _has_ended(pid: int) -> bool:
    """True when a child is a zombie; its owner reaps it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
