"""A seeded simulation of a graph of stages: real tasks, schemes and links on the wires and stores of simulator.py."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop
from pathlib import Path
from typing import Any

import dataflow_jobs
import msgpack
import numpy as np
from checkpointing import Checkpointing
from simulator import Node, Simulation

from riprap.backupserver.savepoint import write_part
from riprap.codec.blocks import Block, Kind
from riprap.codec.header import Header, decode, encode
from riprap.codec.ids import Seq, WorkerId
from riprap.configs.topology import Topology
from riprap.controller.checkpointing import CHECKPOINTING
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.gate import TaskGate
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.links import Window
from riprap.engine.flow.rate import InputRate
from riprap.engine.flow.reader import Reader
from riprap.engine.flow.task import Task
from riprap.engine.flow.threads import ComputeThreads
from riprap.engine.flow.window_files import WindowFiles
from riprap.engine.schemes.registry import scheme_class
from riprap.engine.worker.build import Hosted, coded_task, hosting_task
from riprap.engine.worker.operators import opened_dataflow
from riprap.operators.states import HashMap

STEPS_MAX, LOOK_STEPS = 400_000, 8
"""Things that happen until a job is given up, and between two looks whether it is done."""
ITEM_BYTES = 16.0


@dataclass
class DataflowCase:
    """One job and the faults it has to live through; times are in simulated seconds."""

    fault_tolerance: dict[str, Any]
    shape: str | Mapping[str, Any] = "full"
    items: int = 160
    """Of each source task."""
    windows: int = 4
    heavy: bool = True
    """Values that no other items add up to; otherwise they are 1, 2 and 3."""
    window: int = 24
    kills: int = 0
    kill_at_once: int = 1
    hangs: int = 0
    cuts: int = 0
    rollbacks: int = 0
    leaders: float = 0.0
    """Chance of another leader at each step of the controller."""
    wire_s: float = 0.002
    restart_s: float = 0.03
    disk_s: float = 0.004
    kill_until_s: float = 0.1
    threads: int = 1
    """Compute threads of each worker. What happens in the simulation does not depend on them."""
    faulty: tuple[str, ...] = ()
    """Stages whose workers may be killed; all when there is none."""
    log: list[str] = field(default_factory=list)


class Rows:
    """The part of the input that one source task reads."""

    item_bytes = ITEM_BYTES

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.items = rows, len(rows)

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        return (self.rows[start:stop],)


class Ledger:
    """A journal: in each life of a destination windows are closed in order, and each is announced once in all."""

    writes, holds, others = True, False, 0

    def __init__(self, announced: list[tuple[int, int]]) -> None:
        self.announced, self.last, self.pending = announced, 0, []
        self.shown: list[tuple[int, int, list[str]]] = []
        """Tentative windows of this life: each with its items, and who was absent."""
        self.shown_rows: list[Any] = []
        """What they put out."""
        self.lacking: dict[int, list[str]] = {}
        """Windows that were closed for good without the items of those absent."""

    def committed(self, boundary: Any, latency_s: float, rows: Any) -> None:
        assert self.last in (0, boundary.epoch - 1), f"window {boundary.epoch} closed after {self.last}"
        self.last = boundary.epoch
        if boundary.absent:
            self.lacking[int(boundary.epoch)] = list(boundary.absent)
        if boundary.epoch > len(self.announced):
            self.pending.append((int(boundary.epoch), boundary.items))

    def tentative(self, boundary: Any, latency_s: float, absent: Sequence[str], rows: Any) -> None:
        assert boundary.epoch > self.last or not self.last, "what is exact is not shown once more"
        self.shown.append((int(boundary.epoch), boundary.items, list(absent)))
        self.shown_rows.append(rows)

    def notes(self) -> dict[str, Any]:
        items = sum(count for _, count in (*self.announced, *self.pending))
        return {"pending": [list(entry) for entry in self.pending], "items": items}

    def begin(self, epoch: int, items: int) -> None:
        if epoch and not self.announced:
            self.announced += [*((before, 0) for before in range(1, epoch)), (epoch, items)]

    def resume(self, notes: Mapping[str, Any]) -> None:
        self.pending = [(epoch, items) for epoch, items in notes["pending"] if epoch > len(self.announced)]
        self.last = 0

    def change_clock(self) -> None:
        raise AssertionError("all are on one clock here")

    def cut(self, rows: int) -> None:
        assert rows == 0, "none of these jobs puts rows out"

    def durable(self, epoch: int) -> None:
        self.announced += [entry for entry in self.pending if entry[0] <= epoch]
        self.pending = [entry for entry in self.pending if entry[0] > epoch]
        assert [window for window, _ in self.announced] == list(range(1, len(self.announced) + 1))


class DataflowNode(Node):
    """A worker of the graph."""

    sim: DataflowSimulation
    restored_of: WorkerId | None = None
    """The copy of its task whose records it began from."""

    def refuses(self) -> bool:
        """Only while something is under way: that it has become durable is the news to try again."""
        return self.saves > self.durable and self.sim.rng.random() < 0.2

    def transmit(self, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None:
        block.seq = seq
        header, arrays = encode(Header("job", str(self.me), self.life, edge.index), block)
        _, copy = decode(header, [array.tobytes() for array in arrays])
        self._carry(to, lambda node: node.arrive(edge, self.me, self.life, seq, copy))

    def arrive(self, edge: Edge, sender: WorkerId, life: int, seq: Seq, block: Block) -> None:
        if block.kind != Kind.HELLO:
            gate = self.sim.gates[self.me]
            assert block.kind in gate.kinds[edge]
            gate.checks[edge](sender, block)
            assert self.task.admits(block)
        super().arrive(edge, sender, life, seq, block)

    def learn(self, worker: WorkerId, life: int, up: bool) -> None:
        if self.life > 1:
            self.task.start()  # the job has begun long ago
        if life >= self.links.incarnation(worker):  # views have revisions, so that old news is none
            super().learn(worker, life, up)
        if len(self.links._up) + 1 >= len(self.sim.truth) - len(self.sim.unwanted):
            self.task.start()

    def save(self, kind: str, epoch: int, meta: dict[str, Any], arrays: Sequence[np.ndarray], since: int = 0) -> int:
        plain = msgpack.unpackb(msgpack.packb(meta), strict_map_key=False)
        return super().save(kind, epoch, plain, arrays, since)

    def save_apart(self, directory: str, meta: dict[str, Any], arrays: Sequence[np.ndarray]) -> bool:
        write_part(Path(directory), self.me, meta, arrays)
        return True

    def release(self, checkpoint: int) -> None:
        assert self.sim.checkpointing is not None
        self.sim.checkpointing.release(self, checkpoint)


class DataflowSimulation(Simulation):
    """Runs one case under one seed."""

    case: DataflowCase
    nodes: dict[WorkerId, DataflowNode]

    def __init__(self, case: DataflowCase, seed: int) -> None:
        self.case, self.seed, self.rng = case, seed, random.Random(seed)
        self.now, self.events, self.order = 0.0, [], itertools.count()
        self.topology = self.shaped(dataflow_jobs.topology(case.shape, case.fault_tolerance))
        self.scheme = scheme_class(self.topology.fault_tolerance)
        self.window = min(self.scheme.window.blocks, case.window) if self.topology.scheme != "upstream_backup" else 4096
        workers = self.topology.workers()
        self.layouts = {worker: Layout.of(self.topology, worker) for worker in workers}
        self.gates = {worker: TaskGate(layout) for worker, layout in self.layouts.items()}
        self.sources = tuple(worker for worker in workers if self.layouts[worker].is_source and not worker.copy)
        self.sinks = tuple(worker for worker in workers if self.layouts[worker].is_sink)
        self.wire_free, self.disk, self.disk_free, self.news_free, self.cut_lanes = {}, {}, {}, {}, {}
        self.announced = {sink: [] for sink in self.sinks}
        self.killed: list[WorkerId] = []
        self.truth, self.round = dict.fromkeys(workers, (1, True)), 0
        self.unwanted = set(self.topology.copies) - set(self.topology.wanted_copies)
        """Replicas that are not to run now."""
        self.truth |= dict.fromkeys(self.unwanted, (1, False))
        self.rows = {worker: self._rows(i) for i, worker in enumerate(self.sources)}
        self.checkpointing = Checkpointing(self) if self.topology.scheme in CHECKPOINTING else None
        self.nodes = {worker: DataflowNode(self, worker, 1) for worker in workers if worker not in self.unwanted}
        for worker in workers:
            self.spread(worker)
        for node in self.nodes.values():
            self.at(0.05, lambda node=node: self._hello(node))
        self._plan_faults()

    def shaped(self, topology: Topology) -> Topology:
        """The topology as workers have it."""
        return topology

    def _rows(self, number: int) -> np.ndarray:
        rng = np.random.default_rng(number)
        keys = rng.integers(0, dataflow_jobs.KEYS, self.case.items)
        values = rng.integers(1, 1 << 40, self.case.items) if self.case.heavy else rng.integers(1, 4, self.case.items)
        return np.column_stack([keys, values]).astype(float)

    def make_task(self, node: DataflowNode) -> Task:
        topology, layout, me = self.topology, self.layouts[node.me], node.me
        if coded := [segment for segment in layout.segments if segment.computes]:
            return coded_task(topology, {}, coded[0], node)
        operator = opened_dataflow(topology, me)
        files = WindowFiles(Path("/nonexistent"), me.index, type(operator))
        reader = Reader(Rows(self.rows[me.primary]), self.case.windows, 64, 0) if layout.is_source else None
        journal = self.journal_of(me) if layout.is_sink else None
        hosted = Hosted(operator, reader, twin=partial(opened_dataflow, topology, me))
        task = hosting_task(
            topology, layout, node, hosted, files, journal, node.is_first, self.items, Window(self.window)
        )
        task.threads = ComputeThreads(operator, self.case.threads)
        task.entries_max = 1  # so that faults come between any two
        task.scheme.window = Window(self.window)
        return task

    def journal_of(self, sink: WorkerId) -> Any:
        """That of a destination in its next life."""
        return Ledger(self.announced[sink])

    @property
    def items(self) -> int:
        """Of all sources together."""
        return self.case.items * len(self.sources)

    def incoming(self, node: DataflowNode) -> Mapping[Edge, Sequence[WorkerId]]:
        return self.layouts[node.me].incoming()

    def restore(self, node: DataflowNode) -> None:
        if not node.task.saves:
            return
        if self.checkpointing is not None:
            self.checkpointing.restore(node)
            return
        records = self.records_for(node.me)
        states = [block for kind, block in records if kind == "state"]
        least = states[-1].epoch if states else 0
        items = [block for kind, block in records if kind == "item" and block.epoch > least]
        node.task.restore(states[-1] if states else None, items)

    def records_for(self, worker: WorkerId) -> list[tuple[str, Block]]:
        """What it has saved, or a copy of its task, where that is newer and the server answers in time."""
        copies = [one for one in self.topology.copies_with(worker) if one != worker and self.rng.random() < 0.8]
        found = [[(kind, block) for _, kind, block in self.disk.get(one, [])] for one in (worker, *copies)]
        newest = max(found, key=lambda records: max((block.epoch for _, block in records), default=-1))
        self.nodes[worker].restored_of = (worker, *copies)[found.index(newest)]
        return newest

    def on_lost(self, worker: WorkerId) -> None:
        if self.checkpointing is not None:
            self.checkpointing.lost(worker)

    def restart(self, worker: WorkerId, life: int) -> None:
        former = self.nodes.get(worker)
        if worker in self.unwanted or (former is not None and former.life >= life):  # or it was wanted meanwhile
            return
        if self.checkpointing is not None and not self.checkpointing.is_durable:
            self.at(0.001, lambda: self.restart(worker, life))  # that it may run is not durable yet
            return
        node = self.nodes[worker] = DataflowNode(self, worker, life)
        self.restore(node)
        self.case.log.append(f"{self.now:.4f} restart {worker}#{life}")
        self.truth[worker] = (life, True)
        self.news_free.pop(worker, None)
        self.tell_all(node)
        self.spread(worker)
        node.guard(lambda: None)()
        self.at(0.05, lambda: self._hello(node))

    def kill(self, worker: WorkerId) -> None:
        if self.nodes[worker].alive:
            self.killed.append(worker)
            self.nodes[worker].task.close()
        super().kill(worker)

    def spread(self, worker: WorkerId) -> None:
        super().spread(worker)
        wanted = worker not in self.unwanted
        for node in self.nodes.values() if worker.copy else ():
            if node.me != worker:
                self.tell(node, lambda node=node: node.task.on_copy_wanted(worker, wanted))

    def tell_all(self, node: Node) -> None:
        super().tell_all(node)
        for worker in self.unwanted:
            node.task.on_copy_wanted(worker, False)

    def want(self, worker: WorkerId, wanted: bool) -> None:
        """The controller has a replica run from now on, or ends it; it is told of as any other news."""
        if wanted == (worker not in self.unwanted):
            return
        self.unwanted ^= {worker}
        self.case.log.append(f"{self.now:.4f} {'want' if wanted else 'end'} {worker}")
        life, _ = self.truth[worker]
        self.truth[worker] = (life, False)
        self.spread(worker)
        if wanted:
            self.at(self.rng.expovariate(1 / self.case.restart_s), lambda: self.restart(worker, life + 1))
        elif worker in self.nodes and self.nodes[worker].alive:
            self.nodes[worker].alive = False
            self.nodes[worker].task.close()

    def _plan_faults(self) -> None:
        case = self.case
        for _ in range(case.kills):
            mortal = [worker for worker in self.nodes if not case.faulty or worker.stage in case.faulty]
            victims = self.rng.sample(mortal, min(len(mortal), case.kill_at_once))
            when = self.rng.uniform(0, case.kill_until_s)
            for victim in victims:
                self.at(when, lambda victim=victim: self.kill(victim))
        for _ in range(case.hangs):
            victim, seconds = self.rng.choice(list(self.nodes)), self.rng.uniform(0.05, 0.5)
            self.at(self.rng.uniform(0, case.kill_until_s), lambda v=victim, s=seconds: self._hang(v, s))
        for _ in range(case.cuts):
            self.at(self.rng.uniform(0, case.kill_until_s), self._cut)
        for _ in range(case.rollbacks):
            self.at(self.rng.uniform(0, case.kill_until_s), self._roll_back_for_nothing)

    def _roll_back_for_nothing(self) -> None:
        if self.checkpointing is not None:
            self.checkpointing.lost()
        else:
            self.roll_back()

    def _cut(self) -> None:
        layout = self.layouts[self.rng.choice(list(self.nodes))]
        a, b = layout.me, self.rng.choice(layout.receivers())
        for x, y in ((a, b), (b, a)) if b in self.nodes else ():
            self.cut_lanes[(x, self.nodes[x].life, y)] = self.now
        self.case.log.append(f"{self.now:.4f} cut {a} {b}")

    def run(self) -> np.ndarray:
        """Run to the end; the totals of all destinations. AssertionError names the seed when it does not end."""
        try:
            return self._run()
        finally:
            for node in self.nodes.values():
                node.task.close()

    def _run(self) -> np.ndarray:
        for _ in range(0, STEPS_MAX, LOOK_STEPS):
            for sink in self.sinks:
                if not self.is_done(sink):
                    break
                assert len(self.announced[sink]) == self.case.windows, f"{sink} is done and has not announced all"
            else:
                return self.totals()
            for _ in range(LOOK_STEPS):
                self.step()
        raise AssertionError(f"seed {self.seed}: not done after {STEPS_MAX} steps\n" + self.standing())

    def is_done(self, sink: WorkerId) -> bool:
        """True when a destination says that it is."""
        return bool(self.nodes[sink].alive and self.nodes[sink].task.done)

    def step(self) -> None:
        """The next thing that happens."""
        assert self.events, f"seed {self.seed}: nothing left to happen, and the job is not done"
        self.now, _, act = heappop(self.events)
        act()

    def totals(self) -> np.ndarray:
        """The sum of each key over all destinations."""
        states = [self.nodes[sink].task.operator.state for sink in self.sinks]
        keys = np.arange(dataflow_jobs.KEYS)
        return sum(state.get(keys) if isinstance(state, HashMap) else state.values for state in states)

    def truth_of_keys(self) -> np.ndarray:
        """What the totals are in an undisturbed run."""
        whole = np.zeros(dataflow_jobs.KEYS)
        for rows in self.rows.values():
            np.add.at(whole, rows[:, 0].astype(int), rows[:, 1])
        return whole

    def standing(self) -> str:
        """Where each worker stands, for a job that does not end."""
        lines = []
        for worker, node in self.nodes.items():
            task = node.task
            if not isinstance(task, Task):
                continue
            links = task.outlet.links.values()
            where = [(link.key, link.placed, len(link.waiting)) for link in links]
            lines.append(f"{worker}#{node.life} window {task.epoch} inbox {len(task.inbox)} links {where}")
        return "\n".join(lines)


class Paced(DataflowSimulation):
    """Sources read at a rate: the whole input in about a second."""

    def make_task(self, node: DataflowNode) -> Task:
        task = super().make_task(node)
        if isinstance(task.reader, Reader):
            task.reader.rate = InputRate(float(self.case.items), 10)
        return task


def run_or_replay(simulation: DataflowSimulation, file: str, replay: str) -> None:
    """Run to the end; AssertionError with the last events and the command that replays the seed in a test's file."""
    try:
        simulation.run()
    except Exception as error:
        tail, seed = "\n".join(simulation.case.log[-30:]), simulation.seed
        command = f"RIPRAP_SIM_FIRST={seed} RIPRAP_SIM_SEEDS=1 pytest tests/sim/{Path(file).name} -k '{replay}'"
        raise AssertionError(f"seed {seed}: {error!r}\n{tail}\n{command}") from error
