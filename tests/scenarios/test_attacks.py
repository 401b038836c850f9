"""What another user of the machine tries against a run: nobody listens, nothing is told, the model is the same.

The attacker is a process of another user, who knows everything that can be seen from there: the names of sockets, the
ports, the job's name and its workers. It does not know the keys. All attacks meet the same run, one after the other:
each leaves it going on without a failure, and at the end its model is the undisturbed one.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq
from cli_harness import UNTIL_HURRIED, Cli, await_that, hurry, write_shards, write_topology
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from shared_cluster import SharedCluster

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.header import Header, encode
from riprap.codec.ids import Epoch, Incarnation, fence_of, name_of, records_of
from riprap.codec.trust.curve import call_with
from riprap.codec.trust.keys import AGENT, CLIENT, CONTROLLER, Authority
from riprap.controller import messages, paths
from riprap.controller.client import Client
from riprap.controller.deltas import Writer
from riprap.controller.reports import EXITED, AgentReport, WorkerReport
from riprap.controller.session import disconnect, open_client
from riprap.engine.run_directory.directory import read_events

NOBODY = 65534
ANSWER_S = 0.5
ITEMS = 1_000_000  # at the pace of UNTIL_HURRIED more than a minute
# More than the buffers of a connection hold, less than what arrives within a handshake's time.
FRAME_TAKEN_MAX = 16 << 20
JOB = f"attacked{os.getpid()}"  # whatever else runs here
LENGTH = ("--set", f"input.repeat={ITEMS // 5000}", "--set", "micro_batch=2000")


class Victim:
    """A run in its middle, and what can be seen of it from outside."""

    def __init__(self, cli: Cli) -> None:
        self.out = cli.directory / "out"
        self._summary: dict[str, Any] = {}
        write_topology(cli.directory / "job.yaml", sets=[("job: trial", f"job: {JOB}")])
        self._process: subprocess.Popen[str] = cli.start(
            "run", "job.yaml", "--out", "out", "--json", *LENGTH, *UNTIL_HURRIED
        )
        self.await_epochs(5)
        self.command_lines = list(command_lines())
        started = next(event for event in read_events(self.out) if event["event"] == "cluster_started")
        self.zookeeper = str(started["zookeeper"])
        ours = open_client(self.zookeeper)
        self.controller = str(json.loads(ours.get(paths.LEADER)[0])["endpoint"])
        (host,) = ours.get_children(paths.AGENTS)
        self.agent = (host, str(json.loads(ours.get(paths.agent(host))[0])["instance"]))
        disconnect(ours)
        self.run = str(json.loads((self.out / "attempts.jsonl").read_text().splitlines()[0])["run"])
        self.backup = f"ipc://@riprap-backup-{self.run}-1"
        (name,) = set(re.findall(rf"@(riprap-{JOB}-sink\.0-1-\S+)", Path("/proc/net/unix").read_text()))
        self.sink = f"ipc://@{name}"

    def await_epochs(self, count: int) -> None:
        """So many more than there are."""
        wanted = self._epochs() + count
        await_that(lambda: self._epochs() >= wanted, 120, lambda: f"no more epochs: {self._process.poll()}")

    def _epochs(self) -> int:
        csv = self.out / "epochs.csv"
        return csv.read_bytes().count(b"\n") if csv.exists() else 0

    def check_goes_on(self) -> None:
        """Nothing was lost or replaced, and the job makes progress."""
        with Client(self.zookeeper) as client:
            status = client.status(JOB)
        assert (status["phase"], status["failures"]) == ("RUNNING", [])
        self.await_epochs(5)

    def finish(self) -> dict[str, Any]:
        """The summary, once it has ended as if nothing had been."""
        if not self._summary:
            hurry(self.out.parent)
            out, err = self._process.communicate(timeout=120)
            assert self._process.returncode == 0, err
            self._summary = json.loads(out)
        return self._summary


@pytest.fixture(scope="module")
def undisturbed(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the model of a job that nobody attacks."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_shards(folder / "shards")
    write_topology(folder / "job.yaml")
    return str(cluster.job(folder / "job.yaml", folder / "out", *LENGTH)["model"]["sha256"])


@pytest.fixture(scope="module")
def victim(undisturbed: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """A run in its middle; whatever was tried against it, it ends as if nothing had been."""
    cli = Cli(tmp_path_factory.mktemp("victim"))
    write_shards(cli.directory / "shards")
    try:
        victim = Victim(cli)
        yield victim
        summary = victim.finish()
        assert (summary["model"]["sha256"], summary["failures"]) == (undisturbed, [])
        cli.await_no_process()
    finally:
        cli.kill_all()


def as_another_user(attack: Callable[[], object], user: int = NOBODY) -> str:
    """What an attack says in a process of a user that holds no keys of ours; its error, if it failed.

    With our own user it is the view from a container that shares network and user id, but no file.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            said = repr(attack())
        except BaseException as error:
            said = repr(error)
        finally:
            os.write(writing, said.encode()[:4000])
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode()
    os.waitpid(child, 0)
    return said


def ask(endpoint: str, *requests: list[bytes], identity: bytes = b"", keys: Authority | None = None) -> list[bytes]:
    """The first answer to messages, sent in plain or with keys of one's own; nothing when there is none."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as caller:
        caller.setsockopt(zmq.LINGER, 0)
        caller.setsockopt(zmq.SNDTIMEO, int(ANSWER_S * 1000))
        if identity:
            caller.setsockopt(zmq.ROUTING_ID, identity)
        if keys is not None:
            call_with(caller, keys.pair(AGENT), keys.pair(CONTROLLER).public)
        caller.connect(endpoint)
        with suppress(zmq.Again):  # hung up on before all was said
            for frames in requests:
                caller.send_multipart(frames)
        return caller.recv_multipart() if caller.poll(ANSWER_S * 1000) else []


WAYS = (None, Authority(b"x" * 32))
"""In plain, and with keys of the attacker's own."""


def test_nobody_submits_cancels_kills_or_asks(victim: Victim) -> None:
    evil = {"job": "evil", "topology": {"stages": {"source": {"operator": "evil:Evil"}}}, "run_dir": "/tmp/evil"}
    requests: list[dict[str, Any]] = [
        {"type": "submit", "submission": "1", **evil},
        {"type": "cancel", "job": JOB},
        {"type": "kill", "job": JOB, "worker": "sink.0"},
        {"type": "forget", "job": JOB},
        {"type": "status", "job": JOB},
        {"type": "list"},
    ]
    frames = [[messages.pack({**request, "id": number})] for number, request in enumerate(requests)]
    for user in (NOBODY, os.getuid()):
        said = as_another_user(lambda: [ask(victim.controller, *frames, keys=keys) for keys in WAYS], user)
        assert said == "[[], []]"
    victim.check_goes_on()
    assert not Path("/tmp/evil").exists()


def test_forged_reports_of_an_agent_complete_nothing(victim: Victim) -> None:
    host, instance = victim.agent
    rows = [WorkerReport(JOB, "sink.0", 1, EXITED, 1, status=0, done=True, accounted=ITEMS, epoch=1000)]
    forged = Writer().encode(1 << 40, AgentReport(host, instance, 1 << 40, rows=rows).state())
    report = messages.pack({"type": "report", "instance": instance, **forged})
    assert as_another_user(lambda: [ask(victim.controller, [report], keys=keys) for keys in WAYS]) == "[[], []]"
    victim.check_goes_on()


def test_forged_results_of_a_processor_are_not_summed_up(victim: Victim) -> None:
    """Of every epoch to come, from senders that call themselves by the names of a processor's present and next life."""
    names = [b"processor.1#1", b"processor.1#2"]

    def attack() -> list[list[bytes]]:
        blocks = [forged(epoch) for epoch in range(1, 200)]
        return [ask(victim.sink, *blocks, identity=name, keys=keys) for name in names for keys in WAYS]

    assert as_another_user(attack) == "[[], [], [], []]"
    victim.check_goes_on()


def forged(epoch: int) -> list[bytes]:
    """A result as a processor would send it."""
    import numpy as np

    block = Block(Kind.DATA, Epoch(epoch), Key(0, 0, 0, 0), 500, (np.full(8, 1e9),))
    header, frames = encode(Header(JOB, "processor.0", Incarnation(1), 1), block)
    return [header, *map(bytes, frames)]


def test_the_backup_server_tells_nothing_and_keeps_nothing_of_strangers(victim: Victim) -> None:
    name = f"{JOB}-{victim.run}/sink.0"
    steal = {"type": "open", "name": name, "fence": (1 << 62) - 2, "fetch": True}
    requests = [
        [msgpack.packb(one)] for one in (steal, {"type": "forget", "job": f"{JOB}-{victim.run}"}, {"type": "status"})
    ]
    for user in (NOBODY, os.getuid()):
        said = as_another_user(lambda: [ask(victim.backup, *requests, keys=keys) for keys in WAYS], user)
        assert said == "[[], []]"
    victim.check_goes_on()


def test_zookeeper_shows_and_takes_nothing(victim: Victim) -> None:
    def attack() -> list[str]:
        client = KazooClient(victim.zookeeper)
        client.start()
        tries: list[Callable[[], object]] = [
            lambda: client.get(paths.LEADER),
            lambda: client.get_children(paths.JOBS),
            lambda: client.get(paths.job_spec(JOB)),
            lambda: client.set(paths.job_state(JOB), b"{}"),
            lambda: client.create(f"{paths.JOBS}/evil", b""),
            lambda: client.create(f"{paths.AGENTS}/evil", b"", ephemeral=True),
            lambda: client.delete(paths.LEADER),
        ]
        return [refusal(one) for one in tries]

    assert as_another_user(attack) == repr(["NoAuthError"] * 7)
    victim.check_goes_on()


def refusal(call: Callable[[], object]) -> str:
    try:
        return repr(call())
    except KazooException as error:
        return type(error).__name__


def test_half_open_connections_and_garbage_harm_nothing(victim: Victim) -> None:
    """Hundreds of connections that say nothing, half a greeting, or noise: each is closed within seconds."""
    _, host, port = victim.controller.replace("//", "").split(":")

    def attack() -> int:
        held = []
        for number in range(300):
            one = socket.create_connection((host, int(port)))
            one.sendall([b"", b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f", os.urandom(200)][number % 3])
            held.append(one)
        return sum(was_closed(one) for one in held)

    assert as_another_user(attack) == "300"
    victim.check_goes_on()


def test_a_large_first_frame_is_not_taken(victim: Victim) -> None:
    """Of a size that none of them permits; who announces it is hung up on, and a part of what follows may be lost."""
    _, host, port = victim.controller.replace("//", "").split(":")
    addresses = [(host, int(port)), victim.backup.replace("ipc://@", "\0"), victim.sink.replace("ipc://@", "\0")]
    said = as_another_user(lambda: [taken(address, 1 << 30) < FRAME_TAKEN_MAX for address in addresses])
    assert said == "[True, True, True]"
    victim.check_goes_on()


def test_the_attacked_job_ends_with_the_undisturbed_model(victim: Victim, undisturbed: str) -> None:
    summary = victim.finish()
    assert summary["completed"] and summary["items"] == ITEMS and summary["failures"] == []
    assert summary["model"]["sha256"] == undisturbed and summary["lost"]["states"] == 0


def test_what_a_run_writes_is_its_owners_alone(victim: Victim) -> None:
    assert victim.finish()["completed"]
    paths_of_run = [victim.out, *victim.out.rglob("*")]
    open_ones = [path for path in paths_of_run if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_ones == []


def test_no_secret_is_in_the_run_directory_or_a_command_line(victim: Victim) -> None:
    secret = Path(os.environ["RIPRAP_KEYS"], "secret").read_bytes()
    authority = Authority(secret)
    pairs = [authority.pair(role) for role in (CONTROLLER, AGENT, CLIENT)] + [
        authority.life(name_of(records_of(JOB, victim.run), worker), fence_of(1, 1))
        for worker in ("source.0", "sink.0")
    ]
    hidden = [secret, *(half for pair in pairs for half in pair), authority.password("zookeeper").encode()]
    assert victim.finish()["completed"]
    files = [path.read_bytes() for path in victim.out.rglob("*") if path.is_file()]
    assert not [one for one in hidden for text in (*victim.command_lines, *files) if one in text]


def command_lines() -> Iterator[bytes]:
    """Of all processes here."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # gone meanwhile
            yield path.read_bytes()


def taken(address: Any, size: int) -> int:
    """How much of a frame that is announced as so large goes out before the server ends the connection."""
    sent, family = 0, socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    with socket.socket(family) as one, suppress(OSError):
        one.settimeout(120)
        one.connect(address)
        one.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32))
        one.sendall(b"\x06" + size.to_bytes(8, "big"))
        while sent < size:
            sent += one.send(bytes(1 << 16))
    return sent


def was_closed(connection: socket.socket) -> bool:
    """Whether the server ends it, after what it says by itself."""
    connection.settimeout(120)
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True
