"""The real core among simulated agents, processes and ZooKeeper, under random faults that a seed decides.

Messages are lost, doubled and reordered; processes are killed and hung; agents and controllers die, and a deposed
controller goes on talking for a while; ZooKeeper stops confirming. `check` asserts after each step what must never
happen, and `run` that the job completes once the faults end. To replay a seed, or the seeds of a range, from the root:
`PYTHONPATH=. python tests/unit/controller/simulated_cluster.py SEED [END]`.
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from riprap.codec.ids import WorkerId
from riprap.controller import messages
from riprap.controller.actions import Action, Persist, Reply, Send
from riprap.controller.core import Core
from riprap.controller.deltas import Gap, Writer
from riprap.controller.executor import desired_message
from riprap.controller.jobspec import JobSpec
from riprap.controller.phases import ACTIVE, TERMINAL
from riprap.controller.record import JobRecord
from riprap.controller.report_reader import ReportReader
from riprap.controller.reports import EXITED, STARTING, UP, AgentReport, WorkerReport
from riprap.controller.steps import restart_lost_for
from riprap.controller.wish import Wish, Wishes

STAGES = {"source": {"parallelism": 1}, "processor": {"parallelism": 3}, "sink": {"parallelism": 1}}
# Deadlines are tested elsewhere; here nothing may fail, however long the faults make it wait.
CLUSTER = {
    "heartbeat_timeout_s": 1.0,
    "restarts_max": 10000,
    "recovery_timeout_s": 1e4,
    "startup_timeout_s": 1e4,
    "stall_timeout_s": 1e4,
}
TOPOLOGY = {"stages": STAGES, "cluster": {**CLUSTER, "deployment_timeout_s": 1e4, "finishing_timeout_s": 1e4}}
ADAPTING = TOPOLOGY | {
    "copies": ["source.0~1", "processor.0~1", "processor.1~1", "processor.2~1"],
    "wanted": ["processor.0~1"],
}
"""Its replicas change while it runs."""
REPORT_S = TICK_S = 0.2
FAULTS_END_S = 12.0
GIVE_UP_S = 60.0

Key = tuple[str, int]  # worker, incarnation


class Process:
    """A worker's process: gets ready after a while, then beats unless it hangs."""

    def __init__(self, row: WorkerReport, ready_at: float) -> None:
        self.row = row
        self.ready_at = ready_at
        self.hung = False

    def live(self, now: float, finish: bool, catches_up: bool) -> None:
        """Let it work until now."""
        if self.row.state == EXITED or self.hung or now < self.ready_at:
            return
        self.row.state = UP
        self.row.stats |= {"caught_up_at": self.ready_at} if catches_up else {}
        self.row.beat += 1
        self.row.done |= finish and self.row.worker.startswith("sink")


class SimulatedAgent:
    """What an agent promises, without processes: it runs what it is told, kills the rest, and reports all."""

    def __init__(self, world: World, host: str, instance: str) -> None:
        self.world = world
        self.report = AgentReport(host, instance)
        self.processes: dict[Key, Process] = {}
        self.wishes, self.reports = Wishes(), Writer()
        self.wanted: dict[str, Wish] = {}

    def take(self, message: dict[str, Any]) -> None:
        """A message of some leader has arrived."""
        if message["type"] == "resend":
            self.reports.restart()
            return
        jobs, wishes = self.wishes.take(message), self.wishes
        self.report.term, self.report.sequence, self.report.behind = wishes.term, wishes.sequence, wishes.behind
        if jobs is None:
            return
        self.wanted = jobs
        revision = jobs["job"].view["revision"] if "job" in jobs else 0
        self.report.revisions["job"] = max(revision, self.report.revisions.get("job", 0))
        self.converge()

    def converge(self) -> None:
        """Kill and start, as the last wish says."""
        job = self.wanted.get("job", Wish("", "", {}, {}, False, {}))
        for (worker, incarnation), process in self.processes.items():
            if process.row.state != EXITED and job.workers.get(worker) != incarnation:
                self.end(process, -9)
            elif process.row.state != EXITED and job.stopping and not process.hung:
                self.end(process, 0)
        for worker, incarnation in job.workers.items():
            if (worker, incarnation) not in self.processes and not job.stopping:
                self.world.note_start(worker, incarnation)
                row = WorkerReport("job", worker, incarnation, STARTING, pid=next(self.world.pids))
                self.processes[worker, incarnation] = Process(row, self.world.now + self.world.random.uniform(0.0, 0.5))

    def end(self, process: Process, status: int) -> None:
        """The process is gone."""
        process.row.state, process.row.status = EXITED, status

    def make_report(self) -> dict[str, Any]:
        """The next report."""
        for process in self.processes.values():
            process.live(self.world.now, self.world.finish, not self.world.has_ghosts)
        self.report.number += 1
        self.report.rows = [process.row for process in self.processes.values()]
        changes = self.reports.encode(self.report.number, self.report.state())
        return {"type": "report", "instance": self.report.instance, **changes}

    def running(self) -> list[Process]:
        """The processes that have not ended."""
        return [process for process in self.processes.values() if process.row.state != EXITED]


class World:
    """Everything outside the core, in simulated seconds."""

    def __init__(self, seed: int, topology: dict[str, Any] = TOPOLOGY) -> None:
        self.random, self.topology = random.Random(seed), topology
        self.now = 0.0
        self.pids = itertools.count(1)
        self.finish = False
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self.agents: dict[str, SimulatedAgent] = {}
        self.readers: dict[int, ReportReader] = {}
        self.writers: dict[int, defaultdict[str, Writer]] = {}
        self.stored: dict[str, tuple[JobSpec, JobRecord]] = {}
        self.stored_term = 0
        self.zookeeper_away_until = 0.0
        self.started: set[Key] = set()
        self.has_ghosts = False
        """True while somebody is told to be up whose process is gone: peers may wait for it."""
        self.deposed_until: dict[int, float] = {}
        self.replies: list[Any] = []
        for host in ("h1", "h2"):
            self.start_agent(host)
        self.terms = itertools.count(1)
        self.core = self.elect()
        self.perform(self.core, self.core.submit("ticket", JobSpec.read("job", topology, "/run"), self.now))

    # --- time

    def at(self, delay_s: float, act: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._events, (self.now + delay_s, next(self._order), act))

    def every(self, period_s: float, act: Callable[[], None], alive: Callable[[], bool]) -> None:
        """Do something again and again while it holds that `alive`."""

        def again() -> None:
            if alive():
                act()
                self.at(period_s * self.random.uniform(0.8, 1.2), again)

        self.at(period_s * self.random.random(), again)

    def run(self) -> None:
        """Faults until their end, then calm until the job is complete; AssertionError when that never comes."""
        self.every(0.4, self.fault, lambda: self.now < FAULTS_END_S)
        while not self.is_over():
            self.now, _, act = heapq.heappop(self._events)
            assert self.now < GIVE_UP_S, f"not over after {GIVE_UP_S:g} s: {self.core.jobs['job'].view}"
            act()
            self.check()
            self.finish = self.finish or (self.now > FAULTS_END_S + 3.0 and self.is_whole())

    def is_whole(self) -> bool:
        """Whether every worker runs, as the leader thinks."""
        job = self.core.jobs["job"]
        running = [p.row.key for agent in self.agents.values() for p in agent.running() if p.row.state == UP]
        on = {worker for worker in job.running if worker.copy}
        wanted = {("job", worker, job.tasks[worker].assignment.incarnation) for worker in job.running}
        is_settled = on == job.replicas and len(running) == 5 + len(on)
        return job.phase == "RUNNING" and is_settled and set(running) == wanted

    def is_over(self) -> bool:
        """Whether the job is complete, durably, and no process is left."""
        _, record = self.stored.get("job", (None, JobRecord()))
        assert record.phase not in TERMINAL or record.phase == "COMPLETED", record.error
        return record.phase == "COMPLETED" and not any(agent.running() for agent in self.agents.values())

    # --- what must never happen

    def check(self) -> None:
        """Invariants of every moment."""
        for agent in self.agents.values():
            workers = [process.row.worker for process in agent.running()]
            assert len(workers) == len(set(workers)), f"two processes of one worker on {agent.report.host}: {workers}"
        job = self.core.jobs["job"]
        if job.phase == "COMPLETED":
            assert self.finish, "completed before its sinks were done"
        alive = {(p.row.worker, p.row.incarnation) for agent in self.agents.values() for p in agent.running()}
        told = {(str(one), seen.incarnation) for one, seen in job.view.workers.items() if seen.state == UP}
        self.has_ghosts = bool(told - alive)

    def note_start(self, worker: str, incarnation: int) -> None:
        """A process is started."""
        assert (worker, incarnation) not in self.started, f"{worker} #{incarnation} was started twice"
        self.started.add((worker, incarnation))
        _, record = self.stored["job"]
        assert incarnation <= record.tasks[WorkerId.parse(worker)].incarnation, (
            f"{worker} #{incarnation} is not durable"
        )

    # --- agents, controllers and what they do

    def members(self) -> dict[str, str]:
        """What ZooKeeper would say."""
        return {host: agent.report.instance for host, agent in self.agents.items()}

    def start_agent(self, host: str) -> None:
        """A new agent process on a host."""
        agent = self.agents[host] = SimulatedAgent(self, host, f"{host}-{next(self.pids)}")
        self.every(REPORT_S, lambda: self.to_leader(agent), lambda: self.agents.get(host) is agent)

    def elect(self) -> Core:
        """A new leader, which has claimed the stored records."""
        term = self.stored_term = next(self.terms)
        core = Core(term, f"leader-{term}", restart_lost_for, self.stored, self.members(), self.now)
        self.readers[term], self.writers[term] = ReportReader(), defaultdict(Writer)
        for agent in self.agents.values():
            agent.reports.restart()
        self.every(
            TICK_S, lambda: self.perform(core, core.tick(self.now)), lambda: core is self.core or self.lingers(core)
        )
        return core

    def lingers(self, core: Core) -> bool:
        """Whether a deposed leader still acts, not knowing yet."""
        return self.now < self.deposed_until.get(core.term, 0.0)

    def to_leader(self, agent: SimulatedAgent) -> None:
        """A report on its way to whoever leads when it arrives."""
        data = messages.pack(agent.make_report())
        for delay_s in self.fates():
            self.at(delay_s, lambda: self.hear(agent, data))

    def hear(self, agent: SimulatedAgent, data: bytes) -> None:
        """A report has arrived."""
        core, instance = self.core, agent.report.instance
        try:
            report = self.readers[core.term].read(messages.unpack(data))
        except Gap:
            return self.send(instance, {"type": "resend"})
        if report is None:
            return None
        if report.behind:
            self.writers[core.term][instance].restart()
        return self.perform(core, core.report(report, self.now))

    def send(self, instance: str, message: dict[str, Any]) -> None:
        """A leader's message on its way."""
        data = messages.pack(message)
        for delay_s in self.fates():
            self.at(delay_s, lambda: self.deliver(instance, data))

    def fates(self) -> list[float]:
        """The delays with which copies of a message arrive: none when it is lost."""
        if self.now > FAULTS_END_S:
            return [0.001]
        copies = self.random.choices((0, 1, 2), (0.2, 0.7, 0.1))[0]
        return [self.random.choice((0.001, 0.05, 0.6)) for _ in range(copies)]

    def perform(self, core: Core, actions: list[Action]) -> None:
        """Carry out a leader's actions."""
        for action in actions:
            match action:
                case Send(instance, message):
                    writer = self.writers[core.term][instance]
                    self.send(instance, desired_message(message, writer) if message["type"] == "desired" else message)
                case Persist():
                    self.at(0.005, lambda action=action: self.persist(core, action))
                case Reply(_, result):
                    self.replies.append(result)

    def deliver(self, instance: str, data: bytes) -> None:
        """A leader's message has arrived."""
        for agent in self.agents.values():
            if agent.report.instance == instance:
                agent.take(messages.unpack(data))

    def persist(self, core: Core, action: Persist) -> None:
        """ZooKeeper's part: refuse while it is away, and refuse a deposed leader for ever."""
        if core.term < self.stored_term:
            return
        if self.now < self.zookeeper_away_until:
            return self.perform(core, core.persist_failed("job", self.now))
        _, before = self.stored.get("job", (None, JobRecord()))
        for worker, assignment in before.tasks.items():
            assert action.record.tasks[worker].incarnation >= assignment.incarnation, "an incarnation went back"
        self.stored["job"] = (action.spec, action.record)
        return self.perform(core, core.persisted("job", action.record, self.now))

    # --- faults

    def fault(self) -> None:
        """One random fault."""
        kinds = [self.kill, self.kill, self.hang, self.lose_agent, self.lose_leader, self.lose_zookeeper]
        if "wanted" in self.topology:
            kinds += [self.adapt, self.adapt]
        self.random.choice(kinds)()

    def adapt(self) -> None:
        """Other replicas are asked for, where the leader can be asked."""
        job = self.core.jobs.get("job")
        if job is None or job.phase not in ACTIVE or self.core.takes_over:
            return
        names = [str(WorkerId.parse(name).primary) for name in self.topology["copies"]]
        tasks = self.random.sample(names, self.random.randint(0, len(names)))
        self.perform(self.core, self.core.adapt("ticket", "job", tasks, self.now))

    def kill(self) -> None:
        """A process dies."""
        agent = self.random.choice(list(self.agents.values()))
        for process in self.random.sample(agent.running(), min(1, len(agent.running()))):
            agent.end(process, -9)
            agent.converge()

    def hang(self) -> None:
        """A process that is up stops beating, and does not stop when asked to (a hang before has a deadline)."""
        agent = self.random.choice(list(self.agents.values()))
        up = [process for process in agent.running() if process.row.state == UP]
        for process in self.random.sample(up, min(1, len(up))):
            process.hung = True

    def lose_agent(self) -> None:
        """An agent dies with its workers; another comes up on its host."""
        host = self.random.choice(list(self.agents))
        self.start_agent(host)
        self.at(
            self.random.uniform(0.1, 1.0), lambda: self.perform(self.core, self.core.members(self.members(), self.now))
        )

    def lose_leader(self) -> None:
        """A leader is replaced; half of them do not know at once."""
        if "job" not in self.stored:
            return
        if self.random.random() < 0.5:
            self.deposed_until[self.core.term] = self.now + 2.0
        self.core = self.elect()

    def lose_zookeeper(self) -> None:
        """No write is confirmed for a while."""
        self.zookeeper_away_until = self.now + self.random.uniform(0.1, 2.0)


def simulate(seed: int, topology: dict[str, Any] = TOPOLOGY) -> World:
    """One run; AssertionError names the seed."""
    world = World(seed, topology)
    try:
        world.run()
    except AssertionError as error:
        raise AssertionError(
            f"{error}\nreplay: PYTHONPATH=. python tests/unit/controller/simulated_cluster.py {seed}"
        ) from error
    return world


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(sys.argv[1]) + 1):
        for one in (TOPOLOGY, ADAPTING):
            simulate(number, one)
