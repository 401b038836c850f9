"""Sends malformed handshakes, frames and requests to all sockets of running jobs, from several processes at once.

    python tests/fuzz/fuzz_sockets.py --count 1000000 --processes 2 --seed 1

Half of what is sent, or another share, comes from strangers: noise, torn greetings, frames that claim to be huge,
handshakes in plain and with keys of their own. The rest comes from holders of keys, who send what is no request and no
block. A handshake takes twenty times as long as a message. Jobs run
one after the other until so much was sent. Each must end with the model of an undisturbed one, without a failure, a
traceback or a process that has grown.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import zmq

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from cli_harness import UNTIL_HURRIED, Cli, await_that, hurry, write_shards, write_topology

from riprap.codec.ids import fence_of, name_of, records_of
from riprap.codec.trust.curve import call_with
from riprap.codec.trust.keys import AGENT, BACKUP, CLIENT, CONTROLLER, KeyPair, own_authority
from riprap.controller import paths
from riprap.controller.session import disconnect, open_client
from riprap.engine.run_directory.directory import read_events

ROWS, PER_SECOND = 5000, 10_000
"""Of the shards; what a job reads until it may hurry, or somewhat less."""
GROWTH_MAX_BYTES = 64 << 20
BURST = 100
JOB = f"fuzzed{os.getpid()}"  # whatever else runs here
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01"


class Target(NamedTuple):
    """A listening socket, and the keys with which one gets in."""

    endpoint: str
    server: bytes
    holders: tuple[KeyPair, ...]


def noise(draw: random.Random, most: int = 400) -> bytes:
    return draw.randbytes(draw.randrange(most))


def handshake(draw: random.Random) -> bytes:
    """What a stranger says first."""
    mechanism = draw.choice([b"NULL", b"CURVE", b"PLAIN", noise(draw, 20)])[:20].ljust(20, b"\0")
    greeting = GREETING + mechanism + bytes([draw.randrange(2)]) + bytes(31)
    hello = b"\x04\xc8\x05HELLO\x01\x00" + bytes(72) + draw.randbytes(120)
    huge = b"\x06" + struct.pack(">Q", draw.randrange(1 << 63))
    said = [
        noise(draw), greeting[: draw.randrange(len(greeting))], greeting, greeting + noise(draw), greeting + hello,
        greeting + hello[: draw.randrange(len(hello))], greeting + huge, greeting + huge + noise(draw),
    ]  # fmt: skip
    return draw.choice(said)


def knock(target: Target, draw: random.Random) -> None:
    """One connection of a stranger, who speaks and leaves."""
    if target.endpoint.startswith("tcp"):
        host, port = target.endpoint.removeprefix("tcp://").rsplit(":", 1)
        kind, address = socket.AF_INET, (host, int(port))
    else:
        kind, address = socket.AF_UNIX, target.endpoint.replace("ipc://@", "\0")  # type: ignore[assignment]
    with socket.socket(kind, socket.SOCK_STREAM) as one, suppress(OSError):
        one.settimeout(1)
        one.connect(address)
        one.sendall(handshake(draw))


def absurd(draw: random.Random, depth: int = 0) -> Any:
    """A value of any kind."""
    if depth < 2 and draw.random() < 0.3:
        return {str(draw.random()): absurd(draw, depth + 1) for _ in range(draw.randrange(4))}
    return draw.choice([None, -1, 1 << 62, 0.5, float("nan"), "", "x" * 300, b"\0" * 50, [], True, [[]], "sink.0"])


def request(draw: random.Random) -> list[bytes]:
    """What is no request and no block, and sometimes nearly one; never one that a job would have to obey."""
    names = ["id", "job", "name", "fence", "seq", "incarnation", "number", "epoch", "instance"]
    names += ["topology", "run_dir", "ping"]
    kinds = ["submit", "status", "report", "save", "open", "synced", "ping", "desired", "resend", "", "x" * 60]
    fields = {name: absurd(draw) for name in draw.sample(names, draw.randrange(len(names)))}
    whole = msgpack.packb({"type": draw.choice(kinds), **fields})
    torn = whole[: draw.randrange(len(whole))] + noise(draw, 20)
    frames = [draw.choice([whole, torn, noise(draw), b""])]
    return frames + [noise(draw) for _ in range(draw.choice([0, 0, 0, 1, 20]))]


def burst(context: zmq.Context[zmq.Socket[bytes]], target: Target, draw: random.Random) -> int:
    """Messages of a holder of a key; how many were sent."""
    with context.socket(zmq.DEALER) as caller:
        caller.setsockopt(zmq.LINGER, 200)
        caller.setsockopt(zmq.SNDTIMEO, 1000)
        call_with(caller, draw.choice(target.holders), target.server)
        caller.connect(target.endpoint)
        for number in range(BURST):
            try:
                caller.send_multipart(request(draw))
            except zmq.Again:
                return number
    return BURST


def fuzz(targets: Sequence[Target], seed: int, seconds: float, count: int, handshakes: float, sent: Any) -> None:
    """Send until the time is over or enough was sent, so great a share of it handshakes; adds up what was."""
    draw, until, mine = random.Random(seed), time.monotonic() + seconds, 0
    knocks = handshakes * BURST / (handshakes * BURST + 1 - handshakes)
    with zmq.Context() as context:
        while mine < count and time.monotonic() < until:
            target = draw.choice(targets)
            if draw.random() < knocks:
                knock(target, draw)
                mine += 1
            else:
                mine += burst(context, target, draw)
    with sent.get_lock():
        sent.value += mine


def targets_of(out: Path) -> list[Target]:
    """The sockets of a run."""
    authority = own_authority()
    started = next(event for event in read_events(out) if event["event"] == "cluster_started")
    ours = open_client(str(started["zookeeper"]))
    controller = str(json.loads(ours.get(paths.LEADER)[0])["endpoint"])
    disconnect(ours)
    clients = (authority.pair(AGENT), authority.pair(CLIENT))
    found = [Target(controller, authority.pair(CONTROLLER).public, clients)]
    run = str(json.loads((out / "attempts.jsonl").read_text().splitlines()[0])["run"])
    names = sorted(set(re.findall(rf"@(riprap-{JOB}-\S+)", Path("/proc/net/unix").read_text())))
    assert len(names) == 5, names
    workers = [name.removeprefix(f"riprap-{JOB}-").split("-")[0] for name in names]
    lives = {worker: authority.life(name_of(records_of(JOB, run), worker), fence_of(1, 1)) for worker in workers}
    held = tuple(lives.values())
    backup = f"ipc://@riprap-backup-{run}-1"
    found.append(Target(backup, authority.pair(BACKUP).public, (*held, authority.pair(CLIENT))))
    return found + [Target(f"ipc://@{n}", lives[worker].public, held) for n, worker in zip(names, workers, strict=True)]


def sizes(cli: Cli) -> dict[int, int]:
    """Resident bytes of each process of a run."""
    found = {}
    for pid in cli.processes():
        with suppress(OSError):
            found[pid] = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return found


def one_job(cli: Cli, out: str, seconds: int, attack: Callable[[list[Target]], None]) -> str:
    """Run a job that goes slowly while it is fuzzed, for so many seconds at most; the digest of its model.

    AssertionError if the job suffered.
    """
    (cli.directory / "hurry").unlink(missing_ok=True)
    repeat = 2 * seconds * PER_SECOND // ROWS
    process = cli.start("run", "job.yaml", "--out", out, "--json", "--set", f"input.repeat={repeat}", *UNTIL_HURRIED)
    folder = cli.directory / out
    csv = folder / "epochs.csv"
    await_that(lambda: csv.exists() and csv.read_bytes().count(b"\n") > 5, 60, lambda: "nothing was committed")
    before = sizes(cli)
    attack(targets_of(folder))
    after = sizes(cli)
    hurry(cli.directory)
    said, error = process.communicate(timeout=seconds + 60)
    assert process.returncode == 0, error
    summary = json.loads(said)
    assert summary["failures"] == [] and summary["completed"], summary["failures"]
    grown = {pid: after[pid] - size for pid, size in before.items() if pid in after}
    assert max(grown.values()) < GROWTH_MAX_BYTES, grown
    logs = [log.read_text(errors="replace") for log in folder.rglob("*.log")]
    assert not [text for text in logs if "Traceback" in text]
    cli.await_no_process()
    return str(summary["model"]["sha256"])


def run(cli: Cli, count: int, processes: int, seed: int, seconds: int, handshakes: float = 0.5) -> int:
    """Fuzz until so much was sent; how much was."""
    write_shards(cli.directory / "shards", rows=ROWS)
    write_topology(cli.directory / "job.yaml", sets=[("job: trial", f"job: {JOB}")])
    expected = one_job(cli, "undisturbed", seconds, lambda targets: None)
    sent, jobs, forked = multiprocessing.Value("q", 0), 0, multiprocessing.get_context("fork")
    while sent.value < count:
        jobs += 1

        def attack(targets: list[Target], job: int = jobs) -> None:
            share = -(-(count - sent.value) // processes)
            seeds = [seed * 1000 + job * processes + n for n in range(processes)]
            words = [(targets, one, seconds, share, handshakes, sent) for one in seeds]
            running = [forked.Process(target=fuzz, args=arguments) for arguments in words]
            for one in running:
                one.start()
            for one in running:
                one.join()
                assert one.exitcode == 0, "the fuzzer itself failed"

        assert one_job(cli, f"job{jobs}", seconds, attack) == expected, f"job {jobs} has another model"
    return int(sent.value)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="handshakes, frames and requests to send")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=30, help="for which each job is fuzzed")
    parser.add_argument("--handshakes", type=float, default=0.5, help="their share of what is sent")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        cli = Cli(Path(folder))
        began = time.monotonic()
        try:
            sent = run(cli, given.count, given.processes, given.seed, given.seconds, given.handshakes)
        finally:
            cli.kill_all()
    print(f"{sent:,} sent in {time.monotonic() - began:.0f} s from {given.processes} processes; no job noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
