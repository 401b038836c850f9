"""The controller's part in checkpoints, in a simulation: the real coordinator, a record that takes time to be durable,
parts heard of late, and a rollback after each loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from riprap.codec.ids import WorkerId
from riprap.controller.checkpoints import CheckpointPace, Coordinator, Marks
from riprap.controller.steps import Rollback
from riprap.controller.view import View
from riprap.engine.schemes.plans import plan_for

if TYPE_CHECKING:
    from dataflow_simulator import DataflowNode, DataflowSimulation

PACE = CheckpointPace(interval_s=0.02, min_pause_s=0.0, timeout_s=0.5, failures_max=10**6)
STEP_S, WRITE_S, NEWS_S = 0.003, 0.004, 0.003


class Checkpointing:
    """One leadership after another over one job; `completed` and the round are one durable record."""

    def __init__(self, sim: DataflowSimulation) -> None:
        self.sim = sim
        self.marks, self.round = Marks(), 0
        self.decided_round = 0
        self.losses = self.decided_losses = 0
        """Losses that the record tells of."""
        self.unsettled: set[WorkerId] = set()
        self.plan = plan_for(sim.topology.to_dict())
        self.alone = 0
        """Losses for which nobody else went back."""
        self.coordinator = Coordinator(PACE, self.marks, sim.now)
        self.parts: dict[WorkerId, tuple[int, int]] = {}
        self._sent: dict[WorkerId, tuple[int, int]] = {}
        """The same as soon as they are on their way."""
        self.writing = False
        self.whole: list[int] = []
        self.savepoints: dict[int, str] = {}
        """The directories of checkpoints that are savepoints."""
        sim.at(STEP_S, self.step)

    def step(self) -> None:
        sim, coordinator = self.sim, self.coordinator
        if not self.writing and sim.rng.random() < sim.case.leaders:  # no older leader can write then
            self.coordinator = coordinator = Coordinator(PACE, self.marks, sim.now)
            sim.case.log.append(f"{sim.now:.4f} another leader")
        coordinator.reserve()
        self._hear()
        up = all(state for _, state in sim.truth.values())
        if up and self.round == self.decided_round:
            heard = {str(w): n for w, (life, n) in self.parts.items() if life == sim.truth[w][0]}
            if len(heard) == len(sim.truth) and (whole := coordinator.hear(heard, sim.now)):
                sim.case.log.append(f"{sim.now:.4f} checkpoint {whole.number} is whole")
                self.unsettled.clear()
                if whole.savepoint:
                    self.savepoints[whole.number] = whole.savepoint
            elif coordinator.is_late(sim.now):
                coordinator.abort(sim.now, failed=True)
            ended = all(sim.nodes[sink].task.epoch == sim.case.windows for sink in sim.sinks)
            if number := coordinator.trigger(self.marks, sim.now, ended):
                sim.case.log.append(f"{sim.now:.4f} checkpoint {number} is triggered")
            self.publish()
        self._write()
        sim.at(sim.rng.expovariate(1 / STEP_S), self.step)

    def _hear(self) -> None:
        sim = self.sim
        for worker, node in sim.nodes.items():
            if not node.alive or not (number := node.task.part.number):
                continue
            news = (node.life, number)
            if self._sent.get(worker) != news:
                self._sent[worker] = news
                sim.at(sim.rng.expovariate(1 / NEWS_S), lambda w=worker, n=news: self._take(w, n))

    def _take(self, worker: WorkerId, news: tuple[int, int]) -> None:
        self.parts[worker] = max(self.parts.get(worker, (0, 0)), news)

    def lost(self, worker: WorkerId | None = None) -> None:
        """A worker is gone: nothing that is under way becomes whole, and all go back, or it alone."""
        self.coordinator.abort(self.sim.now)
        view = View(0, "", unsettled=frozenset(self.unsettled))
        steps = self.plan(view, [worker]) if worker is not None else [Rollback()]
        if any(isinstance(step, Rollback) for step in steps):
            self.decided_round += 1
            self.unsettled.clear()
        elif worker is not None:
            self.alone += 1
            self.unsettled.add(worker)
            self.publish()
        self.decided_losses += 1
        self._write()

    @property
    def is_durable(self) -> bool:
        """True when the record tells of all losses."""
        return self.losses == self.decided_losses

    def _write(self) -> None:
        record = (self.coordinator.marks, self.decided_round, self.decided_losses)
        if not self.writing and record != (self.marks, self.round, self.losses):
            self.writing = True
            self.sim.at(self.sim.rng.expovariate(1 / WRITE_S), lambda: self._written(*record))

    def _written(self, marks: Marks, round_: int, losses: int) -> None:
        self.writing, self.losses = False, losses
        if marks.completed > self.marks.completed:
            self.whole.append(marks.completed)
        self.marks = marks
        if round_ > self.round:
            self.round = round_
            self.sim.roll_back()
        self.publish()
        self._write()

    def publish(self) -> None:
        """All that live hear of it, each in the order of the controller's news."""
        news = self.view
        for node in self.sim.nodes.values():
            self.sim.tell(node, lambda node=node: node.task.checkpoint(*news))

    @property
    def view(self) -> tuple[int, int, str]:
        return *self.coordinator.told(self.marks), self.coordinator.savepoint

    def restore(self, node: DataflowNode) -> None:
        """Its part of the last whole checkpoint: the newest record of that number."""
        completed = self.marks.completed
        records = self.sim.disk.get(node.me, [])
        parts = {int(block.epoch): block for _, kind, block in records if kind == "checkpoint"}
        assert completed in parts or not completed, f"{node.me} has no part of checkpoint {completed}"
        chain = [parts[number] for number in sorted(parts) if number <= completed]
        node.task.restore(chain[-1] if completed else None, chain[:-1])
        announced = len(self.sim.announced.get(node.me, ()))
        assert node.task.epoch >= announced, f"{node.me} goes back before window {announced}, which was announced"
        news = self.view
        self.sim.at(0.0, lambda: self.sim.tell(node, lambda: node.task.checkpoint(*news)))

    def release(self, node: DataflowNode, checkpoint: int) -> None:
        records = self.sim.disk.get(node.me, [])
        self.sim.disk[node.me] = [one for one in records if one[1] != "checkpoint" or one[2].epoch >= checkpoint]
