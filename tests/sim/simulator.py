"""The world of a seeded simulation: wires, time, deaths and news, in which the real tasks, schemes and links run.

Everything random comes from one seed: delays on each wire (FIFO per link, reordered across links), lost connections,
kills, hangs, the order in which workers learn of deaths and restarts. A failure is a seed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Incarnation, Seq, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.links import LinkPort, Links, Window
from riprap.engine.flow.scheme import Overtaken

TURN_S, REST_S = 0.0005, 0.005
"""Between two turns of a worker that has something to do, and until one that has not looks again; on average."""
IDLE = object()
"""What a turn that found nothing to do comes to."""


class Node(LinkPort):
    """One worker process: its life, what it believes of others, and its task."""

    def __init__(self, sim: Simulation, me: WorkerId, life: int) -> None:
        self.sim, self.me, self.life = sim, me, life
        self.alive, self.hung_until = True, 0.0
        self.alarm_id = 0
        self.working = self.resting = False
        self.use(Links(self, Window(sim.window)))
        self.at_the_door: dict[tuple[WorkerId, int], list[Callable[[], None]]] = {}  # of lives not heard of yet
        self.counts: dict[str, int] = {}
        self.saves = self.written = self.durable = 0
        self.task = sim.make_task(self)

    @property
    def own_incarnation(self) -> int:
        return self.life

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

    def reply(self, edge: Edge, to: WorkerId, kind: Kind, seq: Seq, room: int = 0) -> None:
        self._carry(to, lambda node: node.links.on_reply(edge, self.me, self.life, kind, seq, room))

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

    @property
    def author(self) -> str:
        return str(self.me)

    def save(self, kind: str, epoch: int, meta: dict[str, Any], arrays: Any, since: int = 0) -> int:
        if self.refuses():
            return 0
        self.saves += 1
        number, record = self.saves, (kind, Block(Kind.DATA, epoch, arrays=tuple(map(np.array, arrays)), meta=meta))

        def write() -> None:
            """The server goes on with what it got, whether the worker lives or not; its answer may find nobody."""
            disk = self.sim.disk.setdefault(self.me, [])
            if since:
                disk[:] = [one for one in disk if one[1] == "checkpoint" or one[2].epoch >= since]
            disk.append((self.life, *record))
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
        former = self.task.reached
        self.task.close()
        self.links.enter(round_)
        self.durable, self.alarm_id = self.saves, self.alarm_id + 1
        self.task = self.sim.make_task(self)
        self.sim.restore(self)
        self.task.on_reached(former)
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
        """What happens to this life, as an event."""
        return partial(self.happen, act)

    def happen(self, act: Callable[..., Any], *to: Any) -> None:
        """An event of this life only; one that reaches a hung process waits until it goes on.

        Unless it finds that there is nothing to do, there may be something to do from then on.
        """
        if not self.alive:
            return
        sim = self.sim
        if sim.now < self.hung_until:
            sim.at(self.hung_until - sim.now + 1e-9, partial(self.happen, act, *to))
            return
        try:
            is_idle = act(*to) is IDLE
        except Overtaken:
            sim.kill(self.me)
            return
        self.links.flush(least=1 if sim.rng.random() < 0.5 else 4)
        if is_idle:
            sim.schedule_rest(self)
        else:
            sim.schedule_work(self)

    def turn(self) -> None:
        """Do what there is to do."""
        self.working = False
        self.happen(self._work)

    def look(self) -> None:
        """There may be something to do."""
        self.resting = False
        self.sim.schedule_work(self)

    def _work(self) -> object:
        return None if self.task.work() else IDLE

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
            for come_in in self.at_the_door.pop((worker, life), ()):
                come_in()


class Simulation:
    """Runs one case under one seed; dataflow_simulator.py makes the workers of a job."""

    case: Any
    seed: int
    rng: random.Random
    now: float
    events: list[tuple[float, int, Callable[[], None]]]
    order: Iterator[int]
    window: int
    nodes: dict[WorkerId, Any]
    round: int
    truth: dict[WorkerId, tuple[int, bool]]
    disk: dict[WorkerId, list[tuple[int, str, Block]]]
    disk_free: dict[WorkerId, float]
    wire_free: dict[tuple, float]
    news_free: dict[WorkerId, float]
    cut_lanes: dict[tuple, float]

    def make_task(self, node: Any) -> Any:
        raise NotImplementedError

    def incoming(self, node: Any) -> Mapping[Edge, Sequence[WorkerId]]:
        """The edges that end at a worker, with those at their other ends."""
        raise NotImplementedError

    def restore(self, node: Any) -> None:
        """Hand a new life what the lives before it saved."""
        raise NotImplementedError

    def restart(self, worker: WorkerId, life: int) -> None:
        """A new life of a worker."""
        raise NotImplementedError

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
            if not lost_with_sender and (not self.cut_lanes or sent_at > self.cut_lanes.get(lane[:3], -1.0)):
                receiver.happen(act, receiver)

        sent_at = self.now
        self.at(when - self.now, deliver)

    def schedule_work(self, node: Node) -> None:
        """The next turn of a worker that has something to do, perhaps."""
        if not node.working:
            node.working = True
            self.at(self.rng.expovariate(1 / TURN_S), node.turn)

    def schedule_rest(self, node: Node) -> None:
        """A look whether there is something to do, since not all that a task waits for is an event."""
        if not (node.working or node.resting):
            node.resting = True
            self.at(self.rng.expovariate(1 / REST_S), node.look)

    def roll_back(self) -> None:
        """News of a further round reaches the workers one by one, in order with other news."""
        self.round = round_ = self.round + 1
        for node in list(self.nodes.values()):
            self.tell(node, lambda node=node: node.enter(round_))

    def tell_all(self, node: Node) -> None:
        """A booting worker starts from the controller's view."""
        node.links.enter(self.round)
        for worker, (life, up) in sorted(self.truth.items(), key=lambda one: one[1][0]):
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

    def _hello(self, node: Node) -> None:
        if node.alive:
            node.guard(node.links.hello)()
            self.at(0.05, lambda: self._hello(node))

    def _hang(self, victim: WorkerId, seconds: float) -> None:
        self.nodes[victim].hung_until = self.now + seconds
        self.case.log.append(f"{self.now:.4f} hang {victim} {seconds:.3f}")
