"""The interfaces that a source, a processor and a sink implement, and nothing about who calls them.

They are the user-defined interfaces of the StreamLEC paper (III-B, Listing 1) in snake case, on blocks: one call takes
a matrix of many consecutive items, one item a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators.learning.classes import CLASSES, Classes
from riprap.operators.tables import Schema, Table, plain_tables

Arrays = Sequence[np.ndarray]
SAMPLE_ITEMS = 4096
Empty = Callable[[tuple[int, ...], np.dtype], np.ndarray]


@dataclass(frozen=True)
class Context:
    """The facts that an operator learns when it is opened.

    `columns` names the columns of an item, the label among them (a source is opened before they are known: empty).
    `seed` is the job's. `index` counts this task among the `parallelism` tasks of its stage. `input` is the job's
    input: path, repeat, limit, verify, bad_rows; and `verified`, the fingerprints of the directories that were (see
    operators/inputs/shard_checks.py). `empty(shape, dtype)` is where a source had best make the items that it hands
    out: as np.empty, but in memory that other workers of the host may read, if there is such memory.

    For a DataflowOperator `upstream` and `downstream` give the tasks of each neighbouring stage by data edges,
    and what is said of columns, label and input is left out.
    """

    columns: tuple[str, ...] = ()
    label: str | None = None
    seed: int = 0
    index: int = 0
    parallelism: int = 1
    input: Mapping[str, Any] = field(default_factory=dict)
    empty: Empty = np.empty
    classes: Classes = CLASSES
    """The labels of the two classes, where the job's operators tell two apart."""
    moments: np.ndarray | None = None
    """Second moments of the features and of a 1 behind them in the sources' samples, where the sink wants them
    (operators/learning/curvature.py)."""
    upstream: Mapping[str, int] = field(default_factory=dict)
    downstream: Mapping[str, int] = field(default_factory=dict)

    @property
    def fan_out(self) -> int:
        """The number of tasks downstream, where there is one stage; 0 at a destination."""
        return next(iter(self.downstream.values()), 0)

    @property
    def label_index(self) -> int | None:
        """The column of the label; None when the items have none. ConfigError when it is not among the columns."""
        if self.label is None:
            return None
        if self.label not in self.columns:
            raise ConfigError(
                f"the label column {self.label!r} is not among the columns {', '.join(self.columns)}",
                "Name one of the columns of the input's manifest as its label.",
            )
        return self.columns.index(self.label)

    @property
    def feature_indexes(self) -> tuple[int, ...]:
        """The columns that are not the label, in order."""
        return tuple(i for i, name in enumerate(self.columns) if name != self.label)

    @property
    def features(self) -> int:
        """Number of columns that are not the label."""
        return len(self.feature_indexes)


class Operator:
    """Base of all operators. Options of a stage are keyword arguments of the constructor."""

    def open(self, context: Context) -> None:
        """Called once, before any other method, in the process and on the thread that will run the operator."""

    @classmethod
    def tables(cls, results: Sequence[Mapping[str, np.ndarray]], schema: Schema) -> dict[str, Table]:
        """The job's results as people read them, by name, the main one first; asked where the operator ends a stream.

        `results` are what each of its tasks computed (`model`, `results`). Called on the class, after the job, for
        `riprap show`: it must not need the input. Unless overridden, arrays of one length are columns of `result`.
        """
        return plain_tables(results)


class Source(Operator):
    """Yields a stream of items that can be read again from any position."""

    items: int | None = None
    """Number of items of this task's stream; set by `open`. None where it has no end: then the job goes on until it is
    drained."""

    def schema(self) -> tuple[tuple[str, ...], str | None]:
        """Names of an item's columns, and of the label column; called after `open`."""
        raise NotImplementedError

    def read(self, start: int, stop: int) -> np.ndarray:
        """Items [start, stop) of this task's stream: 2-D, float64, C-contiguous, perhaps a read-only view.

        The same bytes each time, in each incarnation: this is what a lost job is replayed from.
        Invariant: 0 <= start <= stop <= items, where there is an end.
        """
        raise NotImplementedError

    def sample(self) -> Iterator[tuple[int, np.ndarray]]:
        """Runs of items, each with the number of its first: what of the stream is looked at before a job starts.

        The first items, where a class knows no better.
        """
        count = SAMPLE_ITEMS if self.items is None else min(SAMPLE_ITEMS, self.items)
        yield 0, self.read(0, count)


class Processor(Operator):
    """Turns blocks of items into results, by a state that only feedback changes."""

    tells_classes: bool = False
    """True when it needs a label of two classes; asked once it is open, and the source's sample is then checked."""

    def process_data(self, items: np.ndarray) -> Arrays:
        """The result of a block: a pure function of the items and the state, to the last bit.

        `items` is read-only and perhaps misaligned; it must be neither changed nor kept. The arrays returned are the
        caller's. A processor that splits its work into `process_linear` and `process_nonlinear` need not override this.
        """
        return self.process_nonlinear(self.process_linear(items), items)

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        """The linear part, for hybrid coded computation (LEC III-D): one row of float64 per item, by a linear map.

        It is called with parity too, so that f(a X + b Y) = a f(X) + b f(Y) must hold: no intercept, no item's norm,
        and f(0) = 0. What is not linear, an intercept among it, belongs into `process_nonlinear`.
        """
        raise NotImplementedError

    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> Arrays:
        """The result of a block from its linear part. At a sink `items` is None: only the linear part is there.

        A processor whose work is linear leaves this as it is: the linear part is its result.
        """
        return (linear,)

    @property
    def is_hybrid(self) -> bool:
        """True when this processor splits its work."""
        return type(self).process_linear is not Processor.process_linear

    @property
    def is_linear(self) -> bool:
        """True when its work is linear: under hybrid coded computation the linear part alone travels then (LEC III-D).

        The sink calls `recompute_linear` for every block then. A subclass whose `process_nonlinear` costs the sink
        nothing to speak of may say so too.
        """
        return self.is_hybrid and type(self).process_nonlinear is Processor.process_nonlinear

    def process_feedback(self, feedback: Arrays) -> None:
        """Replace the state by what the sink committed; a fresh processor may start from any feedback.

        The arrays are valid during the call only: copy what is kept.
        """
        raise NotImplementedError


class Sink(Operator):
    """Sums results up and commits a new state per epoch."""

    combines: ClassVar[Mapping[str, str]] = {}
    """Combination of several tasks' metrics into the job's: name -> "sum", or "mean" (weighted by their items).

    One that is not named is reported for each task.
    """

    meanings: ClassVar[Mapping[str, str]] = {}
    """Meaning of each metric: name -> a sentence without its end, for the tables of `riprap operators`."""

    wants_moments: bool = False
    """True when it needs the second moments of the features; asked once it is made, and the sources' samples tell."""

    processor: Processor
    """A processor like those upstream, with the same state; set before `open`."""

    def aggregate(self, result: Arrays) -> None:
        """Take one block's result in. All results of an epoch come in a fixed order; the arrays may be read-only."""
        raise NotImplementedError

    def recompute(self, items: np.ndarray) -> Arrays:
        """The result of a block that no processor delivered; called with decoded items."""
        return self.processor.process_data(items)

    def recompute_linear(self, linear: np.ndarray) -> Arrays:
        """The same from the linear part of a block, under hybrid coded computation: decoded, or all that was sent."""
        return self.processor.process_nonlinear(linear, None)

    def commit(self, epoch: int) -> Arrays:
        """End the epoch (counted from 1) and return the new state, which is sent to all processors as feedback.

        Whoever calls this passes the state to `self.processor.process_feedback` too.
        """
        raise NotImplementedError

    def model(self) -> dict[str, np.ndarray]:
        """The model so far, by name, always in the same order."""
        raise NotImplementedError

    def outputs(self) -> np.ndarray | None:
        """Rows (2-D, float64) that the epoch just committed adds to the job's output file; None where there is none.

        Asked once after each commit; the number of columns never changes.
        """
        return None

    @classmethod
    def output_columns(cls, count: int) -> list[str]:
        """The names of the `count` columns of `outputs`."""
        return ["output"] if count == 1 else [f"output{number}" for number in range(count)]

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that the last commit left behind and the next ones depend on, metrics among it; saved with each epoch.

        A sink that does not define this and `restore` cannot be restored: its loss ends the job.
        """
        raise NotImplementedError

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Become the sink that `snapshot` was taken from, to the last bit; called once, after `open`.

        The state that its last commit returned is saved beside it, and handed to `self.processor` by the caller.
        """
        raise NotImplementedError

    @property
    def is_restorable(self) -> bool:
        """True when this sink defines `snapshot` and `restore`."""
        return type(self).snapshot is not Sink.snapshot and type(self).restore is not Sink.restore

    def metrics(self) -> dict[str, float]:
        """Metrics of the job up to the last commit; a small dictionary."""
        return {}
