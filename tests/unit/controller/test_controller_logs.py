"""The log from which a job is resumed: nobody acts on a checkpoint that is not in it, on a full disk either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from core_driver import TOPOLOGY, Driver
from test_controller_savepoints import BARRIER

from riprap.codec.events import EventLog
from riprap.controller.actions import Action, Log, Persist
from riprap.controller.checkpointing import CHECKPOINTS
from riprap.controller.core import Core
from riprap.controller.errands import Errands
from riprap.controller.executor import Executor
from riprap.controller.inbox import Inbox
from riprap.controller.record import JobRecord
from riprap.controller.reports import UP
from riprap.controller.steps import restart_lost
from riprap.engine.run_directory.checkpoints import last_checkpoint


class Store:
    """A ZooKeeper that confirms all."""

    def __init__(self) -> None:
        self.records: list[JobRecord] = []

    def save(self, spec: Any, record: JobRecord, create: bool) -> None:
        self.records.append(record)


class WritingDriver(Driver):
    """Has records and logs written as a leader has."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = str(run_dir)
        self.store, self.inbox = Store(), Inbox()
        self.errands = Errands(None, self.store, self.inbox)  # type: ignore[arg-type]
        self.executor = Executor(None, self.errands, None)  # type: ignore[arg-type]
        super().__init__(topology={**TOPOLOGY, "fault_tolerance": BARRIER, "cluster": {"heartbeat_timeout_s": 1e6}})
        self.hear(source_0={"state": UP}, sink_0={"state": UP})

    def take(self, actions: list[Action]) -> None:
        self.confirm = False
        super().take(actions)
        self.executor.perform([action for action in actions if isinstance(action, Persist | Log)])
        for _ in [action for action in actions if isinstance(action, Persist)]:
            while not (things := self.inbox.take_all()):
                pass
            for kind, thing in things:
                answer = {"persisted": self.core.persisted}.get(kind, lambda name, _, now: self._failed(name, now))
                self.take(answer("job", thing.record, self.now))

    def _failed(self, name: str, now: float) -> list[Action]:
        return self.core.persist_failed(name, now)

    def save(self, number: int) -> None:
        """All workers save their parts of a checkpoint, once it is triggered."""
        self.now += 1.0
        self.hear()
        self.hear(source_0={"checkpoint": number}, sink_0={"checkpoint": number})

    @property
    def told(self) -> Any:
        return self.sent[-1]["jobs"]["job"]["view"]["checkpoint"]


def test_workers_keep_what_a_resumed_job_goes_on_from_while_its_log_finds_no_room(tmp_path: Path) -> None:
    driver = WritingDriver(tmp_path)
    driver.save(1)
    assert (driver.told, last_checkpoint(tmp_path)) == ([0, 1], 1)
    log = (tmp_path / CHECKPOINTS).rename(tmp_path / "kept")
    (tmp_path / CHECKPOINTS).mkdir()
    driver.save(2)
    driver.pass_time(1.0)
    assert driver.told == [2, 1], "they would release their parts of the first"
    (tmp_path / CHECKPOINTS).rmdir()
    log.rename(tmp_path / CHECKPOINTS)
    driver.pass_time(1.0)
    assert (driver.told[1], last_checkpoint(tmp_path)) == (2, 2)
    driver.errands.close()


def test_a_job_that_ends_meanwhile_goes_on_from_what_is_logged(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINTS).mkdir()
    driver = WritingDriver(tmp_path)
    driver.save(1)
    driver.hear(source_0={"error": "boom"})
    driver.pass_time(1.0)
    assert driver.store.records[-1].phase == "FAILED" and "job" not in driver.sent[-1]["jobs"]
    driver.errands.close()


def test_a_next_leader_logs_what_it_finds_before_anybody_hears_of_it(tmp_path: Path) -> None:
    """The one before may have been lost between the decision and its line."""
    driver = WritingDriver(tmp_path)
    driver.save(1)
    spec, record = driver.core.jobs["job"].spec, driver.store.records[-1]
    (tmp_path / CHECKPOINTS).unlink()
    (tmp_path / CHECKPOINTS).mkdir()
    driver.core = Core(2, "next", lambda topology: restart_lost, {"job": (spec, record)}, {"h1": "i1"}, driver.now)
    driver.sent.clear()
    driver.hear()
    assert not driver.sent
    (tmp_path / CHECKPOINTS).rmdir()
    driver.pass_time(1.0)
    assert (driver.told[1], last_checkpoint(tmp_path)) == (1, 1)
    driver.errands.close()


@pytest.mark.parametrize("torn", ["", '{"event": "comp'])
def test_what_is_logged_after_a_line_that_found_no_room_is_readable(tmp_path: Path, torn: str) -> None:
    (tmp_path / CHECKPOINTS).write_text(torn)
    log = EventLog(tmp_path / CHECKPOINTS)
    log.write("completed", checkpoint=3)
    log.close()
    assert last_checkpoint(tmp_path) == 3
