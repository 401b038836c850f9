"""What is too large for a message: a leader that has too much to say lives on."""

from __future__ import annotations

from typing import Any

import pytest

from riprap.controller import messages
from riprap.controller.actions import Send
from riprap.controller.executor import Executor
from riprap.controller.messages import MESSAGE_BYTES_MAX


class Router:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[messages.Message] = []

    def send_multipart(self, frames: list[bytes], flags: int) -> None:
        self.sent.append(messages.unpack(frames[1]))


def desired(sequence: int, jobs: int) -> Send:
    told = {f"job{number}": {"topology": {"options": "x" * 300_000}} for number in range(jobs)}
    return Send("i1", {"type": "desired", "term": 1, "sequence": sequence, "jobs": told})


def test_a_leader_that_has_too_much_to_tell_an_agent_lives_and_tells_it_when_there_is_less(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As after a change of leader: each job fitted into a message of its own, and now all go into one."""
    router: Any = Router()
    executor = Executor(router, None, None)  # type: ignore[arg-type]
    executor.heard_from("i1", b"there", behind=False)
    for sequence in 1, 2:
        executor.perform([desired(sequence, 1 + MESSAGE_BYTES_MAX // 300_000)])
    assert router.sent == [] and caplog.text.count("agent i1 cannot be told of its jobs") == 1
    executor.perform([desired(3, 2)])
    assert router.sent[0]["whole"].keys() == {"job0", "job1"}
