"""When a worker tells its agent of its progress."""

from __future__ import annotations

import socket
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from riprap.controller.messages import CHANNEL_BYTES_MAX, unpack
from riprap.engine.flow.scheme import SavedPart
from riprap.engine.worker.control import ControlChannel
from riprap.engine.worker.worker import CALM_TURNS, Worker


def test_a_worker_with_nothing_to_do_beats_seldom_but_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000  # in tenths of a second
    monkeypatch.setattr("riprap.engine.worker.worker.time", SimpleNamespace(monotonic=lambda: clock))
    worker: Any = SimpleNamespace(turns=0, heartbeats=0, _beaten=(0, 0.0), _calm_s=4)
    worker._beat = partial(Worker._beat, worker)
    worker._watch_call, worker.progress = lambda turns, now: None, lambda: {"beat": worker.heartbeats}
    sent = []
    for turns in (CALM_TURNS + 1, 0, 1, 1, 1, 0, CALM_TURNS + 1, 50):
        worker.turns += turns
        sent.append(Worker.heartbeat(worker) is not None)
        clock += 1
    assert sent == [True, False, False, False, True, False, True, True]


def test_a_part_that_is_safe_is_told_at_once_and_once_and_is_a_heartbeat() -> None:
    told: list[Any] = []
    channel, task = SimpleNamespace(send=told.append), SimpleNamespace(part=SavedPart(1, 0, 0.0, 0.0))
    worker: Any = SimpleNamespace(turns=7, heartbeats=0, _part_told=0, task=task, channel=channel)
    worker._beat = partial(Worker._beat, worker)
    worker.progress = lambda: {"beat": worker.heartbeats, "checkpoint": task.part.number}
    for _ in range(2):
        Worker._say_what_is_safe(worker)
    assert told == [{"beat": 1, "checkpoint": 1}] and worker._beaten[0] == 7


def test_the_next_heartbeat_is_due_after_whatever_was_said_last(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel, waits, clock = ControlChannel(here.detach()), [], 1000.0
    beats = iter([{"type": "progress"}, None])

    def select(sockets: Any, _: Any, __: Any, wait_s: float) -> tuple[list[Any], list[Any], list[Any]]:
        """Time passes until then; meanwhile the compute thread says something, once."""
        nonlocal clock
        waits.append(round(wait_s, 3))
        if len(waits) == 2:
            clock += 0.07
            channel.send({"type": "progress"})
            wait_s -= 0.07
        clock += wait_s + 1e-9
        if len(waits) == 5:
            channel.stop()
        return [], [], []

    monkeypatch.setattr("riprap.engine.worker.control.select", SimpleNamespace(select=select))
    monkeypatch.setattr("riprap.engine.worker.control.time", SimpleNamespace(monotonic=lambda: clock))
    channel._run(lambda: next(beats, None), lambda: None, 0.3)
    there.close()
    assert waits == [0.1, 0.1, 0.07, 0.3, 0.3]


def test_a_heartbeat_never_says_less_than_what_was_sent_before_it() -> None:
    """The launcher reads the model from what a sink said last."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = ControlChannel(here.detach())
    begun, go_on = threading.Event(), threading.Event()

    def progress() -> dict[str, Any]:
        begun.set()
        go_on.wait(120)
        return {"type": "progress"}

    channel.start(progress, lambda: None)
    assert begun.wait(120)
    teller = threading.Thread(target=channel.send, args=({"type": "done"},))
    teller.start()
    teller.join(0.2)
    go_on.set()
    said = [unpack(there.recv(CHANNEL_BYTES_MAX), CHANNEL_BYTES_MAX)["type"] for _ in range(2)]
    channel.stop()
    for thread in (teller, *(thread for thread in threading.enumerate() if thread.name == "control")):
        thread.join(120)  # before the socket closes: the control thread would take that for the agent's end
    there.close()
    assert said == ["progress", "done"]


@pytest.mark.parametrize("take", [ControlChannel.receive, ControlChannel.poll])
@pytest.mark.parametrize("unread", [False, True], ids=["after reading all", "with something unread"])
def test_an_agent_that_is_gone_is_the_end_of_the_channel(take: Any, unread: bool) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = ControlChannel(here.detach())
    channel.send({"type": "progress"})
    if not unread:
        there.recv(CHANNEL_BYTES_MAX)
    there.close()
    with pytest.raises(EOFError):
        take(channel)
