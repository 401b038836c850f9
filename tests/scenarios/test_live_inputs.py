"""Inputs that go on, with real processes: every role killed while lines are written, and each word counted once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from cli_harness import Cli, await_that, write_topology
from test_endless import counted, up, windows_in

from riprap.controller.client import Client
from riprap.engine.run_directory.directory import read_events

SHARED_ENSEMBLE = True
JOB = """\
job: words
input: {path: "%s", follow: %s, window_seconds: 1.5}
micro_batch: 1000
stages:
  split: {operator: "word_count:SplitWords", parallelism: %d}
  count: {operator: "word_count:CountWords", parallelism: 2}
edges:
  - {from: split, to: count, partitioning: full}
fault_tolerance: {scheme: %s}
"""
ROLES = ("split.0", "agent", "count.0", "backup", "controller")
BATCH = 700


def line(number: int) -> str:
    return f"alpha w{number} {chr(97 + number % 26)}"


class Run:
    """A run of the job, with what it says of itself, and what can be done to it."""

    def __init__(self, cli: Cli, text: str) -> None:
        (cli.directory / "job.yaml").write_text(text)
        self.cli, self.out = cli, cli.directory / "out"
        self.process = cli.start("run", "job.yaml", "--out", "out", "--standby", "1", "--json")

    @property
    def zookeeper(self) -> str:
        await_that(lambda: any(self.events("cluster_started")), 60, self.failure)
        return str(self.events("cluster_started")[0]["zookeeper"])

    def events(self, name: str) -> list[dict[str, object]]:
        return [event for event in read_events(self.out) if event["event"] == name] if self.out.exists() else []

    def failure(self) -> str:
        return "no progress" if self.process.poll() is None else str(self.process.communicate()[1])

    def items(self) -> int:
        """Of the windows that the destinations have announced, each of them its share."""
        files = [csv for index in (0, 1) if (csv := self.out / f"epochs.{index}.csv").exists()]
        rows = [row for csv in files for row in csv.read_text().splitlines()[1:]]
        return sum(int(row.split(",")[1]) for row in rows if row.count(",") == 3)

    def await_items(self, count: int) -> None:
        await_that(lambda: self.items() == count, 60, lambda: f"{self.items()} of {count} items: {self.failure()}")

    def await_more(self, count: int) -> None:
        """So many more items than there are now."""
        wanted = self.items() + count
        await_that(lambda: self.items() >= wanted, 100, self.failure)

    def await_logged(self, client: Client, count: int) -> None:
        def logged() -> int:
            return int(client.status("words")["workers"]["split.0"]["stats"].get("logged_items", 0))

        await_that(lambda: logged() >= count, 60, self.failure)

    def kill(self, client: Client, role: str) -> None:
        """SIGKILL to a worker, or to a process of the services."""
        if "." in role:
            client.kill("words", role)
            return
        pids = self.cli.pids_of(role)
        os.kill(min(pids), signal.SIGKILL)

    def drain(self) -> dict[str, object]:
        self.cli.ask("drain", "words", "--zookeeper", self.zookeeper)
        said, error = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, error
        return dict(json.loads(said))


def check(run: Run, summary: dict[str, object], lines: int) -> None:
    """Each line counts once, and each window was announced once, in order."""
    last = summary["epochs"]
    assert isinstance(last, int)
    assert windows_in(run.out, 2) == [list(range(1, last + 1))] * 2
    assert summary["items"] == lines
    assert counted(run.out) == Counter(word for number in range(lines) for word in line(number).split())


@pytest.mark.parametrize("scheme", [pytest.param("mini_batch", marks=pytest.mark.long), "upstream_backup"])
def test_followed_files_are_counted_exactly_while_everything_is_killed(cli: Cli, scheme: str) -> None:
    """By default under one scheme; under `mini_batch` all roles are killed below, where a server sends the lines."""
    logs = cli.directory / "logs"
    logs.mkdir()
    (logs / "a.log").touch()
    written, ended = 0, threading.Event()

    def write_on() -> None:
        """Lines without a pause to speak of; the file is rotated every 500 lines, one file is new now and then."""
        nonlocal written
        while not ended.wait(0.002):
            name = logs / ("a.log" if written % 3 else f"b{written // 1500}.log")
            with name.open("a") as stream:
                stream.write(line(written) + "\n")
            written += 1
            if written % 500 == 0 and (logs / "a.log").exists():
                os.rename(logs / "a.log", logs / f"a.log.{written}")

    writer = threading.Thread(target=write_on)
    run = Run(cli, JOB % (logs, "true", 2, scheme))
    with Client(run.zookeeper) as client:
        writer.start()
        try:
            for role in (*ROLES, "split.1"):
                run.await_more(200)
                await_that(lambda: up(client), 60, run.failure)
                run.kill(client, role)
            run.await_more(200)
        finally:
            ended.set()
            writer.join()
        run.await_items(written)
    check(run, run.drain(), written)


class Server:
    """Sends lines to whoever is connected, each line once."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._peers: list[socket.socket] = []
        self._sent = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                self._peers.append(self._listening.accept()[0])
            except OSError:
                return

    def send(self, lines: int) -> None:
        """To the newest connection, which there must be."""
        await_that(lambda: bool(self._peers), 60, lambda: "nobody connected")
        text = "".join(line(number) + "\n" for number in range(self._sent, self._sent + lines))
        self._peers[-1].sendall(text.encode())
        self._sent += lines

    def await_connection(self, number: int) -> None:
        await_that(lambda: len(self._peers) >= number, 60, lambda: f"no connection {number}")

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for one in (*self._peers, self._listening):
            one.close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def test_what_a_server_sent_once_is_counted_once_while_everything_is_killed(cli: Cli, server: Server) -> None:
    run = Run(cli, JOB % (f"tcp://127.0.0.1:{server.port}", "false", 1, "mini_batch"))
    written, lives = 0, 1
    with Client(run.zookeeper) as client:
        for role in ROLES:
            server.await_connection(lives)
            server.send(BATCH)
            written += BATCH
            if role == "split.0":  # what is logged, and in no state: its windows are open
                run.await_logged(client, BATCH)
            else:
                run.await_items(written)
            run.kill(client, role)
            lives += role in ("split.0", "agent")
            run.await_items(written)
            await_that(lambda: up(client), 60, run.failure)
        server.await_connection(lives)
        server.send(BATCH)
        run.await_items(written + BATCH)
    check(run, run.drain(), written + BATCH)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (("input.repeat=2",), "input.repeat: is 2"),
        (("input.repeat=forever",), "input.repeat: is forever"),
        (("input.limit=9",), "input.limit: is 9"),
        (("fault_tolerance={scheme: none}",), "mini_batch, reactive or upstream_backup"),
        (("fault_tolerance={scheme: approximate, theta: 1, l: 1, gamma: 1}",), "mini_batch, reactive or upstream"),
        (("backup.servers=0",), "backup.servers: is 0"),
        (("stages.split.parallelism=2",), "one file for 2 source tasks"),
        (("input.path=tcp://127.0.0.1",), "expected tcp://HOST:PORT"),
        (("input.path=tcp://127.0.0.1:1,tcp://127.0.0.1:2", "input.follow=false"), "2 addresses for 1 source task"),
        (("input.path=tcp://127.0.0.1:1",), "input.follow: the path is an address"),
        (("input.path=missing.log",), "touch "),
        (("input.window_seconds=60",), "less than cluster.stall_timeout_s, 60"),
        (("input.follow=false", "input.path=text.txt"), "input.window_seconds: the input has a length"),
    ],
)
def test_what_cannot_be_followed_is_refused_before_the_start(cli: Cli, change: tuple[str, ...], wrong: str) -> None:
    (cli.directory / "text.txt").write_text("a b\n")
    (cli.directory / "job.yaml").write_text(JOB % ("text.txt", "true", 1, "mini_batch"))
    sets = [word for one in change for word in ("--set", one)]
    ended: subprocess.CompletedProcess[str] = cli.answer("check", "job.yaml", *sets)
    assert ended.returncode == 2 and wrong in ended.stdout + ended.stderr, ended.stdout + ended.stderr


def test_a_source_of_known_length_is_refused(cli: Cli) -> None:
    write_topology(cli.directory / "job.yaml")
    ended = cli.answer("check", "job.yaml", "--set", "input={path: tcp://127.0.0.1:9}")
    assert ended.returncode == 2 and "which reads an input of known length" in ended.stderr + ended.stdout
