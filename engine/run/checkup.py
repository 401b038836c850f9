"""The needs of a machine, each checked by a small function that says what it found."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from riprap.codec.errors import ConfigError

OK, WARN, FAIL = "ok", "warn", "FAIL"
JAVA_MIN = 17
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - looked at, nothing is made there
SHM_MIN_MB = 256
MEMORY_MIN_MB = 2048
FILES_MIN = 1024
PROCESSES_MIN = 512
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


@dataclass(frozen=True)
class Check:
    """One line of the doctor's: the thing looked at, its state, the finding, and the remedy."""

    name: str
    level: str
    found: str
    remedy: str = ""


def python() -> Check:
    """The interpreter's version."""
    found = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    return Check("Python", OK if good else FAIL, found, "" if good else "install Python 3.11 or newer")


def compiler() -> Check:
    """A C compiler, which only a build needs."""
    names = [os.environ.get("CC", "").split(" ")[0], "cc", "gcc", "clang"]
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path:
        return Check("C compiler", OK, path)
    return Check("C compiler", FAIL, "none", "install one (Debian: apt-get install build-essential)")


def java() -> Check:
    """A Java runtime that is new enough for Spark and ZooKeeper."""
    from riprap.controller.zookeeper import find_java

    remedy = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    try:
        path = find_java()
        output = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
    except ConfigError:
        return Check("Java", FAIL, "none", remedy)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("Java", FAIL, f"`java -version` failed: {error}", remedy)
    major = java_major(output)
    found = f"{path}, version {major or '?'}"
    return Check("Java", OK if major >= JAVA_MIN else FAIL, found, "" if major >= JAVA_MIN else remedy)


def java_major(output: str) -> int:
    """The major version in what `java -version` prints (`1.8.0` is 8); 0 when there is none."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else 0


def jars() -> Check:
    """ZooKeeper's server among PySpark's jars."""
    from riprap.controller.zookeeper import find_jars

    try:
        found = find_jars()
    except ConfigError as error:
        return Check("ZooKeeper", FAIL, str(error.args[0]), error.remedy)
    return Check("ZooKeeper", OK, found[0].name)


def extensions() -> Iterator[Check]:
    """Every Cython module beside its source: compiled, importable, and not older than the source."""
    root = Path(__file__).resolve().parents[2]
    stale = []
    sources = sorted(
        path for folder in ("codec", "engine", "operators", "prep_spark") for path in (root / folder).rglob("*.pyx")
    )
    for source in sources:
        module = ".".join(("riprap", *source.relative_to(root).with_suffix("").parts))
        try:
            built = Path(importlib.import_module(module).__file__ or "")
        except ImportError as error:
            yield Check("extensions", FAIL, f"{module}: {error}", "run `make build`")
            continue
        if built.stat().st_mtime < source.stat().st_mtime:
            stale.append(module)
    if stale:
        yield Check("extensions", WARN, f"older than their source: {', '.join(stale)}", "run `make build`")
    else:
        yield Check("extensions", OK, f"{len(sources)} compiled" if sources else "compiled when this copy was made")


def checksums() -> Check:
    """The package that backup servers check their records with."""
    try:
        importlib.import_module("crc32c")
    except ImportError as error:
        return Check("crc32c", FAIL, str(error), "pip install crc32c")
    return Check("crc32c", OK, "importable")


def loopback() -> Check:
    """A TCP port on loopback."""
    try:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            with socket.create_connection(server.getsockname(), timeout=2):
                return Check("loopback", OK, "127.0.0.1 listens and connects")
    except OSError as error:
        return Check("loopback", FAIL, str(error), "bring the loopback interface up (ip link set lo up)")


def unix_sockets() -> Check:
    """Abstract Unix sockets, by which workers of one host talk."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.bind(f"\0riprap-doctor-{uuid.uuid4()}")
        return Check("unix sockets", OK, "abstract names can be bound")
    except OSError as error:
        return Check("unix sockets", FAIL, str(error), "allow AF_UNIX sockets (a container's seccomp profile?)")


def curve() -> Check:
    """Authenticated connections."""
    import zmq

    if not zmq.has("curve"):
        return Check("CURVE", FAIL, "this libzmq has none", "install pyzmq from a wheel: pip install 'pyzmq>=26'")
    return Check("CURVE", OK, f"libzmq {zmq.zmq_version()}")


def shared_memory() -> Check:
    """Room in /dev/shm."""
    try:
        free_mb = shutil.disk_usage(SHARED_MEMORY).free >> 20
    except OSError as error:
        return Check(SHARED_MEMORY, WARN, str(error), "mount a tmpfs at /dev/shm")
    good = free_mb >= SHM_MIN_MB
    return Check(SHARED_MEMORY, OK if good else WARN, f"{free_mb} MB free", "" if good else "docker run --shm-size=1g")


def open_files() -> Check:
    """The limit on file descriptors."""
    return _limit("open files", resource.RLIMIT_NOFILE, FILES_MIN, "ulimit -n 4096")


def processes() -> Check:
    """The limit on processes and threads."""
    return _limit("processes", resource.RLIMIT_NPROC, PROCESSES_MIN, "ulimit -u 4096")


def memory() -> Check:
    """Memory available without swapping."""
    text = Path("/proc/meminfo").read_text()
    available_mb = int(re.search(r"MemAvailable:\s+(\d+)", text)[1]) >> 10  # type: ignore[index]
    good = available_mb >= MEMORY_MIN_MB
    remedy = "" if good else "end other programs, or run fewer workers"
    return Check("memory", OK if good else WARN, f"{available_mb} MB available", remedy)


def namespaces() -> Check:
    """Network namespaces, which only the benchmarks' shaped links need; tried in a child."""
    libc = ctypes.CDLL(None, use_errno=True)
    flags = CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWNET | CLONE_NEWUSER
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.unshare(flags) == 0 else 1)
    permitted = os.waitpid(child, 0)[1] == 0
    remedy = "" if permitted else "needed only by bench/: run as root, or allow unprivileged user namespaces"
    return Check("namespaces", OK if permitted else WARN, "permitted" if permitted else "not permitted", remedy)


CHECKS: tuple[Callable[[], Check | Iterator[Check]], ...] = (
    python,
    compiler,
    java,
    jars,
    extensions,
    checksums,
    loopback,
    unix_sockets,
    curve,
    shared_memory,
    open_files,
    processes,
    memory,
    namespaces,
)


def run_checks() -> Iterator[Check]:
    """All checks, one after the other; one that breaks is a warning, not the end."""
    for check in CHECKS:
        try:
            found = check()
            yield from [found] if isinstance(found, Check) else found
        except Exception as error:
            yield Check(check.__name__, WARN, f"could not be checked: {error!r}", "report this")


def _limit(name: str, which: int, least: int, remedy: str) -> Check:
    soft, _ = resource.getrlimit(which)
    good = soft == resource.RLIM_INFINITY or soft >= least
    found = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    return Check(name, OK if good else WARN, found, "" if good else remedy)
