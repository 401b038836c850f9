"""What a worker is shown: its peers, once all of them are known, and of them what has changed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from riprap.controller import channel
from riprap.controller.child import Child
from riprap.controller.reports import WorkerReport


class Worker:
    """A worker's end of its channel."""

    def __init__(self) -> None:
        ours, self.end = channel.pair()
        self.end.setblocking(False)
        self.child = Child(WorkerReport("job", "processor.0", 1), ours, 1)

    def says(self, **message: Any) -> None:
        channel.send(self.end, message)
        self.child.hear()
        self.child.flush()

    def shown(self) -> list[Any]:
        """Phase and changes of each view since the last look."""
        views = []
        while True:
            try:
                received = channel.receive(self.end)
            except BlockingIOError:
                return views
            assert received is not None
            views.append((received[0]["phase"], received[0]["workers"]))


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.child.exited(0)
    worker.end.close()


def entry(incarnation: int, state: str = "up") -> dict[str, Any]:
    return {"incarnation": incarnation, "state": state}


def view(revision: int, phase: str = "DEPLOYING", **workers: Any) -> dict[str, Any]:
    names = {name.replace("_", "."): state for name, state in workers.items()}
    return {"revision": revision, "phase": phase, "workers": names}


ALL = {"source_0": entry(1), "processor_0": entry(1), "processor_1": entry(1), "sink_0": entry(1)}


def test_a_worker_is_shown_itself_and_its_peers(worker: Worker) -> None:
    worker.child.show(view(1, **ALL))
    assert worker.shown() == [], "it has not said who they are"
    worker.says(type="ready", ipc="", peers=["source.0", "sink.0"])
    assert worker.shown() == [("DEPLOYING", {name: entry(1) for name in ("processor.0", "source.0", "sink.0")})]


def test_then_what_has_changed_of_them(worker: Worker) -> None:
    worker.says(type="ready", ipc="", peers=["source.0", "sink.0"])
    worker.child.show(view(1, **ALL))
    worker.shown()
    worker.child.show(view(2, **ALL | {"processor_1": entry(1, "down")}))
    worker.child.show(view(3, **ALL | {"sink_0": entry(1, "down")}))
    worker.child.show(view(4, "RUNNING", **ALL | {"sink_0": entry(1, "down")}))
    assert worker.shown() == [("DEPLOYING", {"sink.0": entry(1, "down")}), ("RUNNING", {})]
    assert worker.child.revision == 4


def test_nothing_before_all_its_peers_are_known(worker: Worker) -> None:
    worker.says(type="ready", ipc="", peers=["source.0", "sink.0"])
    worker.child.show(view(1, "RUNNING", processor_0=entry(1), source_0=entry(1)))
    assert worker.shown() == [], "it would begin without its sink"
    worker.child.show(view(1, "RUNNING", **ALL))
    ((phase, shown),) = worker.shown()
    assert (phase, len(shown)) == ("RUNNING", 3)


def test_one_that_names_no_peers_is_shown_all(worker: Worker) -> None:
    worker.says(type="ready", ipc="")
    worker.child.show(view(1, **ALL))
    ((_, shown),) = worker.shown()
    assert len(shown) == 4


def test_what_found_the_channel_full_is_told_together_later(worker: Worker) -> None:
    worker.says(type="ready", ipc="", peers=["sink.0"])
    worker.child.channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    for revision in range(1, 1000):
        worker.child.show(view(revision, **ALL | {"sink_0": entry(revision)}))
    before = worker.shown()
    assert len(before) < 500
    worker.child.flush()
    assert worker.shown() == [("DEPLOYING", {"sink.0": entry(999)})]


def test_peers_of_another_kind_are_no_message(worker: Worker) -> None:
    worker.says(type="ready", ipc="", peers="sink.0")
    assert worker.child.report.peers is None


def test_keys_of_the_backup_servers_reach_a_worker_whose_channel_was_full(worker: Worker) -> None:
    sent = 0
    while worker.child._send({"type": "filler", "of": "x" * 1000}):
        sent += 1
    worker.child.tell_keys([b"o" * 40])
    worker.child.tell_keys([b"o" * 40, b"n" * 40])
    for _ in range(sent):
        channel.receive(worker.end)
    worker.child.flush()
    worker.child.flush()
    received = channel.receive(worker.end)
    assert received is not None and received[0] == {"type": "keys", "servers": [b"o" * 40, b"n" * 40]}
    assert worker.shown() == [], "the newest, once"
