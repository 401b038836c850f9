"""A seeded simulation of a job: the real tasks, schemes and links over simulated wires, time, deaths and news.

Everything random comes from one seed: delays on each wire (FIFO per link, reordered across links), lost connections,
kills, hangs, the order in which workers learn of deaths and restarts. A failure is a seed.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Incarnation, Seq, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.epoch_reader import EpochReader
from riprap.engine.flow.links import LinkPort, Links, Window
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.flow.three_stage.processor import ProcessorTask
from riprap.engine.flow.three_stage.sink import SinkTask
from riprap.engine.flow.three_stage.source import SourceTask
from riprap.engine.schemes import make_scheme
from riprap.operators.base import Processor, Sink

PRIME = 2**31 - 1
NAMES = ("source->processor", "processor->sink", "sink->processor", "source->sink", "sink->source")
EDGES = tuple(Edge(index, name) for index, name in enumerate(NAMES))
STEPS_MAX = 300_000


class NumberedRows:
    """What a source task reads: rows, and where they begin."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.items, self.item_bytes = rows, len(rows), float(rows[:1].nbytes)

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        return self.rows[start:stop], np.array([start])


class Weigh(Processor):
    """An exact stand-in for a gradient: integers, and every bit of the state matters."""

    def __init__(self) -> None:
        self.state = 1

    def process_data(self, items: np.ndarray) -> list[np.ndarray]:
        return [np.array([float(int(items.sum()) * self.state % PRIME), float(len(items))])]

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items * float(self.state % 97 + 1)

    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> list[np.ndarray]:
        """Rounding takes away what a code over the real numbers is off by."""
        return self.process_data(np.rint(linear))

    def process_feedback(self, feedback: Any) -> None:
        self.state = int(feedback[0][0])


class WeighLinearly(Weigh):
    """All but what its sink makes of the linear parts is linear."""

    is_linear = True


class Fold(Sink):
    """Sensitive to order, to repetition and to omission of results."""

    def __init__(self, processor: Weigh) -> None:
        self.state, self.items, self.processor = 1, 0, processor

    def aggregate(self, result: Any) -> None:
        self.state = (self.state * 31 + int(result[0][0])) % PRIME
        self.items += int(result[0][1])

    def commit(self, epoch: int) -> list[np.ndarray]:
        return [np.array([float(self.state)])]

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"all": np.array([self.state, self.items])}

    def restore(self, snapshot: Any) -> None:
        self.state, self.items = (int(value) for value in snapshot["all"])


class Notebook:
    """A journal that checks what it is told: epochs in order, each announced once, none before it is durable."""

    def __init__(self, sim: Simulation, sink: WorkerId) -> None:
        self.sim, self.sink, self.pending = sim, sink, []

    def committed(self, boundary: Any, latency_s: float, rows: Any) -> None:
        self.pending.append([boundary.epoch, boundary.lost])

    def durable(self, epoch: int) -> None:
        announced = self.sim.announced[self.sink]
        announced += [entry for entry in self.pending if announced_up_to(announced) < entry[0] <= epoch]
        self.pending = [entry for entry in self.pending if entry[0] > epoch]
        assert [entry[0] for entry in announced] == list(range(1, announced_up_to(announced) + 1))

    def notes(self) -> dict[str, Any]:
        return {"pending": [list(entry) for entry in self.pending]}

    def resume(self, notes: Any) -> None:
        self.pending = [list(entry) for entry in notes["pending"]]


def announced_up_to(announced: list) -> int:
    return announced[-1][0] if announced else 0


@dataclass
class Case:
    """One job and the faults it has to live through; times are in simulated seconds."""

    fault_tolerance: dict[str, Any]
    processors: int = 6
    pairs: int = 1
    items: int = 1200
    micro_batch: int = 50
    block_bytes: int = 64
    kills: int = 0
    kill_at_once: int = 1
    hangs: int = 0
    cuts: int = 0
    wire_s: float = 0.002
    restart_s: float = 0.03
    faulty: tuple[str, ...] = ("processor",)
    disk_s: float = 0.004
    weigh: type[Weigh] = Weigh
    rollbacks: int = 0
    """How often all tasks are to begin anew from what they have saved, survivors in their processes."""
    kill_at_steps: tuple[tuple[int, str], ...] = ()
    """Workers to kill just before the so manieth event, whatever that is."""
    log: list[str] = field(default_factory=list)


class Node(LinkPort):
    """One worker process: its life, what it believes of others, and its task."""

    def __init__(self, sim: Simulation, me: WorkerId, life: int) -> None:
        self.sim, self.me, self.life = sim, me, life
        self.alive, self.hung_until = True, 0.0
        self.alarm_id = 0
        self.working = False
        self.links = Links(self, Window(sim.window))
        self.at_the_door: dict[tuple[WorkerId, int], list[Callable[[], None]]] = {}  # of lives not heard of yet
        self.counts: dict[str, int] = {}
        self.saves = self.written = self.durable = 0
        self.task = sim.make_task(self)

    @property
    def is_first(self) -> bool:
        """Whether nobody has been this worker before, nor this one in an earlier round."""
        return self.life == 1 and self.links.round == 0

    # the wire of its links
    def transmit(self, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None:
        copy = Block(
            block.kind, block.epoch, block.key, block.items, block.arrays, block.attachment, dict(block.meta), seq
        )
        self._carry(to, lambda node: node.arrive(edge, self.me, self.life, seq, copy))

    def reply(self, edge: Edge, to: WorkerId, kind: Kind, seq: Seq) -> None:
        self._carry(to, lambda node: node.links.on_reply(edge, self.me, self.life, kind, seq))

    def _carry(self, to: WorkerId, act: Callable[[Node], None]) -> None:
        """What is sent in a round is heard in the same one, or not at all."""
        round_ = self.links.round
        self.sim.carry(self, to, lambda node: act(node) if node.links.is_of_round(round_) else None)

    # the port of its task and scheme, beside the links
    def alarm(self, seconds: float) -> None:
        self.alarm_id += 1
        mine = self.alarm_id
        self.sim.at(seconds, self.guard(lambda: self.task.on_alarm() if self.alarm_id == mine else None))

    def now(self) -> float:
        return self.sim.now

    def stands_still(self, worker: WorkerId) -> bool:
        """Half of the workers are on another host, where nothing is known."""
        return worker.index % 2 == 0 and self.sim.now < self.sim.nodes[worker].hung_until

    def cpu(self) -> float:
        return self.sim.now

    def count(self, name: str, n: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + n

    def save(self, kind: str, epoch: int, meta: dict[str, Any], arrays: Any) -> int:
        if self.refuses():
            return 0
        self.saves += 1
        number, record = self.saves, (kind, Block(Kind.DATA, epoch, arrays=tuple(map(np.array, arrays)), meta=meta))

        def write() -> None:
            """The server goes on with what it got, whether the worker lives or not; its answer may find nobody."""
            self.sim.disk.setdefault(self.me, []).append((self.life, *record))
            self.written = number
            self.sim.at(self.sim.case.wire_s, self.guard(lambda: self.confirm(number)))

        when = max(
            self.sim.disk_free.get(self.me, 0.0), self.sim.now + self.sim.rng.expovariate(1 / self.sim.case.disk_s)
        )
        self.sim.disk_free[self.me] = when + 1e-9
        self.sim.at(when - self.sim.now, lambda: write() if self.sim.nodes[self.me].life == self.life else None)
        return number

    def refuses(self) -> bool:
        """Whether too much is under way for the store."""
        return self.sim.rng.random() < 0.1

    def confirm(self, number: int) -> None:
        """Everything saved up to this number is safe."""
        if number > self.durable:  # else a former task of this life has saved it
            self.durable = number
            self.task.on_durable(number)

    def enter(self, round_: int) -> None:
        """The job was rolled back: begin anew from what is saved, once all of it is."""
        if not self.alive or round_ <= self.links.round:
            return
        if self.written < self.saves or self.sim.now < self.hung_until:
            wait = max(0.001, self.hung_until - self.sim.now)
            self.hung_until = self.sim.now + wait  # it waits for the store, and for nothing else
            self.sim.at(wait, lambda: self.enter(round_))
            return
        self.task.close()
        self.links.enter(round_)
        self.durable, self.alarm_id = self.saves, self.alarm_id + 1
        self.task = self.sim.make_task(self)
        self.sim.restore(self)
        for worker in self.links.up:
            self.task.on_worker_restored(worker)
        if len(self.links.up) + 1 == len(self.sim.truth):
            self.task.start()
        for edge, senders in self.sim.incoming(self).items():
            for sender in senders:
                self.links.ask_anew(edge, sender)
        self.sim.case.log.append(f"{self.sim.now:.4f} {self.me}#{self.life} enters round {round_}")
        self.sim.schedule_work(self)

    def report(self, event: str, **fields: Any) -> None:
        self.sim.case.log.append(f"{self.sim.now:.4f} {self.me}#{self.life} {event} {fields}")

    # events
    def guard(self, act: Callable[[], Any]) -> Callable[[], None]:
        """An event of this life only; one that reaches a hung process waits until it goes on."""

        def run() -> None:
            if not self.alive:
                return
            if self.sim.now < self.hung_until:
                self.sim.at(self.hung_until - self.sim.now + 1e-9, run)
                return
            act()
            self.links.flush(least=1 if self.sim.rng.random() < 0.5 else 4)
            self.sim.schedule_work(self)

        return run

    def arrive(self, edge: Edge, sender: WorkerId, life: int, seq: Seq, block: Block) -> None:
        if life > self.links.incarnation(sender):  # it cannot connect yet, and tries again
            waiting = self.at_the_door.setdefault((sender, life), [])
            waiting.append(lambda: self.arrive(edge, sender, life, seq, block))
        elif self.links.accept(edge, sender, Incarnation(life), seq, block):
            self.task.on_block(edge, sender, block)

    def learn(self, worker: WorkerId, life: int, up: bool) -> None:
        if worker == self.me:
            return
        if self.links.is_up(worker) and (not up or self.links.incarnation(worker) != life):
            self.links.lower(worker)
            self.task.on_worker_failed(worker)
        if up and self.links.incarnation(worker) < life:
            self.links.raise_(worker, Incarnation(life))
            self.task.on_worker_restored(worker)
            if self.me in self.sim.sources and len(self.links._up) + 1 == len(self.sim.truth):
                self.task.start()
            for come_in in self.at_the_door.pop((worker, life), ()):
                come_in()


def item_of(record: Block) -> Block:
    """A persisted data block as it was received."""
    meta = dict(record.meta)
    key = Key(*meta.pop("key"))
    return Block(Kind.DATA, record.epoch, key, len(record.arrays[0]), record.arrays, meta=meta)


class Simulation:
    """Runs one case under one seed."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.seed, self.rng = case, seed, random.Random(seed)
        self.now, self.events, self.order = 0.0, [], itertools.count()
        self.sources = tuple(WorkerId("source", i) for i in range(case.pairs))
        self.processors = tuple(WorkerId("processor", i) for i in range(case.processors))
        self.sinks = tuple(WorkerId("sink", i) for i in range(case.pairs))
        self.window = max(96, 6 * (case.micro_batch * 8 // case.block_bytes + case.processors))
        self.data = np.random.default_rng(7).integers(1, 1000, (case.items, 1)).astype(float)
        self.wire_free: dict[tuple, float] = {}
        self.disk: dict[WorkerId, list[tuple[int, str, Block]]] = {}
        self.disk_free: dict[WorkerId, float] = {}
        self.announced: dict[WorkerId, list] = {sink: [] for sink in self.sinks}
        self.truth: dict[WorkerId, tuple[int, bool]] = {}
        self.round = 0
        self.news_free: dict[WorkerId, float] = {}
        self.nodes = {}
        for worker in (*self.sources, *self.processors, *self.sinks):
            self.nodes[worker] = Node(self, worker, 1)
            self.truth[worker] = (1, True)
        for worker in self.nodes:
            self.spread(worker)
        for node in self.nodes.values():
            self.at(0.05, lambda node=node: self._hello(node))
        self._plan_faults()

    def make_task(self, node: Node) -> Any:
        layout = Layout(node.me, self.sources, self.processors, self.sinks, *EDGES)
        scheme = make_scheme(layout, self.case.fault_tolerance)
        if node.me in self.sources:
            share = self.case.items // self.case.pairs
            data = self.data[node.me.index * share : (node.me.index + 1) * share]
            batch = self.case.micro_batch
            reader = EpochReader(NumberedRows(data), -(-share // batch), batch, self.case.block_bytes, scheme.unit)
            task = SourceTask(layout, scheme, node, reader, 2)
            if not node.is_first:
                task.start()
            return task
        if node.me in self.sinks:
            return SinkTask(layout, scheme, node, Fold(self.case.weigh()), Notebook(self, node.me))
        return ProcessorTask(layout, scheme, node, self.case.weigh)

    def incoming(self, node: Node) -> Mapping[Edge, Sequence[WorkerId]]:
        """The edges that end at a worker, with those at their other ends."""
        return node.task.layout.incoming()

    def restore(self, node: Node) -> None:
        """Hand a new life what the lives before it saved: the newest state, and the items behind it."""
        records = self.disk.get(node.me, [])
        state = next((block for _, kind, block in reversed(records) if kind == "state"), None)
        if isinstance(node.task, SinkTask):
            node.task.restore(state)
        elif isinstance(node.task, ProcessorTask):
            least = state.epoch if state else 0
            node.task.restore(state, [item_of(b) for _, kind, b in records if kind == "item" and b.epoch > least])

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + seconds, next(self.order), act))

    def carry(self, sender: Node, to: WorkerId, act: Callable[[Node], None]) -> None:
        """FIFO from one life to another; lost when the receiver dies, or with some luck when the sender does."""
        receiver = self.nodes[to]
        if receiver.life != sender.links.incarnation(to):
            return  # sent to the endpoint of a life that is over
        lane = (sender.me, sender.life, to, receiver.life)
        when = max(self.wire_free.get(lane, 0.0), self.now + self.rng.expovariate(1 / self.case.wire_s))
        self.wire_free[lane] = when + 1e-9

        def deliver() -> None:
            lost_with_sender = not sender.alive and self.rng.random() < 0.5
            if not lost_with_sender and (lane[:3] not in self.cut_lanes or sent_at > self.cut_lanes[lane[:3]]):
                receiver.guard(lambda: act(receiver))()

        sent_at = self.now
        self.at(when - self.now, deliver)

    cut_lanes: dict[tuple, float] = {}

    def schedule_work(self, node: Node) -> None:
        if not node.working:
            node.working = True

            def work() -> None:
                node.working = False
                if node.task.work():
                    self.schedule_work(node)

            def step() -> None:
                node.working = False
                node.guard(work)()

            self.at(self.rng.expovariate(1 / 0.0005), step)

    def roll_back(self) -> None:
        """News of a further round reaches the workers one by one, in order with other news."""
        self.round = round_ = self.round + 1
        for node in list(self.nodes.values()):
            self.tell(node, lambda node=node: node.enter(round_))

    def tell_all(self, node: Node) -> None:
        """A booting worker starts from the controller's view."""
        node.links.enter(self.round)
        for worker, (life, up) in self.truth.items():
            if worker != node.me:
                node.learn(worker, life, up)

    def spread(self, worker: WorkerId) -> None:
        """News of a worker reaches the others one by one, each in order."""
        life, up = self.truth[worker]
        for node in list(self.nodes.values()):
            if node.me != worker:
                self.tell(node, lambda node=node: node.learn(worker, life, up))

    def tell(self, node: Node, act: Callable[[], None]) -> None:
        """News of the controller, in order."""
        if node.alive:
            when = max(self.news_free.get(node.me, 0.0), self.now + self.rng.expovariate(1 / 0.004)) + 1e-9
            self.news_free[node.me] = when
            self.at(when - self.now, node.guard(act))

    def kill(self, worker: WorkerId) -> None:
        node = self.nodes[worker]
        if not node.alive:
            return
        node.alive = False
        life = node.life
        self.case.log.append(f"{self.now:.4f} kill {worker}#{life}")

        def detected() -> None:
            self.truth[worker] = (life, False)
            self.spread(worker)
            self.on_lost(worker)
            self.at(self.rng.expovariate(1 / self.case.restart_s), lambda: self.restart(worker, life + 1))

        self.at(self.rng.expovariate(1 / 0.01), detected)

    def on_lost(self, worker: WorkerId) -> None:
        """The controller has found a loss."""

    def restart(self, worker: WorkerId, life: int) -> None:
        node = self.nodes[worker] = Node(self, worker, life)
        self.restore(node)
        self.case.log.append(f"{self.now:.4f} restart {worker}#{life}")
        self.truth[worker] = (life, True)
        self.news_free.pop(worker, None)
        self.tell_all(node)
        self.spread(worker)
        self.at(0.05, lambda: self._hello(node))

    def _hello(self, node: Node) -> None:
        if node.alive:
            node.guard(node.links.hello)()
            self.at(0.05, lambda: self._hello(node))

    def _plan_faults(self) -> None:
        self.cut_lanes = {}
        for _ in range(self.case.kills):
            mortal = [worker for worker in self.nodes if worker.stage in self.case.faulty]
            victims = self.rng.sample(mortal, min(len(mortal), self.case.kill_at_once))
            self.at(self.rng.uniform(0, 0.18), lambda victims=victims: [self.kill(v) for v in victims])
        for _ in range(self.case.hangs):
            victim, seconds = self.rng.choice(self.processors), self.rng.uniform(0.05, 1.0)
            self.at(self.rng.uniform(0, 0.18), lambda v=victim, s=seconds: self._hang(v, s))
        for _ in range(self.case.cuts):
            self.at(self.rng.uniform(0, 0.18), self._cut)
        for _ in range(self.case.rollbacks):
            self.at(self.rng.uniform(0, 0.18), self.roll_back)

    def _hang(self, victim: WorkerId, seconds: float) -> None:
        self.nodes[victim].hung_until = self.now + seconds
        self.case.log.append(f"{self.now:.4f} hang {victim} {seconds:.3f}")

    def _cut(self) -> None:
        """A connection breaks: what was under way between two workers is lost, both live on."""
        pairs = [(s, p) for s in self.sources for p in self.processors]
        pairs += [(p, k) for k in self.sinks for p in self.processors] + list(zip(self.sources, self.sinks))
        a, b = self.rng.choice(pairs)
        for x, y in ((a, b), (b, a)):
            self.cut_lanes[(x, self.nodes[x].life, y)] = self.now
        self.case.log.append(f"{self.now:.4f} cut {a} {b}")

    def run(self) -> list[int]:
        """Run to the end; the sinks' final states. AssertionError names the seed when it does not end."""
        steps = {step: WorkerId.parse(name) for step, name in self.case.kill_at_steps}
        for number in range(STEPS_MAX):
            if number in steps:
                self.kill(steps[number])
            if all(self.nodes[sink].alive and self.nodes[sink].task.safe for sink in self.sinks):
                return [self.nodes[sink].task.operator.state for sink in self.sinks]
            assert self.events, f"seed {self.seed}: nothing left to happen, and the job is not done"
            self.now, _, act = heapq.heappop(self.events)
            act()
        raise AssertionError(f"seed {self.seed}: not done after {STEPS_MAX} steps\n" + "\n".join(self.case.log[-40:]))
