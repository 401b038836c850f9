"""Finds the processes that faults are aimed at, and signals exactly those: a recycled pid is never hit."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from riprap.controller.effects import Victim
from riprap.controller.labels import HostLabels
from riprap.controller.victims import hosts_in, is_group, workers_in


class Targets:
    """The processes of a job by name. One thread tells it the controller's answers, another one asks.

    `hosts` are the labels of the hosts, `agents` the names of the services that are their agents.
    """

    def __init__(self, hosts: Mapping[str, HostLabels] | None = None, agents: Mapping[str, str] | None = None) -> None:
        self._hosts, self._agents = hosts or {}, agents or {}
        self._placed: dict[str, str] = {}
        self._lock = threading.Lock()
        self._victims: dict[str, Victim] = {}

    def update_workers(self, status: Mapping[str, Any], agent_pids: Mapping[str, int]) -> None:
        """Take in the controller's answer about a job whose workers are children of these agents, by host."""
        workers = status.get("workers") or {}
        for worker, state in workers.items():
            pid, incarnation, host = state.get("pid") or 0, state.get("incarnation") or 0, state.get("host") or ""
            if pid and host in agent_pids:
                self._update(worker, pid, incarnation, agent_pids[host])
        with self._lock:
            self._placed = {worker: state.get("host") or "" for worker, state in workers.items()}

    def update_services(self, pids: Mapping[str, int]) -> None:
        """Take in the process ids of our own children, which cannot be recycled before we reap them."""
        for name, pid in pids.items():
            self._update(name, pid, 0, os.getpid())

    def find(self, target: str) -> dict[str, Victim]:
        """The living processes of a worker, a service or a group, as far as they are known, by name: agents last, for
        their workers end with them."""
        with self._lock:
            names, victims = [target], dict(self._victims)
            if is_group(target):
                names = workers_in(target, self._placed, self._hosts)
                names += [self._agents[host] for host in hosts_in(target, self._hosts)]
        return {name: victims[name] for name in names if name in victims and victims[name].alive()}

    def _update(self, name: str, pid: int, incarnation: int, ancestor: int) -> None:
        old = self._victims.get(name)
        if old and (old.pid, old.incarnation) == (pid, incarnation):
            return
        try:
            victim = Victim(pid, incarnation)
        except ProcessLookupError:
            return
        # Between the report and the opening the pid may have changed hands; ours descends from a process of ours.
        if descends_from(pid, ancestor) and victim.alive():
            with self._lock:
                self._victims[name] = victim


def descends_from(pid: int, ancestor: int) -> bool:
    """True when `ancestor` is the parent of `pid`, or its parent's parent, and so on."""
    while pid > 1:
        try:
            with open(f"/proc/{pid}/stat", "rb") as stream:
                pid = int(stream.read().rpartition(b")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return False
        if pid == ancestor:
            return True
    return False


def listener(endpoint: str, pids: Iterable[int]) -> int | None:
    """The process, of these, that listens at `tcp://HOST:PORT`; None when none of them does."""
    import psutil  # takes long, and only a run with standby controllers asks

    port, candidates = endpoint.rpartition(":")[2], set(pids)
    listening = (one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN)
    return next(
        (one.pid for one in listening if str(getattr(one.laddr, "port", "")) == port and one.pid in candidates), None
    )
