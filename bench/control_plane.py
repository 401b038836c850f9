"""The control plane's messages and bytes, counted by kind for up to 1,000 workers: real ends, simulated processes.

    python -m bench.control_plane [--workers N ...]

One source, many processors, one sink: a worker's peers are those that `engine/flow/segment.py` gives
it. Start-up is from the submission to RUNNING, five workers getting ready between two passes of the leader. A second of
running is ten reports of every worker's progress. The last column is what it would cost to show every worker the whole
view at every pass.
"""

from __future__ import annotations

import argparse
import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, cast

from bench.runs import save, table
from riprap.codec.ids import WorkerId
from riprap.controller import messages
from riprap.controller.actions import Action, Persist, Send
from riprap.controller.child import Child
from riprap.controller.core import Core
from riprap.controller.deltas import Writer
from riprap.controller.executor import desired_message
from riprap.controller.jobspec import JobSpec
from riprap.controller.report_reader import ReportReader
from riprap.controller.reports import EXITED, UP, AgentReport, WorkerReport
from riprap.controller.steps import restart_lost_for
from riprap.controller.wish import Wishes

WORKERS = (10, 100, 1000)
READY_A_PASS = 5
BEATS_A_SECOND = 10
SILENT = {"heartbeat_timeout_s": 1e6, "startup_timeout_s": 1e6, "deployment_timeout_s": 1e6}


class Wire:
    """A worker's end of its channel: counts the messages to it."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def close(self) -> None:
        """Nothing is held."""

    def sendmsg(self, buffers: Sequence[bytes], *rest: Any) -> int:
        """One message."""
        count(self._counts, "agent to worker", buffers[0])
        return len(buffers[0])


class SimulatedAgent:
    """An agent without processes."""

    def __init__(self, host: str, counts: Counter[str], peers: dict[str, list[str]]) -> None:
        self.report = AgentReport(host, f"{host}-process", address="10.0.0.1")
        self.children: dict[tuple[str, int], Child] = {}
        self._counts, self._peers = counts, peers
        self._wishes, self._reports = Wishes(), Writer()

    def take(self, data: bytes) -> None:
        """A message of the leader: start what is new, and show the view."""
        jobs = self._wishes.take(messages.unpack(data))
        self.report.term, self.report.sequence = self._wishes.term, self._wishes.sequence
        for job in (jobs or {}).values():
            for worker, incarnation in job.workers.items():
                if (worker, incarnation) not in self.children:
                    row = WorkerReport("job", worker, incarnation, pid=1)
                    end = cast(socket.socket, Wire(self._counts))
                    self.children[worker, incarnation] = Child(row, end, 0)
            for child in self.children.values():
                child.show(job.view)

    def starting(self) -> list[Child]:
        """The workers that are not ready yet."""
        return [child for child in self.children.values() if child.report.state not in (UP, EXITED)]

    def get_ready(self, child: Child) -> None:
        """The worker says where it listens, and who its peers are."""
        row = child.report
        row.state, row.peers = UP, self._peers[row.worker]
        row.ipc = f"ipc://@riprap-job-{row.worker}-{row.incarnation}-123456789abcd"
        row.tcp = "tcp://10.0.0.1:43210"
        child.flush()

    def beat(self, number: int) -> None:
        """Every worker tells of its progress."""
        for child in self.children.values():
            row = child.report
            row.beat, row.items, row.epoch = number, number * 1000, number
            row.stats = {f"figure{n}": number + n for n in range(5)} | {f"constant{n}": 0.0 for n in range(15)}

    def message(self) -> bytes:
        """Its next report."""
        self.report.number += 1
        self.report.rows = [child.report for child in self.children.values()]
        changes = self._reports.encode(self.report.number, self.report.state())
        return messages.pack({"type": "report", "instance": self.report.instance, **changes})


class Plane:
    """A leader and its agents; `counts` has messages under a kind of message, bytes under that and ` bytes`."""

    def __init__(self, workers: int, hosts: int) -> None:
        self.counts: Counter[str] = Counter()
        stages = {"source": {"parallelism": 1}, "processor": {"parallelism": workers - 2}, "sink": {"parallelism": 1}}
        self._spec = JobSpec.read("job", {"stages": stages, "cluster": SILENT}, "/run", "first")
        peers = peers_of(self._spec.workers)
        self.agents = {f"h{n}-process": SimulatedAgent(f"h{n}", self.counts, peers) for n in range(hosts)}
        members = {agent.report.host: instance for instance, agent in self.agents.items()}
        self.core = Core(1, "leader", restart_lost_for, {}, members, 0.0)
        self._readers, self._writers = ReportReader(), {instance: Writer() for instance in self.agents}
        self.now = 0.0
        self.whole_bytes = 0
        self._told: dict[SimulatedAgent, None] = {}

    def start(self) -> None:
        """Submit the job and bring it up."""
        self._report(self.agents.values())
        self._perform(self.core.submit("ticket", self._spec, self.now))
        self.get_ready()

    def get_ready(self) -> None:
        """Let what starts get ready, some between two passes."""
        while waiting := [(agent, child) for agent in self.agents.values() for child in agent.starting()]:
            for agent, child in waiting[:READY_A_PASS]:
                agent.get_ready(child)
            self._report(dict.fromkeys(agent for agent, _ in waiting[:READY_A_PASS]))
            view = self.core.jobs["job"].view
            self.whole_bytes += len(self._spec.workers) * len(messages.pack({"type": "view", **view.of(None)}))
        assert self.core.phases() == {"job": "RUNNING"}

    def run_a_second(self) -> None:
        """Every worker makes progress, and every agent tells of it."""
        for number in range(1, BEATS_A_SECOND + 1):
            for agent in self.agents.values():
                agent.beat(number)
            self._report(self.agents.values())

    def kill(self, worker: str) -> None:
        """One worker dies and is replaced."""
        for agent in self.agents.values():
            for child in list(agent.children.values()):
                if child.report.worker == worker and child.report.state == UP:
                    child.exited(-9)
                    self._report([agent])
        self.get_ready()

    def _report(self, agents: Iterable[SimulatedAgent]) -> None:
        """One pass of the leader over the reports of these agents, and of those that have applied its last message."""
        self.now += 0.01
        told, self._told = self._told, {}
        for agent in told | dict.fromkeys(agents):
            data = agent.message()
            count(self.counts, "agent to leader", data)
            report = self._readers.read(messages.unpack(data))
            assert report is not None
            self.core.hear(report, self.now)
        self._perform(self.core.tick(self.now))

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Persist(_, record):
                    self._perform(self.core.persisted("job", record, self.now))
                case Send(instance, message):
                    data = messages.pack(desired_message(message, self._writers[instance]))
                    count(self.counts, "leader to agent", data)
                    self.agents[instance].take(data)
                    self._told[self.agents[instance]] = None


def peers_of(workers: Sequence[WorkerId]) -> dict[str, list[str]]:
    """The workers that each worker of a source, processors and a sink knows."""
    processors = [str(worker) for worker in workers if worker.stage == "processor"]
    ends = {"source.0": [*processors, "sink.0"], "sink.0": [*processors, "source.0"]}
    return ends | {name: ["source.0", "sink.0"] for name in processors}


def count(counts: Counter[str], kind: str, data: bytes) -> None:
    """One message more of a kind."""
    counts[kind] += 1
    counts[f"{kind} bytes"] += len(data)


def measure(workers: int, hosts: int) -> dict[str, Any]:
    """The counts of start-up, of a second of running, and of one death."""
    plane = Plane(workers, hosts)
    found: dict[str, Any] = {"workers": workers, "hosts": hosts}
    for name, act in (
        ("start-up", plane.start),
        ("second", plane.run_a_second),
        ("death", lambda: plane.kill("processor.1")),
    ):
        plane.counts.clear()
        act()
        found[name] = dict(plane.counts)
        if name == "start-up":
            found["whole"] = plane.whole_bytes
    return found


def per_worker(found: dict[str, Any], phase: str) -> float:
    """Bytes of all kinds of messages."""
    return sum(n for kind, n in found[phase].items() if kind.endswith(" bytes")) / float(found["workers"])


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    options = parser.parse_args()
    figures = [measure(n, hosts) for n in options.workers for hosts in (1, n)]
    rows = []
    for found in figures:
        sent = sum(n for kind, n in found["start-up"].items() if not kind.endswith(" bytes"))
        rows.append([found["workers"], found["hosts"], sent / found["workers"],
                     *(per_worker(found, phase) for phase in ("start-up", "second", "death")),
                     found["whole"] / found["workers"]])  # fmt: skip
    heading = ["workers", "hosts", "messages a worker at start-up", "bytes a worker at start-up"]
    heading += ["bytes a worker and second", "bytes a worker and death", "start-up with whole views, bytes a worker"]
    caption = "Simulated workers; messages between leader, agents and workers"
    save("control_plane", "The control plane", {caption: table(heading, rows)}, {"cases": figures})


if __name__ == "__main__":
    main()
