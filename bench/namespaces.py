"""Several hosts on one machine: network namespaces joined by a bridge, their links shaped.

Needs root and iproute2. Everything is inside namespaces of this process; leaving the context removes them with all that
runs in them. What a killed process left behind is removed when the next one enters.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from riprap.codec.errors import ConfigError

CLONE_NEWNET = 0x40000000  # <sched.h>
NETWORK = "10.77.0"
HUB_ADDRESS = f"{NETWORK}.1"
NAME = re.compile(r"riprap-(\d+)-(hub|h\d+)")
REMEDY = "run this as root where namespaces and traffic shaping are permitted (a container: start it with --privileged)"


class Hosts:
    """A hub, which this process moves into, and `count` hosts; `rate_mbit` limits each link in both directions."""

    def __init__(self, count: int, rate_mbit: int | None = None) -> None:
        self.count, self.rate_mbit = count, rate_mbit
        self._prefix = f"riprap-{os.getpid()}"
        self._home: int | None = None

    def name(self, host: int) -> str:
        """The namespace of a host."""
        return f"{self._prefix}-h{host}"

    def address(self, host: int) -> str:
        """Its address; the hub has HUB_ADDRESS."""
        return f"{NETWORK}.{10 + host}"

    def command(self, host: int, *command: str) -> list[str]:
        """A command line that runs inside a host."""
        return ["ip", "netns", "exec", self.name(host), *command]

    def link(self, host: int, state: str) -> None:
        """Set a host's link "up" or "down", as if its cable were pulled."""
        _ip("link", "set", f"v{host}", state)

    @contextlib.contextmanager
    def cut(self, host: int, other: int) -> Iterator[None]:
        """Have nothing arrive that two hosts send to each other; what others send does."""
        ways = [(host, other), (other, host)]
        for sender, receiver in ways:  # there is nobody of that hardware address
            nobody = ["lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "eth0"]
            _ip("-n", self.name(sender), "neigh", "replace", self.address(receiver), *nobody)
        try:
            yield
        finally:
            for sender, receiver in ways:
                _ip("-n", self.name(sender), "neigh", "del", self.address(receiver), "dev", "eth0")

    def connections(self, host: int, other: int) -> set[str]:
        """The TCP connections from a host to another, by their ports, as far as the first knows."""
        words = ("ss", "-Htn", "state", "established", "dst", self.address(other))
        told = subprocess.run(
            ["ip", "netns", "exec", self.name(host), *words], capture_output=True, text=True, check=True
        )
        return {" ".join(line.split()[2:4]) for line in told.stdout.splitlines()}

    def reshape(self, host: int, rate_mbit: int) -> None:
        """Limit the link of one host anew, in both directions; it must be limited already."""
        shape = ["root", "tbf", "rate", f"{rate_mbit}mbit", "burst", "256kb", "limit", "2mb"]
        _run("tc", "qdisc", "replace", "dev", f"v{host}", *shape)
        _run("tc", "-n", self.name(host), "qdisc", "replace", "dev", "eth0", *shape)

    def __enter__(self) -> Hosts:
        _check_permitted()
        _remove_leftovers()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self) -> None:
        hub = f"{self._prefix}-hub"
        _ip("netns", "add", hub)
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        _enter(os.open(f"/run/netns/{hub}", os.O_RDONLY | os.O_CLOEXEC))
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "bridge0", "type", "bridge")
        _ip("addr", "add", f"{HUB_ADDRESS}/24", "dev", "bridge0")
        _ip("link", "set", "bridge0", "up")
        for host in range(self.count):
            self._add(host)

    def _add(self, host: int) -> None:
        name = self.name(host)
        _ip("netns", "add", name)
        _ip("link", "add", f"v{host}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", f"v{host}", "master", "bridge0", "up")
        for words in (["link", "set", "lo", "up"], ["addr", "add", f"{self.address(host)}/24", "dev", "eth0"],
                      ["link", "set", "eth0", "up"]):  # fmt: skip
            _ip("-n", name, *words)
        if self.rate_mbit:
            shape = ["root", "tbf", "rate", f"{self.rate_mbit}mbit", "burst", "256kb", "limit", "2mb"]
            _run("tc", "qdisc", "add", "dev", f"v{host}", *shape)
            _run("tc", "-n", name, "qdisc", "add", "dev", "eth0", *shape)

    def _remove(self) -> None:
        if self._home is not None:
            _enter(self._home)
            self._home = None
        for path in Path("/run/netns").glob(f"{self._prefix}-*"):
            _delete(path.name)


def _check_permitted() -> None:
    """ConfigError with the remedy when this process may not make namespaces."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        raise ConfigError("there is no ip or tc command", "install iproute2 (Debian: apt-get install iproute2)")
    if os.geteuid() != 0:
        raise ConfigError("network namespaces need root", REMEDY)


def _remove_leftovers() -> None:
    """Namespaces of processes that are gone."""
    for path in Path("/run/netns").glob("riprap-*"):
        found = NAME.fullmatch(path.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            _delete(path.name)


def _delete(name: str) -> None:
    """Remove a namespace and kill the processes in it: they would keep it alive without a name."""
    inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
    for pid in map(int, inside):
        if pid != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    _ip("netns", "del", name)


def _enter(fd: int) -> None:
    """Move the calling thread, and all that it starts from now on, into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.setns(fd, CLONE_NEWNET)
    os.close(fd)
    if failed:
        raise ConfigError(f"setns failed: {os.strerror(ctypes.get_errno())}", REMEDY)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(f"{' '.join(command)}: {done.stderr.strip()}", REMEDY)
