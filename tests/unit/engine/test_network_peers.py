"""The network and bad peers: killed, stopped, talking nonsense."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
import zmq
from network_pairs import DEADLINE_S, await_that, listener, network, receive

from riprap.engine.wire._message import live

RECEIVER = """
import sys
from riprap.engine.wire.network import Network
network = Network(1 << 24)
print(network.bind(sys.argv[1]), flush=True)
network.start()
got = 0
while True:
    for _, peer, header, frames in network.receive(60_000):
        got += 1
        network.reply(peer, b"%d" % got)
"""

SENDER = """
import sys
from riprap.engine.wire.network import Network
network = Network(1 << 24)
network.start()
link = network.connect(sys.argv[1], b"victim")
while True:
    if not network.send(link, b"header", [b"x" * 100_000, b"y" * 100_000]):
        network.receive(1)
"""


@contextmanager
def child(script, endpoint):
    """A process that runs one end; killed in the end."""
    process = subprocess.Popen([sys.executable, "-c", script, endpoint], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("transport", [f"ipc://@riprap-killed-{os.getpid()}", "tcp://127.0.0.1:0"], ids=["ipc", "tcp"])
def test_sending_to_a_killed_peer_never_blocks_and_disconnecting_drops_it(transport):
    array = np.zeros(256 * 1024, np.uint8)
    with child(RECEIVER, transport) as process, network() as sender:
        bound = process.stdout.readline().strip()
        sender.start()
        link = sender.connect(bound, b"sender")
        assert sender.send(link, b"h", [array])
        receive(sender, 1)
        accepted = 0
        for number in range(1000):
            if number == 100:
                process.kill()
            accepted += sender.send(link, b"h", [array])
        process.wait()
        assert accepted == 1000
        sender.disconnect(link)
        while live()[1]:
            sender.receive(1)
        assert not sender.counters()["dropped"]["unroutable"]
        sender.send(link, b"h", [array])
        await_that(lambda: sender.counters()["dropped"]["unroutable"] == 1)


def test_sending_to_a_stopped_peer_returns_at_once_and_all_arrives_when_it_goes_on():
    array = np.zeros(256 * 1024, np.uint8)
    count = 1000  # far more than the sockets between hold
    with child(RECEIVER, f"ipc://@riprap-stopped-{os.getpid()}") as process, network() as sender:
        sender.start()
        link = sender.connect(process.stdout.readline().strip(), b"sender")
        assert sender.send(link, b"h", [array])
        receive(sender, 1)
        process.send_signal(signal.SIGSTOP)
        for _ in range(count):
            assert sender.send(link, b"h", [array])
        assert sender.receive(0) == []
        assert live()[1] > count // 2
        process.send_signal(signal.SIGCONT)
        assert [int(message[2]) for message in receive(sender, count)] == list(range(2, count + 2))


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_a_sender_killed_in_the_middle_of_a_message_leaves_only_whole_ones(transport):
    with listener(transport) as (receiver, bound):
        with child(SENDER, bound) as process:
            messages = receive_at_least(receiver, 50)
            process.kill()
            process.wait()
        while batch := receiver.receive(100):
            messages += batch
        for _, peer, header, frames in messages:
            assert (peer, header) == (b"victim", b"header")
            assert [bytes(frame) for frame in frames] == [b"x" * 100_000, b"y" * 100_000]
        with network() as other:
            other.start()
            assert other.send(other.connect(bound, b"other"), b"good")
            assert receive(receiver, 1)[0][1:3] == (b"other", b"good")


def receive_at_least(receiver, count):
    messages = []
    while len(messages) < count:
        messages += receiver.receive(1000)
    return messages


@contextmanager
def stranger(bound):
    """A raw pyzmq socket that may send anything."""
    context = zmq.Context()
    try:
        dealer = context.socket(zmq.DEALER)
        dealer.routing_id = b"stranger"
        dealer.connect(bound)
        yield dealer
    finally:
        context.destroy(0)


BOUND = 10_000
GARBAGE = [
    ("too_many_frames", [b"h"] + [b""] * 17),
    ("too_many_frames", [b"h"] + [b"f" * 100] * 500),
    ("too_large", [b"h" * (BOUND + 1)]),
    ("too_large", [b"h"] + [b"f" * 2_500] * 4),
    ("too_large", [b"h", b"f" * (2 * BOUND)]),
    ("no_header", [b""]),
    ("no_header", [b"", b"behind a delimiter"]),
    ("no_header", [b"", b"", b"", b""]),
]


@pytest.mark.parametrize(("reason", "parts"), GARBAGE)
def test_a_malformed_message_is_dropped_and_counted_and_the_next_good_one_arrives(reason, parts):
    with listener(max_message_bytes=BOUND) as (receiver, bound), stranger(bound) as dealer:
        for _ in range(3):
            dealer.send_multipart(parts)
        dealer.send_multipart([b"h", b"f" * (BOUND - 1)])
        dealer.send_multipart([b"h"] + [b"f"] * 16)
        for count, (_, peer, header, frames) in zip((1, 16), receive(receiver, 2)):
            assert (peer, header, len(frames)) == (b"stranger", b"h", count)
        assert receiver.counters()["dropped"] == {
            "too_many_frames": 0,
            "too_large": 0,
            "no_header": 0,
            "unroutable": 0,
            "stranger": 0,
            reason: 3,
        }
        assert receiver.counters()["upstream"]["messages_in"] == 2


@pytest.mark.parametrize("parts", [[b"", b"reply"], [b"h" * (BOUND + 1)], [b"h"] + [b""] * 17])
def test_a_malformed_reply_is_dropped_too(parts):
    context = zmq.Context()
    try:
        router = context.socket(zmq.ROUTER)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        with network(BOUND) as sender:
            sender.start()
            link = sender.connect(f"tcp://127.0.0.1:{port}", b"sender")
            assert sender.send(link, b"hello")
            assert router.recv_multipart() == [b"sender", b"hello"]
            router.send_multipart([b"sender", *parts])
            router.send_multipart([b"sender", b"good"])
            assert receive(sender, 1) == [(1, link, b"good", [])]
            assert sum(sender.counters()["dropped"].values()) == 1
    finally:
        context.destroy(0)


def test_a_frame_far_over_the_bound_costs_the_connection_and_a_new_one_works():
    with listener(max_message_bytes=BOUND) as (receiver, bound), stranger(bound) as dealer:
        dealer.send_multipart([b"h", b"f" * (100 * BOUND)])
        messages = []
        while not messages:
            dealer.send_multipart([b"good"])
            messages = receiver.receive(20)
        assert {message[2] for message in messages} == {b"good"}


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_a_peer_whose_connection_broke_is_heard_again_while_what_it_sent_before_is_unread(transport):
    with listener(transport, receive_capacity=2) as (receiver, bound):
        with stranger(bound) as dealer:
            for _ in range(500):
                dealer.send_multipart([b"before"])
            await_that(lambda: receiver.counters()["upstream"]["messages_in"] == 3)  # two, and the one that waits
            dealer.close(linger=-1)  # leaves when all is sent
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.linger, dealer.routing_id = 0, b"stranger"
            monitor = dealer.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
            dealer.connect(bound)
            assert monitor.poll(DEADLINE_S * 1000)
            dealer.disable_monitor()
            dealer.send_multipart([b"again"])
            names = {}
            deadline = time.monotonic() + DEADLINE_S
            while b"again" not in names:
                assert time.monotonic() < deadline, "nothing but messages from before"
                names |= {header: peer for _, peer, header, _ in receiver.receive(100)}
            assert names[b"again"] == b"stranger"
            assert receiver.reply(b"stranger", b"welcome")
            assert dealer.recv_multipart() == [b"welcome"]


@pytest.mark.parametrize(
    "noise", [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 40, b"\xff" + b"\0" * 8 + b"\x7f"]
)
def test_bytes_that_are_not_zeromq_harm_nobody(noise):
    with listener("tcp", BOUND) as (receiver, bound):
        host, port = bound.removeprefix("tcp://").split(":")
        for _ in range(20):
            with socket.create_connection((host, int(port))) as stream:
                stream.sendall(noise)
        with stranger(bound) as dealer:
            dealer.send_multipart([b"good"])
            assert [message[2] for message in receive(receiver, 1)] == [b"good"]
