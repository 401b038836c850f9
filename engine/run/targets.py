"""Finds the processes that faults are aimed at, and signals exactly those: a recycled pid is never hit."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import psutil

from riprap.controller.effects import Victim


class Targets:
    """The processes of a job by name. One thread tells it the controller's answers, another one asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._victims: dict[str, Victim] = {}

    def update_workers(self, status: Mapping[str, Any], agent_pid: int) -> None:
        """Take in the controller's answer about a job whose workers are children of this agent."""
        for worker, state in (status.get("workers") or {}).items():
            pid, incarnation = state.get("pid") or 0, state.get("incarnation") or 0
            if pid:
                self._update(worker, pid, incarnation, agent_pid)

    def update_services(self, pids: Mapping[str, int]) -> None:
        """Take in the process ids of our own children, which cannot be recycled before we reap them."""
        for name, pid in pids.items():
            self._update(name, pid, 0, os.getpid())

    def find(self, name: str) -> Victim | None:
        """The living process of that name, if one is known."""
        with self._lock:
            victim = self._victims.get(name)
        return victim if victim and victim.alive() else None

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
    port, candidates = endpoint.rpartition(":")[2], set(pids)
    listening = (one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN)
    return next(
        (one.pid for one in listening if str(getattr(one.laddr, "port", "")) == port and one.pid in candidates), None
    )
