"""What is too large for a message: a topology is refused, and a leader that has too much to say lives on."""

from __future__ import annotations

from typing import Any

import pytest
from core_driver import TOPOLOGY, Driver

from riprap.codec.errors import ConfigError
from riprap.controller import messages
from riprap.controller.actions import Send
from riprap.controller.executor import Executor
from riprap.controller.jobspec import TOPOLOGY_BYTES_MAX, JobSpec
from riprap.controller.messages import MESSAGE_BYTES_MAX


class Router:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[messages.Message] = []

    def send_multipart(self, frames: list[bytes], flags: int) -> None:
        self.sent.append(messages.unpack(frames[1]))


@pytest.mark.parametrize(
    "much",
    [
        pytest.param("x" * TOPOLOGY_BYTES_MAX, id="text"),
        pytest.param([0.0] * (TOPOLOGY_BYTES_MAX // 8), id="longer as msgpack"),
        pytest.param([0.12345678901234567] * (TOPOLOGY_BYTES_MAX // 18), id="longer as JSON"),
    ],
)
def test_a_topology_that_workers_could_not_be_given_is_refused(much: Any) -> None:
    driver = Driver()
    spec = JobSpec.read("large", {**TOPOLOGY, "options": much}, "/large")
    with pytest.raises(ConfigError, match=r"the topology is \d+,\d+ bytes long, and 393,216 is the most") as error:
        driver.core.submit("l", spec, driver.now)
    assert error.value.remedy and driver.core.phases().keys() == {"job"}


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
