"""The thread that owns the client of a run: what is asked of the controller comes from it, one thing after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from riprap.codec.errors import ConfigError, RiprapError
from riprap.controller.client import Client
from riprap.engine.run.poller import Poller


class AskedClient(Client):
    """Notes who asks what; `drain` answers as it is told to."""

    def __init__(self, drain: Callable[[], None] = lambda: None) -> None:
        self._asking = threading.Lock()
        self._answer = drain
        self.asked: list[tuple[str, str]] = []
        self.looks = threading.Semaphore(0)

    def status(self, job: str) -> dict[str, Any]:
        self.asked.append(("status", threading.current_thread().name))
        self.looks.release()
        return {"phase": "RUNNING"}

    def drain(self, job: str) -> None:
        self.asked.append(("drain", threading.current_thread().name))
        self._answer()


def polled(client: AskedClient, looks: int) -> Poller:
    """The poller after so many looks, asked for a drain before the first."""
    poller = Poller(client, "job", 0.001)
    poller.wants_drain = True
    poller.start()
    for _ in range(looks):
        assert client.looks.acquire(timeout=30)
    poller.stop()
    return poller


def test_a_job_is_drained_once_and_by_the_thread_that_also_looks() -> None:
    client = AskedClient()
    poller = polled(client, 3)
    assert poller.drained
    assert [asked for asked, _ in client.asked[:3]] == ["status", "drain", "status"]
    assert {thread for _, thread in client.asked} == {"status poller"}
    poller.check()


def test_a_drain_is_asked_for_again_where_no_controller_answers() -> None:
    answers = iter([RiprapError("no controller leads", "wait")])

    def answer() -> None:
        for error in answers:
            raise error

    client = AskedClient(answer)
    assert polled(client, 4).drained
    assert sum(asked == "drain" for asked, _ in client.asked) == 2


def test_a_refused_drain_is_told_to_whoever_waits() -> None:
    def refuse() -> None:
        raise ConfigError("the job has an end", "cancel it")

    with pytest.raises(ConfigError, match="has an end"):
        polled(AskedClient(refuse), 2).check()


def test_that_there_is_no_job_is_an_answer_and_told_as_such() -> None:
    """It was forgotten, or ZooKeeper lost it: to wait for a controller that answers is no help. The run has failed."""

    class Forgotten(AskedClient):
        def status(self, job: str) -> dict[str, Any]:
            super().status(job)
            raise ConfigError("there is no job job", "choose one of the known jobs: none")

    with pytest.raises(RiprapError, match="there is no job job") as raised:
        polled(Forgotten(), 1).check()
    assert raised.value.exit_code == 1


def test_silence_of_the_controller_is_borne() -> None:
    class Silent(AskedClient):
        def status(self, job: str) -> dict[str, Any]:
            super().status(job)
            raise RiprapError("no controller leads", "wait")

    polled(Silent(), 3).check()


def test_a_client_of_two_threads_says_so_and_waits_for_neither() -> None:
    client = AskedClient()
    assert client._asking.acquire(blocking=False), "another thread asks"
    with pytest.raises(RuntimeError, match="two threads"):
        Client.status(client, "job")
