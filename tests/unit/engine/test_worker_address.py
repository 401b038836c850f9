"""The address of a worker on its host."""

from __future__ import annotations

import pytest
from network_pairs import network

from riprap.codec.ids import JOB_NAME, STAGE_NAME, Incarnation, WorkerId
from riprap.engine.worker.worker import socket_name

JOB, STAGE = "j" * 64, "p" * 32


@pytest.mark.parametrize("worker", [WorkerId("sink", 0), WorkerId(STAGE, 999_999, 99)])
@pytest.mark.parametrize("job", ["j", JOB])
def test_a_worker_listens_whatever_the_names_of_its_job_and_stage(job: str, worker: WorkerId) -> None:
    assert JOB_NAME.fullmatch(job) and STAGE_NAME.fullmatch(worker.stage)
    name = socket_name(job, worker, Incarnation(1_000_000))
    assert name.startswith(f"riprap-{job}-") and name != socket_name(job, worker, Incarnation(1_000_000))
    with network() as listening:
        assert listening.bind(f"ipc://@{name}") == f"ipc://@{name}"
