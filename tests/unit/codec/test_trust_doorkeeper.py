"""CURVE and the doorkeeper: who holds a role's key comes in under its name, nobody else is heard."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from zmq.utils import z85

from riprap.codec.trust.curve import call_with, serve_with
from riprap.codec.trust.doorkeeper import Doorkeeper, roles_of, sender_of
from riprap.codec.trust.keys import AGENT, BACKUP, CLIENT, CONTROLLER, Authority, KeyPair
from riprap.codec.trust.strangers import Strangers

OURS, OTHERS = Authority(b"s" * 32), Authority(b"t" * 32)
LIFE = OURS.life("words-1a/sink.0", 1)
ROLE = roles_of(OURS, AGENT, CLIENT)
PATIENCE_MS = 120_000
HANDSHAKES = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
)


class Door:
    """A controller's socket with its doorkeeper, and callers."""

    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        serve_with(self.socket, OURS.pair(CONTROLLER), CONTROLLER)
        self.decisions: dict[bytes, str | None] = {}
        self.keeper = Doorkeeper(self.socket, lambda key: self.decisions.get(key, ROLE(key)))
        self.socket.bind("tcp://127.0.0.1:*")
        self.callers: list[zmq.Socket[bytes]] = []
        self.endpoint = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def call(self, pair: KeyPair | None, server: bytes = OURS.pair(CONTROLLER).public) -> zmq.Socket[bytes]:
        """A caller that has said "hello"; without a key, in plain ZMTP."""
        caller = self.context.socket(zmq.DEALER)
        caller.setsockopt(zmq.LINGER, 0)
        if pair is not None:
            call_with(caller, pair, server)
        caller.get_monitor_socket(HANDSHAKES)  # before anything can happen
        caller.connect(self.endpoint)
        caller.send(b"hello")
        self.callers.append(caller)
        return caller

    def heard(self) -> tuple[bytes, str]:
        assert self.socket.poll(PATIENCE_MS), "nothing came"
        _, frame = self.socket.recv_multipart(copy=False)
        return frame.bytes, sender_of(frame)


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    yield made
    made.keeper.close()
    made.context.destroy(linger=0)


@pytest.mark.parametrize("role", [AGENT, CLIENT])
def test_who_holds_a_key_comes_under_the_name_of_its_role(door: Door, role: str) -> None:
    door.call(OURS.pair(role))
    assert door.heard() == (b"hello", role)


def failed_handshake(caller: zmq.Socket[bytes]) -> None:
    """Wait until the caller's handshake has failed."""
    monitor = caller.get_monitor_socket(HANDSHAKES)
    assert monitor.poll(PATIENCE_MS), "nothing happened"
    event = int.from_bytes(monitor.recv_multipart()[0][:2], "little")
    caller.disable_monitor()
    assert event != zmq.EVENT_HANDSHAKE_SUCCEEDED


@pytest.mark.parametrize("pair", [OURS.pair(BACKUP), OTHERS.pair(AGENT), LIFE])
def test_other_keys_are_refused_and_their_origin_is_logged_once(
    door: Door, pair: KeyPair, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            failed_handshake(door.call(pair))
    door.call(OURS.pair(AGENT))
    assert door.heard() == (b"hello", AGENT), "and nothing of theirs before it"
    assert door.keeper.refused >= 2
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("refused a connection from 127.0.0.1, whose key is nobody's")


@pytest.mark.parametrize(
    ("pair", "server"),
    [(None, b""), (OTHERS.pair(AGENT), OTHERS.pair(CONTROLLER).public)],
    ids=["in plain", "with another server's key"],
)
def test_who_does_not_know_the_servers_key_cannot_even_begin(
    door: Door, pair: KeyPair | None, server: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        failed_handshake(door.call(pair, server))
        door.call(OURS.pair(CLIENT))
        assert door.heard() == (b"hello", CLIENT)
    door.keeper.close()
    assert door.keeper.refused >= 1
    said, in_all = [record.getMessage() for record in caplog.records]
    assert in_all == f"refused {door.keeper.refused} connections in all"
    said = said.removeprefix("refused a connection from somebody ").removesuffix(" (further ones are counted)")
    assert said.removesuffix(" who showed none of our keys") in {"from 127.0.0.1", f"at {door.endpoint}"}


def test_who_is_not_known_yet_waits_for_the_decision(door: Door) -> None:
    """As a worker whose peer has not been told of its new life: it comes in at once when that is known."""
    early, late = OURS.life("words-1a/sink.0", 2), OURS.life("words-1a/sink.0", 3)
    for pair in (early, late):
        door.decisions[z85.decode(pair.public)] = None
    waiting = door.call(early)
    door.call(late)
    door.call(OURS.pair(AGENT))
    assert door.heard() == (b"hello", AGENT) and not door.socket.poll(0) and door.keeper.refused == 0
    assert not waiting.get_monitor_socket(HANDSHAKES).poll(0), "neither in nor refused"
    door.decisions[z85.decode(late.public)] = "sink.0#3"
    door.keeper.look_again()
    assert door.heard() == (b"hello", "sink.0#3")
    door.decisions[z85.decode(early.public)] = ""
    door.keeper.look_again()
    failed_handshake(waiting)
    assert door.keeper.refused == 1


def test_a_silent_stranger_is_told_by_its_address_or_its_user(door: Door) -> None:
    """Who had not gone when its origin was looked up; of others the endpoint is told, to which they came."""
    guarded = door.context.socket(zmq.ROUTER)
    serve_with(guarded, OURS.pair(BACKUP), BACKUP)
    strangers = Strangers(guarded)
    bound = guarded.bind_to_random_port("tcp://127.0.0.1")
    name = f"riprap-test-{os.getpid()}-{bound}"
    guarded.bind(f"ipc://@{name}")
    for family, address, origin in (
        (socket.AF_INET, ("127.0.0.1", bound), "from 127.0.0.1"),
        (socket.AF_UNIX, f"\0{name}", f"from user {os.geteuid()} of this host"),
    ):
        with socket.socket(family) as caller:
            caller.connect(address)
            assert strangers.monitor.poll(PATIENCE_MS)
            assert strangers.take() == [], "it has said nothing yet"
            caller.send(b"\xff" * 64)
            failures: list[str] = []
            while not failures:
                assert strangers.monitor.poll(PATIENCE_MS)
                failures = strangers.take()
            assert failures == [origin]
    with socket.socket() as caller:
        caller.connect(("127.0.0.1", bound))
        caller.send(b"\xff" * 64)
        assert caller.recv(1000) is not None
        while caller.recv(1000):
            pass
    failures = []
    while not failures:
        assert strangers.monitor.poll(PATIENCE_MS)
        failures = strangers.take()
    assert failures == [f"at tcp://127.0.0.1:{bound}"], "it was over before anybody looked"
    strangers.close()


def test_a_false_server_gets_nothing_of_a_caller(door: Door) -> None:
    """Somebody listens where the controller should: without its key there is no handshake."""
    false = door.context.socket(zmq.ROUTER)
    serve_with(false, OTHERS.pair(CONTROLLER), CONTROLLER)
    false.bind("tcp://127.0.0.1:*")
    caller = door.context.socket(zmq.DEALER)
    caller.setsockopt(zmq.LINGER, 0)
    call_with(caller, OURS.pair(CLIENT), OURS.pair(CONTROLLER).public)
    caller.get_monitor_socket(HANDSHAKES)
    caller.connect(false.getsockopt_string(zmq.LAST_ENDPOINT))
    caller.send(b"hello")
    failed_handshake(caller)
    assert not false.poll(0)


def timers(port: int) -> list[str]:
    """The timer of each established connection that came in at a port (proc_net_tcp(5)): "02" keeps it alive."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [fields[5].partition(":")[0] for fields in lines if fields[1].endswith(f":{port:04X}") and fields[3] == "01"]


def test_a_caller_that_vanishes_with_its_host_is_noticed(door: Door) -> None:
    """A server that says nothing first would keep its connection for ever, and run out of descriptors one day."""
    door.call(OURS.pair(AGENT))
    door.socket.recv_multipart()
    port = int(door.endpoint.rpartition(":")[2])
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while (found := timers(port)) == ["01"] and time.monotonic() < deadline:
        time.sleep(0.01)  # what was sent last is not acknowledged yet
    assert found == ["02"]
