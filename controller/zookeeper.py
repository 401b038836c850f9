"""A real ZooKeeper server as a child process, started from the jars that PySpark ships."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.files import full_disk, no_space, replace, speaks_of_full_disk
from riprap.codec.json_text import to_json
from riprap.controller.class_archive import ClassArchive
from riprap.controller.processes import tie_to_this_process

ADDRESS = "127.0.0.1"
SERVER_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
"""Runs one server alone as ZooKeeperServerMain does, and removes what it has no more need of, which that does not."""
# The server's run-time needs, found by leaving jars out one at a time; log4j's simple logger, which is in its API,
# makes errors readable without the 500 classes of its core.
JARS = (
    *("zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java", "audience-annotations"),
    *("commons-io", "commons-cli", "log4j-api", "log4j-slf4j2-impl"),
)
# A small heap, the quick compiler and no counters in /tmp: the server holds a few kilobytes, and starts quickly.
JVM_FLAGS = (
    *("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory",
)
PATIENCE = 0.1
"""An answer is awaited for this part of the time that the server has had: before it has its database, it neither gives
one nor hangs up."""
# tickTime bounds sessions to 1-10 s. Without forceSync a write survives the death of the process, not of the machine,
# which takes the embedded server's only client with it. Of its snapshots and logs, 3 are the fewest that it keeps, and
# an hour is the shortest time between two purges; the first comes when it starts.
CONFIG = """\
tickTime=500
dataDir={data_dir}
clientPort={port}
clientPortAddress={address}
maxClientCnxns=0
forceSync=no
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
"""


class ZooKeeperKilled(RiprapError):
    """A signal ended the server while it started."""


class EmbeddedZooKeeper:
    """One server on this machine, with its data in `data_dir`; port 0 takes a free one at first start.

    `address` is loopback unless agents of other hosts are to reach it. Its output is appended to `log`, by default a
    file among the data.

    It dies with this process, even by SIGKILL, so `start` must be called on the main thread. After `kill` or `stop`,
    `start` brings the same data back on the same port. As a context manager it starts and stops.
    """

    def __init__(
        self, data_dir: str | os.PathLike[str], port: int = 0, address: str = ADDRESS, log: Path | None = None
    ) -> None:
        self.data_dir = Path(data_dir)
        self.log_path = log or self.data_dir / "zookeeper.log"
        self.address = address
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._archive: ClassArchive | None = None
        """That of a server which has answered."""

    @property
    def connect_string(self) -> str:
        """The address that clients connect to; port 0 until the first start."""
        return f"{self.address}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The server's process, None while it is not running."""
        return self._process.pid if self._process else None

    def start(self, timeout_s: float = 20.0) -> None:
        """Start the server and return when it answers.

        Raises ConfigError when Java, the jars, the port or the folder cannot be used, RiprapError when it does not
        answer in time.
        """
        if self._process is not None:
            raise RuntimeError("the server is already running")
        command = self._command()
        self.port = _usable_port(self.address, self.port)
        config = self._prepare_folder()
        archive = ClassArchive(command)
        command[1:1] = archive.options()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "LC_ALL": "C.UTF-8"},  # else Java cannot name folders that the user's locale cannot
                start_new_session=True,  # the terminal's Ctrl-C is the launcher's to handle
                preexec_fn=tie_to_this_process(),
            )
        self._await_answer(timeout_s)
        self._archive = archive

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the server; no effect when it is not running.

        What it has acknowledged has left the process, so it is killed: ending of its own, a JVM waits 0.3 s for its
        threads. Only the first one does so, to write the archive of its classes, unless that takes too long.
        """
        if self._process is not None and self._archive is not None and self._archive.is_wanted():
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
                self._archive.keep()
        self.kill()

    def kill(self) -> None:
        """SIGKILL the server, as a crash would end it. No effect when it is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = self._archive = None

    def __enter__(self) -> EmbeddedZooKeeper:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def _command(self) -> list[str]:
        """The command that runs the server, without the path of its settings."""
        return [find_java(), *JVM_FLAGS, "-cp", ":".join(map(str, find_jars())), SERVER_CLASS]

    def _settings(self) -> str:
        """The content of its zoo.cfg."""
        escaped = to_json(str(self.data_dir.resolve()))[1:-1]  # the file is Latin-1, with the escapes of JSON
        return CONFIG.format(data_dir=escaped, port=self.port, address=self.address)

    def _prepare_folder(self) -> Path:
        config = self.data_dir / "zoo.cfg"
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self.log_path.touch()
            replace(config, self._settings())
        except OSError as error:
            if full := no_space(error):
                raise full from error
            raise ConfigError(
                f"ZooKeeper's data folder {self.data_dir} cannot be written: {error.strerror}",
                "name a folder that you may write to",
            ) from error
        return config

    def _await_answer(self, timeout_s: float) -> None:
        assert self._process is not None
        begun = time.monotonic()
        while not _answers(self.address, self.port, PATIENCE * (time.monotonic() - begun)):
            code = self._process.poll()
            if code is not None or time.monotonic() > begun + timeout_s:
                self.kill()
                happened = f"ended with code {code}" if code is not None else f"did not answer within {timeout_s:g} s"
                tail = self.log_path.read_text(errors="replace")[-800:].strip()
                if speaks_of_full_disk(tail):
                    raise full_disk(self.data_dir / "the embedded ZooKeeper's log")
                kind = ZooKeeperKilled if code is not None and code < 0 else RiprapError
                raise kind(f"the embedded ZooKeeper {happened}\n{tail}", f"see {self.log_path}")
            time.sleep(0.01)  # it is a JVM that boots: nothing to wait on but its port


def find_java() -> str:
    """The java command, from JAVA_HOME or the path; ConfigError when there is none."""
    home = os.environ.get("JAVA_HOME", "")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or shutil.which("java")
    if java is None:
        raise ConfigError(
            "Java was not found, and the embedded ZooKeeper needs it",
            "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or name your ensemble",
        )
    return java


def find_jars() -> list[Path]:
    """The jars of a ZooKeeper server among PySpark's; ConfigError when PySpark or one of them is missing."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("PySpark was not found, whose jars the embedded ZooKeeper runs from", "pip install pyspark")
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    jars = []
    for name in JARS:
        found = sorted(folder.glob(f"{name}-[0-9]*.jar"))
        if not found:
            raise ConfigError(f"{folder} holds no {name}-*.jar", "reinstall PySpark 4 with pip, or name your ensemble")
        jars.append(found[-1])
    return jars


def _usable_port(address: str, port: int) -> int:
    """The port itself, or a free one for 0; ConfigError when another process listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise ConfigError(
                f"ZooKeeper's port {port} on {address} cannot be used: {error.strerror}",
                "choose another port, or 0 for a free one",
            ) from error
        return int(probe.getsockname()[1])


def _answers(address: str, port: int, wait_s: float) -> bool:
    """True when a ZooKeeper on that port serves requests (`srvr` answers "not currently serving" before that)."""
    try:
        with socket.create_connection((address, port), wait_s) as connection:
            connection.sendall(b"srvr")
            return connection.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False
