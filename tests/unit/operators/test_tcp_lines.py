"""Lines over TCP: what comes, connections that are lost, and lines without an end."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from riprap.operators.inputs import tcp_lines
from riprap.operators.inputs.tcp_lines import BACK_OFF_MAX_S, BACK_OFF_S, TcpLines, addresses_of


class Client:
    """The input under test, its clock, and what it reported."""

    def __init__(self, port: int) -> None:
        self.now = 0.0
        self.events: list[str] = []
        self.fields: list[dict[str, Any]] = []
        self.input = TcpLines(("127.0.0.1", port), self._note, lambda: self.now)

    def _note(self, event: str, **fields: Any) -> None:
        self.events.append(event)
        self.fields.append(fields)

    def take(self, rest: bool = False, lines: int = 100, nbytes: int = 100) -> list[str]:
        some = self.input.take(lines, nbytes, rest)
        if some is None:
            return []
        text, ends = some.text.tobytes(), some.offsets.tolist()
        return [text[a:b].decode() for a, b in itertools.pairwise(ends)]

    def until(self, wanted: str) -> None:
        """Take nothing until an event was reported."""
        deadline = time.monotonic() + 20
        while wanted not in self.events:
            assert not self.take() and time.monotonic() < deadline

    def lines(self, count: int, rest: bool = False) -> list[str]:
        """So many lines, however they come."""
        found, deadline = [], time.monotonic() + 20
        while len(found) < count:
            found += self.take(rest)
            assert time.monotonic() < deadline, found
        return found


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        yield listening


@pytest.fixture
def client(server: socket.socket) -> Client:
    return Client(server.getsockname()[1])


def test_lines_come_whole_and_in_order(server: socket.socket, client: Client) -> None:
    client.until("input_connected")
    peer, _ = server.accept()
    with peer:
        peer.sendall(b"one\ntw")
        assert client.lines(1) == ["one"]
        peer.sendall(b"o\r\n\nthree\nfour")
        assert client.lines(2) == ["two", "three"]
        assert client.lines(1, rest=True) == ["four"]


def test_it_takes_no_more_lines_than_are_asked_for(server: socket.socket, client: Client) -> None:
    client.until("input_connected")
    peer, _ = server.accept()
    with peer:
        peer.sendall(b"1\n2\n3\n4\n5\n")
        assert client.lines(1) and client.events == ["input_connected"]


def test_after_a_loss_it_connects_again_and_the_torn_line_is_reported(server: socket.socket, client: Client) -> None:
    client.until("input_connected")
    peer, _ = server.accept()
    with peer:
        peer.sendall(b"one\ntor")
    assert client.lines(1) == ["one"]
    client.until("input_disconnected")
    assert client.events == ["input_connected", "input_rest_dropped", "input_disconnected"]
    assert client.fields[1]["bytes"] == 3
    client.events.clear()
    assert not client.take() and not client.events  # it waits
    client.now += BACK_OFF_S
    client.until("input_connected")
    peer, _ = server.accept()
    with peer:
        peer.sendall(b"two\n")
        assert client.lines(1) == ["two"]


def test_it_tries_less_and_less_often_and_reports_a_missing_server_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    client, tries = Client(port), []
    made = tcp_lines.TcpLines._try

    def noted(self: TcpLines) -> None:
        tries.append(client.now)
        made(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tcp_lines.TcpLines, "_try", noted)
        while client.now < 60:
            client.take()
            client.now += 0.05
    waits = [b - a for a, b in itertools.pairwise(tries)]
    assert waits == sorted(waits) and len(tries) < 20 and waits[-1] < BACK_OFF_MAX_S + 0.2
    assert client.events == ["input_disconnected"]


def test_a_line_without_an_end_is_dropped_and_reported(
    server: socket.socket, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_lines, "LINE_BYTES_MAX", 1000)
    client.until("input_connected")
    peer, _ = server.accept()
    with peer:
        peer.sendall(b"one\n" + b"x" * 5000)
        assert client.lines(1) == ["one"]
        client.until("input_line_dropped")
        peer.sendall(b"x" * 5000 + b"\ntwo\n")
        assert client.lines(1) == ["two"]
    assert client.events.count("input_line_dropped") == 1


@pytest.mark.parametrize("path", ["tcp://host", "tcp://:9", "tcp://a:0", "tcp://a:70000", "udp://a:9", "tcp://a:9,b:9"])
def test_what_is_no_address_is_told(path: str) -> None:
    assert addresses_of(path) is None


def test_addresses_are_separated_by_commas() -> None:
    assert addresses_of("tcp://a:9,tcp://[::1]:10") == [("a", 9), ("::1", 10)]
