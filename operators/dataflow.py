"""The interface of operators of any graph of stages (AF 3.3, Appendix C): data, feedback and punctuation in, items out.

Like all operators it knows no engine. Blocks of many items are handed over; what is promised is promised per item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from riprap.operators.base import Operator
from riprap.operators.states.base import State
from riprap.operators.states.checks import Keys
from riprap.operators.tables import Arrays as Named
from riprap.operators.tables import Columns, Table, joined, plain_columns

Arrays = Sequence[np.ndarray]


class Items(NamedTuple):
    """A block of `count` items. Which arrays it holds is agreed between the stages; they are read-only.

    `stage` and `task` say whose output it is; the stage is "" for items of the job's input. `epoch` is the window that
    the items belong to, counted from 1.
    """

    epoch: int
    stage: str
    task: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs
    arrays: tuple[np.ndarray, ...]


class Emitter(Protocol):
    """The outlet of an operator. Arrays are handed over: they must not change any more."""

    def send(self, arrays: Arrays, count: int, to: int | None = None, stage: str | None = None) -> None:
        """A block of `count` items to the next stage (`stage`, where there are several).

        `to` is the index of the task that gets it. Without it the edge's partitioning decides: one_to_one and merge the
        partner, split the next in turn, full all of them.
        """

    def send_by_key(self, keys: Keys, columns: Arrays = (), stage: str | None = None) -> None:
        """Each key with its row of the columns to the task of the next stage that has the key, today and after any
        rescaling; the edge's partitioning must be full.

        Keys are int64, or byte strings as a pair of bytes (uint8) and n + 1 offsets (int64). The task gets its keys, in
        the same form, and the columns behind them, in the order in which they are given; a key is an item.
        """

    def feed_back(self, arrays: Arrays, count: int = 1, to: int | None = None, stage: str | None = None) -> None:
        """The same against the stream, on the feedback edge."""

    def write(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """A file of this task's window, `output/NAME.TASK.EPOCH.npz`: it is there whole, or not at all."""

    def watermark(self, at: int) -> None:
        """Promise that nothing older than the event time `at` will be sent: a whole number, of any unit. It holds from
        the end of the window on, and never goes back. A task that never promises anything passes on the promises to it.
        """

    def idle(self) -> None:
        """Excuse this task from a promise at the end of this window, unless it has made one in it."""

    @property
    def event_time(self) -> int | None:
        """The least promise of all who send to this task and are not idle, at the end of the last window; None while
        one of them has made none. In `process_punctuation` that is the window which is closed. FOREVER at the end.
        """

    @property
    def promised(self) -> int | None:
        """The last promise of this task, in this incarnation or one before; None while there is none."""


class DataflowOperator(Operator):
    """Base of the operators that any graph of stages may hold. A stage gives its options to the constructor by name.

    A source reads the job's input: it gets its blocks as `process_data` with the stage "".
    """

    state: State | None = None
    """The state, which is backed up and restored. All else that an operator keeps must follow from it, or is lost."""

    combines: ClassVar[Mapping[str, str]] = {}
    """Combination of several tasks' metrics into the job's: name -> "sum", or "mean" (weighted by their items).

    One that is not named is reported for each task.
    """

    meanings: ClassVar[Mapping[str, str]] = {}
    """Meaning of each metric: name -> a sentence without its end, for the tables of `riprap operators`."""
    writes: Sequence[str] = ()
    """The names under which it writes the rows of a window (`Emitter.write`); only these can go to the files that the
    topology's `output` names."""

    only_windows = False
    """True when it puts out nothing but the result of a window as it closes it. Such output is never lost, whatever the
    thresholds are (AF 3.4.2: punctuation)."""

    correlated_inputs = False
    """True when it joins its input streams, one for each edge: what is lost of one makes its partners in the others
    useless. `riprap plan` takes account of it (PPA III-A)."""

    needs_order = False
    """True when the blocks that a loop of it puts out depend on the order in which its peers' blocks come: a new
    incarnation must get these in the same order again, or all tasks must go back together."""

    def prepare(self, items: Items) -> Items:
        """Does the work on a block that needs no state: its result is handed to `process_data` in place of the block.

        A stage of N `threads` calls it in N - 1 helpers, and where these are busy in the thread that owns the state:
        for several blocks at once, in any order, before the turn of the block has come (AF 3.2). So it must neither
        read nor write the state, nor any field that changes. It gets every block of data once in each incarnation of
        the worker, whole; feedback it does not get. Only arrays may be replaced: `items._replace(arrays=...)`. The
        count stays, and `first` goes on counting the items of the block as it came, of which a state may include some.
        Whatever the number of threads, `process_data` is called in the order of receipt, by one thread.
        """
        return items

    @property
    def iterating(self) -> bool:
        """True while the window that `process_punctuation` was called for last is to stay open: a loop goes on.

        Asked after that call and after each `process_feedback`. Until it is False no item of a later window is
        processed, and all that is put out belongs to the window. It must follow from the state alone.
        """
        return False

    @property
    def prepares(self) -> bool:
        """True when its class defines `prepare`; without it, several threads would not help."""
        return type(self).prepare is not DataflowOperator.prepare

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Process items first, first + 1, ... and return the number of the first that is left. Items are prepared.

        That is `items.count`, unless the state exceeds its theta: then it stops there, a backup is made, and it is
        called again for the rest. Output of the items must be sent before it returns.
        """
        raise NotImplementedError

    def process_feedback(self, items: Items, out: Emitter) -> None:
        """Take in feedback from downstream."""

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        """All upstream tasks have closed this window. Each window comes once, in order."""

    def recovered(self, theta: float, items: float) -> None:
        """The state was restored after a failure; it may lack updates that add up to `theta`, and `items` items, a
        whole number. Either is infinite where there is no bound.

        An operator whose guarantee is one-sided compensates here (AF 6.1.2, Experiment 3).
        """

    is_restorable = True
    """False for a destination that cannot go on from what a former incarnation saved."""

    def process_recovery(self, out: Emitter) -> None:
        """The state is that of a former incarnation: feed back what a coded stage before this one computes with."""

    def outputs(self) -> np.ndarray | None:
        """Rows (2-D, float64) that the window just closed adds to the job's output file; None where there is none.

        Asked at destinations, once after each window; the number of columns never changes.
        """
        return None

    def results(self) -> dict[str, np.ndarray]:
        """The results so far, by name, always in the same order; a destination's are written at the end."""
        return {}

    @classmethod
    def window_columns(cls, name: str, arrays: Named) -> dict[str, np.ndarray]:
        """Its rows of a window under `name`, as columns with names, for people and for the files of `output`.

        Columns are 1-D arrays of one length: of numbers, booleans, or text (dtype object). Unless overridden, the
        arrays themselves; ValueError when their lengths differ.
        """
        return plain_columns(arrays)

    @classmethod
    def whole(cls, name: str, windows: Sequence[Columns]) -> Table:
        """All windows' rows under `name` as one table, for people.

        `windows` are the columns of each window and task (`window_columns`) with the columns `window` and `written_by`
        before them, in the order of windows and tasks. Unless overridden, one behind the other.
        """
        return Table(joined(windows))

    def metrics(self) -> dict[str, float]:
        """Metrics of the job so far; a small dictionary."""
        return {}
