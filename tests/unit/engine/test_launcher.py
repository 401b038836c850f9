"""The launcher of a program's job: its last message is its end, whatever the program does once it has that."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from riprap.codec.errors import ConfigError
from riprap.controller import channel
from riprap.engine.api import launcher, messages


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, launcher._interrupt)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_refusal_is_the_end_also_for_a_program_that_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def send(end: socket.socket, message: Any) -> None:
        told.append(message)
        signal.raise_signal(signal.SIGTERM)  # as of the thread that sees the program gone

    monkeypatch.setattr(channel, "send", send)
    ours, theirs = channel.pair()
    with ours, theirs:
        launcher.Launcher(theirs)._tell_last({"type": messages.REFUSED, **messages.of_error(ConfigError("no", "yes"))})
    assert [message["type"] for message in told] == [messages.REFUSED]
