"""The cost of keys between two processes of this machine: bytes and messages a second, and the time to connect.

    python -m bench.keys [--rounds N]

Each size and transport in turn without keys and with them; ratios are medians over the rounds. Payloads that pass by
reference, as between workers of one host, are not encrypted: they cost what they did.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from bench.network import KEYS, MESSAGE_BYTES_MAX, Keys, received, turn
from bench.rounds import alternate, await_quiet
from bench.runs import save, table
from riprap.engine.wire.network import Network

TOTAL_BYTES = 512 << 20
SMALL = 200_000
SIZES = {"100 B": 100, "64 KiB": 64 << 10, "1 MiB": 1 << 20}
CONNECTIONS = 100


def megabytes_a_second(transport: str, size: int, way: str) -> Callable[[], float]:
    count = min(SMALL, TOTAL_BYTES // size)
    return lambda: count * size / turn(way, transport, count, size)[0] / 1e6


def connect_ms(keys: Keys) -> float:
    """The median time from `connect` to the answer to a first message, over tcp, in this process."""
    receiver = Network(MESSAGE_BYTES_MAX, keys=keys)
    bound = receiver.bind("tcp://127.0.0.1:0")
    receiver.start()
    times = []
    for number in range(CONNECTIONS):
        sender = Network(MESSAGE_BYTES_MAX, keys=keys)
        sender.start()
        began = time.perf_counter()
        sender.send(sender.connect(bound, b"%d" % number, keys and keys[0]), b"first")
        receiver.reply(received(receiver)[0][1], b"answer")
        received(sender)
        times.append(time.perf_counter() - began)
        sender.close()
    receiver.close()
    return 1000 * statistics.median(times)


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    load = await_quiet()
    cases: dict[str, Callable[[], float]] = {
        f"{transport} {name} {way}": megabytes_a_second(transport, size, way)
        for transport in ("ipc", "tcp")
        for name, size in SIZES.items()
        for way in ("network", "keys")
    }
    cases |= {"connect network": lambda: connect_ms(None), "connect keys": lambda: connect_ms(KEYS)}
    found = alternate("keys", cases, lambda case: case(), rounds)
    rows = []
    for case in dict.fromkeys(name.rpartition(" ")[0] for name in cases):
        plain, keyed = found[f"{case} network"], found[f"{case} keys"]
        ratios = [b / a for a, b in zip(plain.done, keyed.done, strict=True)]
        middle = statistics.median(ratios)
        span = f"{middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f}; {len(ratios)} of {rounds})"
        unit = "ms" if case == "connect" else "MB/s"
        rows.append([case, unit, plain.median(float), keyed.median(float), span])
    caption = "Two processes, two cores; a connection: to the answer to its first message"
    heading = ["transport, size", "unit", "without keys", "with keys", "ratio"]
    figures = {name: case.rounds for name, case in found.items()}
    save("keys", "Keys", {caption: table(heading, rows)}, figures, rounds=rounds, load=load)


if __name__ == "__main__":
    main()
