"""The task of a sink: aggregates an epoch's results in a fixed order, commits, feeds back, and saves its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.clock import opened_here
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Boundary, Port, Ready
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.flow.three_stage.scheme import Scheme
from riprap.engine.flow.three_stage.task import Task
from riprap.operators import returns
from riprap.operators.base import Sink
from riprap.operators.finite import are_finite, check_model

SAVE_EVERY_S = 0.02  # a record costs the worker and the server half a millisecond, which short epochs would feel
SAVES_MAX = 32
"""More saves than this are never under way; a later one makes up for those that were left out."""


class Journal(Protocol):
    """What a sink tells the world of its commits (engine/worker/outputs.py)."""

    def committed(self, boundary: Boundary, latency_s: float, rows: np.ndarray | None) -> None:
        """An epoch is over; `rows` go to the job's output file."""

    def durable(self, epoch: Epoch) -> None:
        """Everything up to this epoch can be restored, so it may be announced."""

    def notes(self) -> dict[str, Any]:
        """What of the journal must be saved with the sink's state."""

    def resume(self, notes: Mapping[str, Any]) -> None:
        """Go on from what `notes` said when it was saved."""


class SinkTask(Task):
    """Results are kept by key until their epoch is whole and then aggregated in the order of keys, so that the model
    does not depend on who answered when, nor on what had to be decoded (DESIGN 5).

    Commits are saved without waiting for it, at most one every 20 ms, and announced (in `epochs.csv`, at last as
    `done`) once they are durable.
    A sink that starts again goes on from its newest durable epoch: it tells its source so, and gives the processors
    that epoch's state. What was committed but not durable is computed again, from the same items.
    """

    def __init__(self, layout: Layout, scheme: Scheme, port: Port, operator: Sink, journal: Journal) -> None:
        super().__init__(layout, scheme, port)
        self.operator, self.journal = operator, journal
        self.must_be_finite = False
        """True when a model with NaN or infinity fails the job, at its epoch."""
        self.safe = False
        """True when the last epoch is committed and durable."""
        self._results: dict[Epoch, dict[Key, Sequence[np.ndarray]]] = {}
        self._opened_at: dict[Epoch, float] = {}
        self._feedback = Block(Kind.FEEDBACK, Epoch(0))  # without arrays: the state that every processor starts from
        self._saved = Epoch(0)
        self._save_at = 0.0  # not before
        self._output_columns: int | None = None
        self._under_way: dict[int, tuple[Epoch, bool]] = {}

    @property
    def saves(self) -> bool:
        return self.operator.is_restorable

    @property
    def done(self) -> bool:
        return self.safe

    def model(self) -> dict[str, np.ndarray]:
        return returns.named_arrays(self.operator, "model", self.operator.model())

    def metrics(self) -> Mapping[str, float]:
        return returns.numbers(self.operator, "metrics", self.operator.metrics())

    @property
    def combines(self) -> Mapping[str, str]:
        return self.operator.combines

    def restore(self, state: Block | None, items: Sequence[Block] = ()) -> None:
        """Go on from what a former life saved (see `_save`); from the beginning when that is nothing."""
        if state is None:
            return
        meta, count = state.meta, state.meta["feedback"]
        feedback = tuple(np.array(array) for array in state.arrays[:count])
        self.operator.restore(dict(zip(meta["names"], state.arrays[count:])))
        if feedback:
            self.operator.processor.process_feedback(feedback)
        self._feedback = Block(Kind.FEEDBACK, state.epoch, arrays=feedback)
        self.epoch = self._saved = state.epoch
        self.items, self.lost, self.finished = meta["items"], meta["lost"], meta["last"]
        self.scheme.on_resume(self.port, state.epoch)
        self.journal.resume(meta["notes"])
        self.journal.durable(state.epoch)
        self.safe = self.finished

    def fits(self, items: np.ndarray) -> bool:
        return (items.dtype == np.float64 and items.ndim == 2) if self.scheme.linear else super().fits(items)

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        if block.kind == Kind.PUNCTUATION and "opened_at" in block.meta and block.epoch > self.epoch:
            self._opened_at[block.epoch] = opened_here(block.meta, self.port.now())
        super().on_block(edge, sender, block)

    def on_worker_restored(self, worker: WorkerId) -> None:
        """A new life takes its state from the newest feedback, a source its place in the stream."""
        if worker == self.layout.partner:
            self.port.send(self.layout.commit, worker, Block(Kind.ACK, self.epoch))
        elif worker in self.layout.processors:
            self.port.send(self.layout.feedback, worker, self._feedback)
        super().on_worker_restored(worker)

    def work(self) -> bool:
        """Save what was not saved at its commit."""
        if self._saved < self.epoch:
            self._save()
        return False

    def on_durable(self, number: int) -> None:
        """Announce what is durable now."""
        done = [self._under_way.pop(saved) for saved in sorted(self._under_way) if saved <= number]
        if done:
            epoch, last = done[-1]
            self.journal.durable(epoch)
            self.safe |= last
        super().on_durable(number)

    def process(self, ready: Ready) -> None:
        for entry in ready:
            if isinstance(entry, Boundary):
                self._commit(entry)
            else:
                self._results.setdefault(entry.epoch, {})[entry.key] = self._result(entry)

    def _result(self, block: Block) -> Sequence[np.ndarray]:
        if block.kind == Kind.RESULT:
            return self._delivered(block)
        self.port.count("recomputed_items", block.items)  # decoded data: LEC's Recompute
        if self.scheme.linear:
            return self._of_linear(block.arrays[0])
        return returns.result(self.operator, "recompute", self.operator.recompute(block.arrays[0]))

    def _delivered(self, block: Block) -> Sequence[np.ndarray]:
        """A result as its processor sent it; of linear work that is the linear part alone."""
        if self.scheme.linear and self.operator.processor.is_linear:
            assert block.attachment is not None, "the scheme admits no other"
            return self._of_linear(block.attachment)
        return block.arrays

    def _of_linear(self, linear: np.ndarray) -> Sequence[np.ndarray]:
        return returns.result(self.operator, "recompute_linear", self.operator.recompute_linear(linear))

    def _commit(self, boundary: Boundary) -> None:
        results = self._results.pop(boundary.epoch, {})
        for key in sorted(results):
            self.operator.aggregate(results[key])
        feedback = returns.arrays(self.operator, "commit", self.operator.commit(boundary.epoch))
        if self.must_be_finite and not are_finite(feedback):
            check_model(boundary.epoch, self.model())
        if self.layout.trains:
            self.operator.processor.process_feedback(feedback)
        self.epoch = boundary.epoch
        self.items += boundary.items - boundary.lost
        self.lost += boundary.lost
        self._announce(boundary, feedback)
        self.scheme.on_epoch(self.port, boundary.epoch, boundary.items, boundary.last)
        now = self.port.now()
        self.finished = boundary.last
        latency_s = now - self._opened_at.pop(boundary.epoch, now)
        self.journal.committed(boundary, latency_s, self._outputs())
        self._save()

    def _outputs(self) -> np.ndarray | None:
        rows = returns.outputs(self.operator, self.operator.outputs(), self._output_columns)
        self._output_columns = self._output_columns if rows is None else rows.shape[1]
        return rows

    def _announce(self, boundary: Boundary, feedback: Sequence[np.ndarray]) -> None:
        # the operator may go on changing its own arrays
        copies = tuple(np.array(array) for array in feedback) if self.layout.trains else ()
        self._feedback = Block(Kind.FEEDBACK, boundary.epoch, arrays=copies)
        for processor in self.layout.processors:
            self.port.send(self.layout.feedback, processor, self._feedback)
        self.port.send(self.layout.commit, self.layout.partner, Block(Kind.ACK, boundary.epoch))

    def _save(self) -> None:
        """Persist all that `restore` needs: the feedback's arrays, then those of the operator's snapshot.

        A later save makes up for one that comes too soon after another, or when too many are under way.
        """
        now = self.port.now()
        if len(self._under_way) >= SAVES_MAX or (now < self._save_at and not self.finished):
            return
        snapshot = self._snapshot() if self.operator.is_restorable else {}
        feedback = self._feedback.arrays
        meta = {
            "feedback": len(feedback),
            "names": list(snapshot),
            "items": self.items,
            "lost": self.lost,
            "last": self.finished,
            "notes": self.journal.notes(),
        }
        number = self.port.save("state", self.epoch, meta, (*feedback, *snapshot.values()))
        if number:
            self._saved, self._save_at = self.epoch, now + SAVE_EVERY_S
            self._under_way[number] = (self.epoch, self.finished)

    def _snapshot(self) -> dict[str, np.ndarray]:
        return returns.named_arrays(self.operator, "snapshot", self.operator.snapshot(), kept=True)
