"""A worker that starts again gets its state from backup servers: over a network, or from its own host.

    python -m bench.restore [--rounds N] [--megabytes N]

Hosts are network namespaces with links of RATE_MBIT. The control is what was done before: all servers send.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.namespaces import Hosts
from bench.rounds import Found, alternate, await_quiet
from bench.runs import median, save, table
from riprap.backupserver.client import BackupClient
from riprap.codec.trust.keys import WorkerKeys, own_authority
from riprap.codec.trust.rotation import keyring

RATE_MBIT, PORT, NAME, DEADLINE_S = 1000, 7070, "bench/map.0", 120.0
SERVE = "import sys; from riprap.backupserver.server import serve; serve(sys.argv[1], sys.argv[2], 'never', 100)"
CASES = {
    "one server, elsewhere": (1,),
    "three servers, elsewhere": (1, 2, 3),
    "the same, and all send (control)": (1, 2, 3),
    "a server on each of four hosts": (0, 1, 2, 3),
}
COLUMNS = ("servers", "s", "bytes received / bytes of the state", "rounds")


class Restored(NamedTuple):
    """One restore: its duration, and the bytes that came in over the host's link, over those of the state."""

    seconds: float
    received: float


def opened(servers: list[str], fence: int) -> BackupClient:
    """A client of the servers, not opened yet."""
    keys = WorkerKeys(own_authority().life(NAME, fence), keyring().servers)
    return BackupClient(servers, NAME, fence, keys, deadline_s=DEADLINE_S, window_bytes=1 << 30)


def act(words: list[str]) -> None:
    """The part of the worker's host, in a process there: save a state of so many bytes, or restore it."""
    what, fence, nbytes, everybody, *servers = words
    client = opened(servers, int(fence))
    for one in client._peers if everybody == "all" else ():
        one.fetch = True
    before, begun = _came_in(), time.monotonic()
    point = client.open()
    seconds, received = time.monotonic() - begun, _came_in() - before
    if what == "save":
        client.save("state", 1, {}, [np.zeros(int(nbytes), np.uint8)])
    elif point.state is None or point.state.arrays[0].nbytes != int(nbytes):
        raise RuntimeError("the state is not whole")
    if not client.close(DEADLINE_S):
        raise RuntimeError("the state was not saved")
    print(json.dumps([seconds, received / int(nbytes)]))


def _came_in() -> int:
    """The bytes that this host's link has brought, of all interfaces but the one to itself."""
    lines = [line.split(":") for line in Path("/proc/net/dev").read_text().splitlines() if ":" in line]
    return sum(int(numbers.split()[0]) for name, numbers in lines if name.strip() != "lo")


@contextmanager
def servers_on(hosts: Hosts, numbers: tuple[int, ...], folder: Path) -> Iterator[list[str]]:
    """Backup servers on these hosts; their addresses."""
    addresses = [f"tcp://{hosts.address(number)}:{PORT}" for number in numbers]
    words = [(address, str(folder / str(number))) for address, number in zip(addresses, numbers, strict=True)]
    running = [
        subprocess.Popen(hosts.command(number, sys.executable, "-c", SERVE, *word), stderr=subprocess.DEVNULL)
        for number, word in zip(numbers, words, strict=True)
    ]
    try:
        yield addresses
    finally:
        for server in running:
            server.kill()
            server.wait()


def measure(hosts: Hosts, nbytes: int, name: str) -> Restored:
    """Save a state, and restore it as the next incarnation does."""
    everybody = "all" if "control" in name else "near"
    with (
        tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder,
        servers_on(hosts, CASES[name], Path(folder)) as servers,
    ):
        for fence, what in ((1, "save"), (2, "restore")):
            words = (sys.executable, "-m", "bench.restore", "--act", what, str(fence), str(nbytes), everybody)
            done = subprocess.run(hosts.command(0, *words, *servers), capture_output=True, text=True, check=True)
    return Restored(*json.loads(done.stdout))


def row(name: str, case: Found[Restored]) -> list[object]:
    """The medians of a case."""
    return [name, median([one.seconds for one in case.done]), median([one.received for one in case.done]), case.n_of_n]


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--act", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.act:
        return act(options.act)
    load = await_quiet()
    with Hosts(4, RATE_MBIT) as hosts:
        cases = {name: name for name in CASES}
        found = alternate("restore", cases, partial(measure, hosts, options.megabytes * 1_000_000), options.rounds)
    caption = f"a state of {options.megabytes} MB, hosts with links of {RATE_MBIT:,} Mbit/s"
    tables = {caption: table(COLUMNS, [row(name, case) for name, case in found.items() if case.done])}
    figures = {
        name: {"failed": case.failed, "runs": [one._asdict() for one in case.done]} for name, case in found.items()
    }
    data = "synthesized: one array of zeros"
    save("restore", "Restoring from backup servers", tables, figures, data=data, rounds=options.rounds, load=load)


if __name__ == "__main__":
    main()
