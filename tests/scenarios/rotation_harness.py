"""A cluster of two hosts, each with a folder of keys of its own, on which a job of exact results runs slowly."""

from __future__ import annotations

import contextlib
import csv
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np
import zmq
from cli_harness import UNTIL_HURRIED, Cli, await_that, hurry
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import make_digest_acl

from riprap.codec.trust.curve import call_with
from riprap.codec.trust.keys import BACKUP, FOLDER_VARIABLE, Authority, KeyPair
from riprap.controller import messages, paths

EPOCHS = 1000
SETS = ("--set", f"input.repeat={EPOCHS // 10}")
ANSWER_MS = 300
STEPS = """\
import os, secrets, signal
from riprap.codec.trust.keys import Authority
from riprap.engine.services import rotation

def told(coming): rotation.announce(coming)
def shared(coming): told(coming), rotation.share(coming)
def taken(coming): shared(coming), rotation.take_over(coming)

{step}(Authority(secrets.token_bytes(32)))
os.kill(os.getpid(), signal.SIGKILL)
"""
"""The first steps of a rotation, and a sudden end."""


class Rotating:
    """`riprap up` here, an agent on another host (unless there are to be none), and the job `trial` in its middle."""

    def __init__(self, cli: Cli, agents: int = 1, standby: int = 1) -> None:
        self.cli, self.out = cli, cli.directory / "out"
        self.folder, self.other_folder = cli.directory / "keys", cli.directory / "keys of the other host"
        cli.environment[FOLDER_VARIABLE] = str(self.folder)
        up = json.loads(self.done("up", "--standby", str(standby), "--address", "127.0.0.1", "--json"))
        self.zookeeper, (self.backup,) = up["zookeeper"], up["backups"]
        self.done("join", self.done("token").strip(), host=self.other_folder)
        self.agents = [self.start_agent() for _ in range(agents)]

    def start_agent(self) -> subprocess.Popen[str]:
        words = ("--zookeeper", self.zookeeper, "--host", "other", "--address", "127.0.0.1")
        agent = self.cli.start("agent", *words, environment={FOLDER_VARIABLE: str(self.other_folder)})
        await_that(lambda: "other" in self.hosts(), 120, lambda: "the other agent has not joined")
        return agent

    def submit(self) -> None:
        self.done("submit", "job.yaml", "--out", "out", *SETS, *UNTIL_HURRIED)
        self.await_more_epochs()

    def done(self, *words: str, host: Path | None = None) -> str:
        """What a command says that must succeed."""
        ended = self.run(*words, host=host)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def run(self, *words: str, host: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self.cli.run(*words, environment={FOLDER_VARIABLE: str(host or self.folder)})

    def kill_after(self, step: str) -> None:
        """Begin a rotation that is killed after one of its steps."""
        ended = subprocess.run(
            [sys.executable, "-c", STEPS.format(step=step)], env=self.cli.environment, capture_output=True, timeout=120
        )
        assert ended.returncode == -signal.SIGKILL, ended.stderr

    def keys(self, folder: Path | None = None) -> Authority:
        return Authority(Path(folder or self.folder, "secret").read_bytes())

    def former(self) -> Authority:
        """The keys before the present ones."""
        return Authority((self.folder / "former").read_bytes()[:32])

    def status(self) -> dict[str, Any]:
        """Of the job, from the controller that leads, under the present keys."""
        found: list[dict[str, Any]] = []

        def told() -> bool:
            found.extend(self._ask_leader({"type": "status", "job": "trial", "id": 1}))
            return bool(found)

        await_that(told, 60, lambda: "nobody says how the job is")
        return found[0]

    def _ask_leader(self, question: dict[str, Any]) -> list[dict[str, Any]]:
        """Its answer, if there is one."""
        keys = self.keys()
        try:
            endpoint = self.leader()["endpoint"]
        except NoNodeError:
            return []
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            call_with(socket, keys.pair("client"), keys.pair("controller").public)
            socket.connect(endpoint)
            socket.send(messages.pack(question))
            return [dict(messages.unpack(socket.recv())["result"])] if socket.poll(ANSWER_MS) else []

    def hosts(self) -> set[str]:
        nodes = self.ensemble(self.keys())
        try:
            return set(nodes.get_children(paths.AGENTS))
        finally:
            close(nodes)

    def incarnations(self) -> dict[str, tuple[int, int]]:
        """The pid and incarnation of every worker."""
        return {name: (one["pid"], one["incarnation"]) for name, one in self.status()["workers"].items()}

    def epochs(self) -> int:
        path = self.out / "epochs.csv"
        return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0

    def await_more_epochs(self, count: int = 20) -> None:
        wanted = self.epochs() + count
        await_that(lambda: self.epochs() >= wanted, 120, lambda: f"no more epochs: {self.status()}")

    def leader(self) -> dict[str, Any]:
        nodes = self.ensemble(self.keys())
        try:
            return dict(json.loads(nodes.get(paths.LEADER)[0]))
        finally:
            close(nodes)

    def finish(self) -> dict[str, Any]:
        """The summary, once the job has ended."""
        hurry(self.cli.directory)
        summary = self.out / "summary.json"
        await_that(summary.exists, 120, lambda: str(self.status()))
        return dict(json.loads(summary.read_text()))

    def check_whole(self, undisturbed: dict[str, np.ndarray]) -> None:
        """Every epoch once, and the same model to the last bit."""
        with (self.out / "epochs.csv").open() as file:
            assert [int(row["epoch"]) for row in csv.DictReader(file)] == list(range(1, EPOCHS + 1))
        found = np.load(self.out / "model.npz")
        assert {name: found[name].tobytes() for name in found} == {n: a.tobytes() for n, a in undisturbed.items()}

    def ensemble(self, keys: Authority) -> KazooClient:
        """A session with the identity of these keys alone."""
        client = KazooClient(self.zookeeper, auth_data=[("digest", f"riprap:{keys.password('zookeeper')}")])
        client.start()
        return client

    def owners(self) -> dict[str, list[Any]]:
        """The access list of every node under /riprap, read with the present keys."""
        nodes, found, waiting = self.ensemble(self.keys()), {}, [paths.ROOT]
        while waiting:
            path = waiting.pop()
            found[path] = nodes.get_acls(path)[0]
            waiting += [f"{path}/{name}" for name in nodes.get_children(path)]
        close(nodes)
        return found

    def close(self) -> None:
        self.cli.run("down")
        for agent in self.agents:
            agent.terminate()
            print(agent.communicate(timeout=120)[1])  # seen where a test fails


def close(client: KazooClient) -> None:
    client.stop()
    client.close()


class Caller(NamedTuple):
    """Somebody with a key, who asks a server that has one."""

    endpoint: str
    own: KeyPair
    server: bytes
    question: dict[str, Any]


def answered(callers: Sequence[Caller]) -> list[Caller]:
    """Those who get an answer, while all ask at once."""
    with zmq.Context() as context, contextlib.ExitStack() as stack:
        poller, asking = zmq.Poller(), {}
        for caller in callers:
            socket = stack.enter_context(context.socket(zmq.DEALER))
            socket.setsockopt(zmq.LINGER, 0)
            call_with(socket, caller.own, caller.server)
            socket.connect(caller.endpoint)
            socket.send(msgpack.packb(caller.question))
            poller.register(socket, zmq.POLLIN)
            asking[socket] = caller
        found: list[Caller] = []
        while len(found) < len(callers) and (ready := poller.poll(ANSWER_MS)):
            for socket, _ in ready:
                poller.unregister(socket)
                found.append(asking[socket])
        return found


def check_opens_nothing(cluster: Rotating, former: Authority) -> None:
    """Not the controller, with any role; not the backup server; no node in ZooKeeper, which nobody else may read."""
    present = cluster.keys()
    listing, status = {"type": "jobs", "id": 1}, {"type": "status"}
    endpoint = cluster.leader()["endpoint"]

    def asking(own: KeyPair, keys: Authority) -> list[Caller]:
        return [
            Caller(endpoint, own, keys.pair("controller").public, listing),
            Caller(cluster.backup, own, keys.pair(BACKUP).public, status),
        ]

    ours_ask = asking(present.pair("client"), present)
    await_that(lambda: len(answered(ours_ask)) == 2, 120, lambda: "the questions are not right")
    pairs = [former.pair(role) for role in ("client", "agent", "reader")]
    # who knows no server's key cannot begin, and who does is turned away
    assert not answered([caller for pair in pairs for keys in (former, present) for caller in asking(pair, keys)])
    owners = cluster.owners()
    ours = make_digest_acl("riprap", present.password("zookeeper"), all=True)
    readers = make_digest_acl("riprap-readers", present.password("reader"), read=True)
    assert len(owners) > 6 and {path: found for path, found in owners.items() if found != [ours]} == {
        paths.LEADER: [ours, readers]
    }
    stranger = cluster.ensemble(former)
    for path in owners:
        for ask in (stranger.get, stranger.get_children):
            try:
                said = ask(path)
            except NoAuthError:
                continue
            raise AssertionError(f"{path} is told: {said!r}")
    close(stranger)
