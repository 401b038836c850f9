"""The last word of a worker that fails: the agent hears the reason, whatever it consists of."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from riprap.controller.messages import CHANNEL_BYTES_MAX, pack, text, unpack
from riprap.engine.worker import worker


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (ValueError("bad rows: " + "0.25, " * 20_000), ["ValueError: bad rows: 0.25", " ... "]),
        (ValueError("no rows in caf\udce9.csv"), ["ValueError: no rows in caf\\udce9.csv"]),
        (ValueError("short"), ["ValueError: short"]),
    ],
    ids=["long", "no Unicode", "short"],
)
def test_the_agent_hears_the_reason_and_the_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, wanted: list[str]
) -> None:
    def fail(spec: object, channel: object) -> None:
        raise error

    monkeypatch.setattr(worker, "Worker", fail)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        here.send(pack({"type": "spec"}))
        assert worker.main(there.detach()) == 1
        message = unpack(here.recv(CHANNEL_BYTES_MAX))
    said = text(message, "error")
    assert message["type"] == "failed" and all(words in said for words in wanted)
    assert f"({Path(__file__)}:" in said and said.endswith(": raise error)"), "where it was raised stands last"
