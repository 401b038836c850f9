"""What an agent starts and reports, with processes that are descriptors: no incarnation twice, no exit unreported."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from riprap.codec.errors import FrameError
from riprap.controller import channel
from riprap.controller.children import PAST_ROWS_MAX, SPARES_MAX, Children
from riprap.controller.deltas import Writer
from riprap.controller.effects import Effects
from riprap.controller.faults import Fault, When
from riprap.controller.reports import EXITED
from riprap.controller.spawner import Exited, Spawner, Started
from riprap.controller.starts import JOBS_MAX, Starts
from riprap.controller.wish import Wish, Wishes, read_wish

WORKERS = [f"processor.{index}" for index in range(40)]


class Processes:
    """Stands in for a spawner: each order is a process at once, whose pidfd is an event that `end` sets."""

    def __init__(self) -> None:
        self.spares = 2
        self.pidfds: dict[int, int] = {}
        self.ends: dict[int, socket.socket] = {}
        self._said: list[Started | Exited] = []
        self._orders = 0

    def start(self, log: str, worker_end: socket.socket) -> int:
        self._orders += 1
        self.ends[self._orders] = worker_end
        pidfd = os.eventfd(0)
        self.pidfds[self._orders] = os.dup(pidfd)
        self._said.append(Started(self._orders, self._orders, pidfd))
        return self._orders

    def keep_spares(self, count: int) -> None:
        self.spares = count

    def events(self, wait_s: float = 0.0) -> list[Started | Exited]:
        said, self._said = self._said, []
        return said

    def end(self, pid: int) -> None:
        os.eventfd_write(self.pidfds[pid], 1)
        self._said.append(Exited(pid, -9))


class Host:
    """An agent's children, and what a leader would say to them."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.processes = Processes()
        self.deaths = 0
        self.children = Children(cast(Spawner, self.processes), "h", "", die=self.die)

    def want(self, workers: Mapping[str, int], submission: str = "first", **changes: Any) -> None:
        view = {"revision": 1, "phase": "RUNNING", "workers": {}}
        job = {"submission": submission, "run_dir": str(self.run_dir), "workers": dict(workers), "view": view}
        self.children.want({"job": read_wish(job | changes)})
        self.children.hear()

    def saves(self, pid: int, checkpoint: int) -> bool:
        """A worker says that its part is safe; True when the agent would report at once."""
        channel.send(self.processes.ends[pid], {"type": "progress", "beat": 1, "checkpoint": checkpoint, "stats": {}})
        return self.children.hear()

    def die(self) -> None:
        self.deaths += 1

    def end_all(self) -> None:
        for row in self.children.rows():
            if row.state != EXITED:
                self.processes.end(row.pid)
        self.children.hear()

    def started(self) -> list[tuple[str, int]]:
        return [(row.worker, row.incarnation) for row in self.children.rows()]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    host.end_all()
    for pidfd in host.processes.pidfds.values():
        os.close(pidfd)
    for end in host.processes.ends.values():
        end.close()


def test_every_exit_is_reported_however_many_come_at_once(host: Host) -> None:
    first = dict.fromkeys(WORKERS, 1)
    host.want(first)
    host.end_all()
    host.want(first)  # the report was lost, and the leader says the same again
    rows = host.children.rows()
    assert [(row.worker, row.incarnation, row.state, row.status) for row in rows] == [
        (worker, 1, EXITED, -9) for worker in WORKERS
    ]


def test_parts_of_a_checkpoint_are_reported_with_the_last_of_them(host: Host) -> None:
    host.want(workers_of(3))
    pids = [row.pid for row in host.children.rows()]
    tells = [host.saves(pid, 1) for pid in pids]
    assert tells == [False, False, True] and host.saves(pids[0], 2) is False
    host.processes.end(pids[1])
    assert host.children.hear(), "an exit is reported at once, and with it what has been saved"
    assert host.saves(pids[2], 2), "who has ended is waited for no longer"
    moments = [row.saved_at for row in host.children.rows() if row.checkpoint == 2]
    assert None not in moments and moments == sorted(moments), "in the order in which they were heard"


def test_views_alone_are_nothing_to_report_at_once(host: Host) -> None:
    def want(revision: int, stopping: bool = False) -> bool:
        view = {"revision": revision, "phase": "RUNNING", "workers": {}, "checkpoint": [revision, 0]}
        job = {"submission": "first", "run_dir": str(host.run_dir), "workers": workers_of(2), "view": view}
        has_orders = host.children.want({"job": read_wish(job | {"stopping": stopping})})
        host.children.hear()
        return has_orders

    assert want(1) and not want(2) and want(3, stopping=True) and not want(4, stopping=True)
    host.end_all()
    assert host.children.want({})


def test_rows_that_the_leader_has_acted_on_are_bounded(host: Host) -> None:
    host.want(dict.fromkeys(WORKERS, 1))
    host.end_all()
    host.want(dict.fromkeys(WORKERS, 2))
    past = [incarnation for _, incarnation in host.started() if incarnation == 1]
    assert (len(past), len(host.started())) == (PAST_ROWS_MAX, PAST_ROWS_MAX + len(WORKERS))


def test_a_fault_in_a_host_is_for_its_agent_too_and_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    hit: list[str] = []
    monkeypatch.setattr(Effects, "inject", lambda self, fault, victim: hit.append(fault.target))
    fault = Fault("kill", "sink.0", When("epoch", 1))
    order = {"number": 0, "incarnation": 1, "fault": fault.fields()}
    host.want({"sink.0": 1})
    host.want({"sink.0": 1}, faults=[order])
    assert host.deaths == 0, "of the worker alone"
    host.want({"sink.0": 1}, faults=[order | {"number": 1, "with_agent": True, "incarnation": 2}])
    assert host.deaths == 0, "of an incarnation that is not here"
    for _ in range(2):
        host.want({"sink.0": 1}, faults=[order | {"number": 1, "with_agent": True}])
    assert host.deaths == 1 and hit == ["sink.0", "sink.0"]


def test_the_logs_of_workers_are_bounded(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riprap.controller.children.LOG_BYTES_MAX", 10)
    monkeypatch.setattr("riprap.controller.children.LOGS_EVERY_S", 0.0)
    worker = next(iter(WORKERS))
    host.want(dict.fromkeys(WORKERS, 1))
    log = host.run_dir / "logs" / f"{worker}.log"
    log.write_text("far too much\n")
    host.children.hear()
    assert (log.read_text(), log.with_name(f"{worker}.log.old").read_text()) == ("", "far too much\n")


def test_an_incarnation_whose_row_is_gone_is_not_started_again(host: Host) -> None:
    for incarnation in (1, 2, 3):
        host.want(dict.fromkeys(WORKERS, incarnation))
        host.end_all()
    orders = len(host.processes.pidfds)
    host.want(dict.fromkeys(WORKERS, 1))  # a leader that has read an old record
    host.want({})
    host.want(dict.fromkeys(WORKERS, 2))
    assert len(host.processes.pidfds) == orders == 3 * len(WORKERS)


def test_another_submission_of_the_job_counts_anew(host: Host) -> None:
    host.want({"sink.0": 1})
    host.end_all()
    host.want({"sink.0": 1}, submission="second")
    assert len(host.processes.pidfds) == 2


def test_spares_are_a_share_of_the_tasks(host: Host) -> None:
    counts = []
    for tasks in (1, 40, 4000, 4):
        host.children.want({"job": Wish("s", str(host.run_dir), {}, workers_of(tasks), True, {"workers": {}})})
        counts.append(host.processes.spares)
    assert counts == [2, 10, SPARES_MAX, 2]


def workers_of(tasks: int) -> dict[str, int]:
    return {f"processor.{index}": 1 for index in range(tasks)}


def test_what_was_started_is_forgotten_of_the_oldest_jobs_only() -> None:
    starts = Starts()
    for number in range(JOBS_MAX + 1):
        starts.ask_for({"kept": "s", f"job{number}": "s"})
        if number in (0, 1):
            starts.note(f"job{number}", "sink.0", 1)
    starts.note("kept", "sink.0", 1)
    assert not starts.may("kept", "sink.0", 1)
    starts.ask_for({"job0": "s", "kept": "s"})
    assert starts.may("job0", "sink.0", 1) and not starts.may("kept", "sink.0", 1)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"workers": {"../../etc/cron.d/evil": 1}}, "not a worker id"),
        ({"workers": {"processor.1\n": 1}}, "not a worker id"),
        ({"run_dir": "relative"}, "not an absolute path"),
        ({"run_dir": "/runs/\0"}, "cannot be printed"),
    ],
)
def test_names_that_would_lead_elsewhere_are_refused(host: Host, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(FrameError, match=complaint):
        host.want(changes.pop("workers", {}), **changes)
    assert host.started() == []


def test_a_job_name_that_is_none_is_refused() -> None:
    job = {"run_dir": "/r", "view": {"revision": 1, "phase": "RUNNING"}}
    message = {"type": "desired", "term": 1, **Writer().encode(1, {"../evil": job})}
    with pytest.raises(FrameError, match=r"'../evil' is not a job name"):
        Wishes().take(message)


@pytest.mark.parametrize("kind", ["a link", "a folder of another", "a log that is a link", "outside"])
def test_nothing_is_written_where_others_decide(host: Host, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    target.mkdir()
    host.run_dir = tmp_path / "run"
    if kind == "a link":
        host.run_dir.symlink_to(target)
    elif kind == "a folder of another":
        host.run_dir.mkdir()
        os.chown(host.run_dir, 65534, -1)
    elif kind == "a log that is a link":
        (host.run_dir / "logs").mkdir(parents=True)
        (host.run_dir / "logs/processor.0.log").symlink_to(target / "planted")
    else:
        host.children = Children(cast(Spawner, host.processes), "h", "", str(target))
    host.want({"processor.0": 1})
    (row,) = host.children.rows()
    assert row.state == EXITED and "its log cannot be written" in row.error and "of the agent's user" in row.remedy
    assert list(target.iterdir()) == [] and host.processes.pidfds == {}
