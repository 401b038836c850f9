"""Bytes and messages that the network moves between two processes, without and with keys, beside raw pyzmq and
`python -m bench.network`.

Throughput is bytes received over the time from the first message to the last, with at most WINDOW_BYTES in flight;
the ways take turns and the median of the turns counts. The receiver does not look at the bytes.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import zmq

from riprap.codec.trust.keys import Authority
from riprap.engine.wire.arena import Arena
from riprap.engine.wire.channel import Channel
from riprap.engine.wire.network import DOWNSTREAM, UPSTREAM, Network

WINDOW_BYTES = 8 << 20
SIZES = (64 << 10, 256 << 10, 1 << 20)
TIMEOUT_MS = 20_000
MESSAGE_BYTES_MAX = 16 << 20

Receiver = Callable[[Connection, str, int, int], None]
Sender = Callable[[str, int, int], Any]
Keys = tuple[bytes, bytes] | None
KEYS = Authority(b"of this bench".ljust(32)).life("bench", 1)


def window(size: int) -> int:
    """The number of messages of `size` bytes that may be in flight."""
    return max(2, min(4096, WINDOW_BYTES // size))


def received(network: Network) -> list[Any]:
    """The next batch; a benchmark that stalls ends here."""
    batch = network.receive(TIMEOUT_MS)
    if not batch:
        raise TimeoutError("nothing arrived")
    return batch


def network_receiver(report: Connection, transport: str, count: int, size: int, keys: Keys = None) -> None:
    """Receive `count` messages and acknowledge each batch with the number of messages so far."""
    network = Network(MESSAGE_BYTES_MAX, keys=keys)
    report.send(network.bind(transport))
    network.start()
    got, start = 0, 0.0
    while got < count:
        batch = received(network)
        start = start or time.perf_counter()
        got += len(batch)
        network.reply(batch[-1][1], b"%d" % got)
    report.send((time.perf_counter() - start, time.process_time()))
    report.recv()
    network.close(1000)


def network_sender(endpoint: str, count: int, size: int, keys: Keys = None) -> float:
    """Send `count` messages; returns this process's CPU seconds."""
    network = Network(MESSAGE_BYTES_MAX, keys=keys)
    network.start()
    link = network.connect(endpoint, b"bench", keys and keys[0])
    payload = np.zeros(size, np.uint8)
    frames = [payload] if size > 1024 else []
    header = b"h" * 40 if frames else bytes(payload) or b"h"
    sent = acked = 0
    before = time.process_time()
    while acked < count:
        while sent < count and sent - acked < window(size) and network.send(link, header, frames):
            sent += 1
        acked = max(int(message[2]) for message in received(network))
    network.close()
    return time.process_time() - before


def pyzmq_receiver(report: Connection, transport: str, count: int, size: int) -> None:
    """As network_receiver, with a pyzmq ROUTER in this thread."""
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind(transport)
    report.send(router.getsockopt_string(zmq.LAST_ENDPOINT))
    got, start = 0, 0.0
    step = max(1, window(size) // 4)
    while got < count:
        parts = router.recv_multipart(copy=False)
        start = start or time.perf_counter()
        got += 1
        if got % step == 0 or got == count:
            router.send_multipart([parts[0], b"%d" % got])
    report.send((time.perf_counter() - start, time.process_time()))
    report.recv()
    router.context.destroy(0)


def pyzmq_sender(endpoint: str, count: int, size: int) -> float:
    """As network_sender, with a pyzmq DEALER in this thread."""
    dealer = zmq.Context().socket(zmq.DEALER)
    dealer.sndhwm = 0
    dealer.rcvtimeo = TIMEOUT_MS
    dealer.connect(endpoint)
    payload = np.zeros(size, np.uint8)
    large = size > 1024
    sent = acked = 0
    before = time.process_time()
    while acked < count:
        while sent < count and sent - acked < window(size):
            if large:
                dealer.send(b"h" * 40, zmq.SNDMORE)
                dealer.send(payload.data, copy=False)
            else:
                dealer.send(payload.data)
            sent += 1
        acked = int(dealer.recv())
    dealer.context.destroy(0)
    return time.process_time() - before


def socket_receiver(report: Connection, transport: str, count: int, size: int) -> None:
    """Read `count * size` bytes from a plain stream socket, always into the same buffer."""
    unix = transport.startswith("ipc")
    listener = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
    listener.bind(transport.removeprefix("ipc://") if unix else ("127.0.0.1", 0))
    listener.listen()
    report.send(listener.getsockname())
    stream, _ = listener.accept()
    buffer = bytearray(max(size, 4096))
    left, start = count * size, 0.0
    while left:
        left -= stream.recv_into(buffer, min(left, len(buffer)))
        start = start or time.perf_counter()
    report.send((time.perf_counter() - start, time.process_time()))
    report.recv()


def socket_sender(endpoint: Any, count: int, size: int) -> float:
    """Write `count` buffers to a plain stream socket."""
    payload = np.zeros(size, np.uint8)
    before = time.process_time()
    with socket.socket(socket.AF_UNIX if isinstance(endpoint, str) else socket.AF_INET) as stream:
        stream.connect(endpoint)
        for _ in range(count):
            stream.sendall(payload.data)
    return time.process_time() - before


WAYS: dict[str, tuple[Receiver, Any]] = {
    "network": (network_receiver, network_sender),
    "keys": (partial(network_receiver, keys=KEYS), partial(network_sender, keys=KEYS)),
    "pyzmq": (pyzmq_receiver, pyzmq_sender),
    "socket": (socket_receiver, socket_sender),
}


def fresh(transport: str) -> str:
    """An unused endpoint to bind."""
    if transport == "tcp":
        return "tcp://127.0.0.1:0"
    return f"ipc://{tempfile.mktemp(prefix='riprap-bench-')}"


def turn(way: str, transport: str, count: int, size: int) -> tuple[float, float]:
    """One run: (seconds at the receiver, CPU seconds of both processes from the first message on)."""
    receiver, sender = WAYS[way]
    here, there = multiprocessing.Pipe()
    endpoint = fresh(transport)
    process = multiprocessing.get_context("fork").Process(target=receiver, args=(there, endpoint, count, size))
    process.start()
    try:
        cpu = sender(here.recv(), count, size)
        if not here.poll(TIMEOUT_MS / 1000):
            raise TimeoutError(f"{way} over {transport} did not end")
        seconds, receiver_cpu = here.recv()
        here.send("done")
    finally:
        process.join(10)
        if process.is_alive():
            process.kill()
        if transport == "ipc" and os.path.exists(endpoint.removeprefix("ipc://")):
            os.unlink(endpoint.removeprefix("ipc://"))
    return seconds, cpu + receiver_cpu


def throughput(total_bytes: int, repeats: int) -> None:
    """Print GB/s of the ways, in turns."""
    print(f"{'':17}" + "".join(f"{way:>10}" for way in WAYS) + "   GB/s; (CPU seconds per GB)")
    for transport, size in itertools.product(("ipc", "tcp"), SIZES):
        count = total_bytes // size
        runs = [{way: turn(way, transport, count, size) for way in WAYS} for _ in range(repeats)]
        row = f"{transport} {size >> 10:5} KiB  "
        costs = []
        for way in WAYS:
            row += f"{count * size / 1e9 / statistics.median(run[way][0] for run in runs):10.2f}"
            costs.append(statistics.median(run[way][1] for run in runs) / (count * size / 1e9))
        print(f"{row}   ({', '.join(f'{cost:.2f}' for cost in costs)})", flush=True)


def small_messages(count: int, repeats: int) -> None:
    """Print messages of 100 bytes a second."""
    for transport in ("ipc", "tcp"):
        rates = {
            way: statistics.median(count / turn(way, transport, count, 100)[0] for _ in range(repeats))
            for way in ("network", "pyzmq")
        }
        print(
            f"{transport} 100 B, messages/s: network {rates['network']:,.0f}, pyzmq {rates['pyzmq']:,.0f}", flush=True
        )


def echo(report: Connection, network: Network) -> None:
    """Answer each message with its own header, until told to end."""
    while not report.poll():
        for _, peer, header, _ in network.receive(100):
            network.reply(peer, header)
    network.close()


def pings(network: Network, link: int, count: int) -> list[float]:
    """Seconds of each round trip."""

    def ping() -> None:
        network.send(link, b"p" * 100)
        received(network)

    times = timed(ping, count)
    network.close()
    return times


def network_echo(report: Connection, transport: str) -> None:
    """Echo by sockets."""
    network = Network(MESSAGE_BYTES_MAX)
    report.send(network.bind(transport))
    network.start()
    echo(report, network)


def network_pings(report: Connection, count: int) -> list[float]:
    """Round trips by sockets."""
    network = Network(MESSAGE_BYTES_MAX)
    network.start()
    return pings(network, network.connect(report.recv(), b"ping"), count)


def channel_end(report: Connection, origin: int, sender: Any) -> Network:
    """A network with one channel, joined with that of whoever is at the other end of the pipe."""
    arena = Arena(0, 1 << 20, 1)
    network = Network(MESSAGE_BYTES_MAX, arena=arena)
    channel = Channel(arena, 0, origin, sender, MESSAGE_BYTES_MAX)
    report.send((os.getpid(), arena.descriptor, arena.token, 0, channel.tail))
    channel.join(*report.recv())
    network.attach(channel)
    return network


def channel_echo(report: Connection, _: str) -> None:
    """Echo by a channel."""
    echo(report, channel_end(report, UPSTREAM, b"ping"))


def channel_pings(report: Connection, count: int) -> list[float]:
    """Round trips by a channel."""
    return pings(channel_end(report, DOWNSTREAM, 1), 1, count)


def pyzmq_echo(report: Connection, transport: str) -> None:
    """Echo with a pyzmq ROUTER in this thread."""
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind(transport)
    report.send(router.getsockopt_string(zmq.LAST_ENDPOINT))
    while not report.poll():
        if router.poll(100):
            router.send_multipart(router.recv_multipart())
    router.context.destroy(0)


def pyzmq_pings(report: Connection, count: int) -> list[float]:
    """Round trips with a pyzmq DEALER in this thread."""
    dealer = zmq.Context().socket(zmq.DEALER)
    dealer.rcvtimeo = TIMEOUT_MS
    dealer.connect(report.recv())

    def ping() -> None:
        dealer.send(b"p" * 100)
        dealer.recv()

    times = timed(ping, count)
    dealer.context.destroy(0)
    return times


def timed(ping: Callable[[], None], count: int) -> list[float]:
    """Seconds of each of `count` calls, after a tenth as many to warm up."""
    for _ in range(count // 10):
        ping()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        ping()
        times.append(time.perf_counter() - start)
    return times


PINGS: dict[str, tuple[Callable[[Connection, str], None], Callable[[Connection, int], list[float]]]] = {
    "channel": (channel_echo, channel_pings),
    "network": (network_echo, network_pings),
    "pyzmq": (pyzmq_echo, pyzmq_pings),
}


def round_trips(way: str, transport: str, count: int) -> list[float]:
    """Seconds of each of `count` ping-pongs of 100 bytes; Network's and the channel's are of both compute threads."""
    answer, ask = PINGS[way]
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=answer, args=(there, fresh(transport)))
    process.start()
    try:
        return ask(here, count)
    finally:
        here.send("done")
        process.join(10)


def latency(count: int) -> None:
    """Print median and 99th percentile of the ping-pongs."""
    for way, transport in (("channel", "ipc"), *itertools.product(("network", "pyzmq"), ("ipc", "tcp"))):
        median, p99 = np.percentile(np.array(round_trips(way, transport, count)) * 1e6, (50, 99))
        print(f"{transport} 100 B round trip, {way}: median {median:.0f} us, p99 {p99:.0f} us", flush=True)


def main() -> None:
    """Run everything, or less of it with --quick."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one turn each")
    quick = parser.parse_args().quick
    throughput((128 if quick else 1024) << 20, 1 if quick else 5)
    small_messages(50_000 if quick else 500_000, 1 if quick else 3)
    latency(1_000 if quick else 10_000)


if __name__ == "__main__":
    main()
