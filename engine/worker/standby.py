"""The output of a destination that has a replica: one of its copies writes, and the other stands by (PPA V-B).

Both compute the same windows. The one on standby holds what it would write until it reads in `epochs.csv` that the
other has announced the window, which comes last. The controller says who writes; whoever is told so later begins
behind the last window that is announced, so nothing is missing and nothing is written twice. Nothing that is announced
is cut off the files in between: what has been saved may rely on it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.errors import JobFailed
from riprap.codec.ids import WorkerId
from riprap.engine.flow.digests import REMEDY
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.port import Boundary
from riprap.engine.flow.runs import Runs
from riprap.engine.flow.window_files import WindowFiles
from riprap.engine.worker.epochs_file import file_name, last_announced
from riprap.engine.worker.outputs import RowsFile, SinkOutputs
from riprap.operators.trial.arrays import differing_names

LOOK_S = 0.005
"""Between two looks at what is announced, while something is held and there is nothing else to do."""


class HeldFile(NamedTuple):
    """A file of a window that is not written yet."""

    files: WindowFiles
    name: str
    window: int
    arrays: dict[str, np.ndarray]

    def write(self) -> None:
        """Write it, unless it is there."""
        self.files.write(self.name, self.window, self.arrays)

    @property
    def path(self) -> Path:
        """Its place."""
        return self.files.path(self.name, self.window)

    @property
    def differs(self) -> bool:
        """True where another one is there; somebody may have taken it away."""
        try:
            with np.load(self.path) as there:
                return bool(differing_names(dict(sorted(there.items())), dict(sorted(self.arrays.items()))))
        except FileNotFoundError:
            return False


class HeldWindow(NamedTuple):
    """A closed window that another copy has not announced yet. Its first item was emitted at `emitted_at`, in monotonic
    seconds; `first` of its rows are behind those of all others."""

    boundary: Boundary
    emitted_at: float
    first: int
    rows: np.ndarray | None
    files: Sequence[HeldFile]


class StandbyOutputs:
    """The files of the copy `me`, which `open_outputs` opens: nobody does before `begin_to_write`. `announced` looks up
    the last window that whoever writes has announced, `written` so many rows of it from one on."""

    def __init__(
        self, me: WorkerId, announced: Callable[[], int], written: Callable[[int, int], np.ndarray],
        open_outputs: Callable[[], SinkOutputs],
    ) -> None:  # fmt: skip
        self._me, self._announced, self._written, self._open = me, announced, written, open_outputs
        self._outputs: SinkOutputs | None = None
        self._held: deque[HeldWindow] = deque()
        self._files: list[HeldFile] = []
        """Those of the window that is not closed yet."""
        self._rows = self._durable = self._known = 0
        """All rows that this copy has put out; the last window that may be announced, and the last known to be."""
        self._begun: tuple[int, int] | None = None
        self.stands_by = True
        """Until this copy is told to write."""
        self._is_other_clock = False

    @property
    def writes(self) -> bool:
        """True of the copy that writes: it was told to, and has closed all that is announced."""
        return self._outputs is not None

    @property
    def holds(self) -> bool:
        """True while another copy has yet to announce a window that was closed here."""
        if self._held:
            self._look()
        return bool(self._held)

    @property
    def others(self) -> int:
        """The last window that the other copy has announced, while that is the one to write; 0 later."""
        return self._known if self.stands_by else 0

    def begin_to_write(self, is_other_clock: bool) -> None:
        """Write from now on, once all is closed here that is announced; `is_other_clock`: who wrote before had
        another."""
        self.stands_by = False
        self._is_other_clock |= is_other_clock
        self._open_in_turn()

    def _open_in_turn(self) -> None:
        """Write all that is held, where it is time."""
        if self.stands_by:
            return
        self._look()
        if self._durable < self._known:
            return
        outputs = self._outputs = self._open()
        if self._begun is not None:
            outputs.begin(*self._begun)
        outputs.cut(self._held[0].first if self._held else self._rows)
        if self._is_other_clock:
            outputs.change_clock()
        now = time.monotonic()  # nobody could read any of it before
        for window in self._held:
            for file in window.files:
                file.write()
            outputs.add(window.boundary, now - window.emitted_at, window.rows, now)
        for file in self._files:
            file.write()
        outputs.durable(self._durable)
        self._held.clear()
        self._files.clear()

    def _look(self) -> None:
        """Hold what is announced by now no longer."""
        self._known = self._announced()
        while self._held and self._held[0].boundary.epoch <= self._known:
            self._compare(self._held.popleft())

    def _compare(self, window: HeldWindow) -> None:
        """JobFailed where the other copy has written other rows or files: then no takeover would be exact."""
        found = self._other_rows(window) or next((file.path.name for file in window.files if file.differs), "")
        if found:
            raise JobFailed(
                f"copies of {self._me.primary} differ: in window {window.boundary.epoch}, {self._me} has put out"
                f" another {found} than the one that writes",
                REMEDY,
            )

    def _other_rows(self, window: HeldWindow) -> str:
        """The first row that differs, in words; empty where none does."""
        if window.rows is None or not len(window.rows):
            return ""
        own = np.ascontiguousarray(window.rows, "<f8")
        theirs = self._written(window.first, len(own))
        if own.tobytes() == theirs.tobytes():
            return ""
        same = [a.tobytes() == b.tobytes() for a, b in zip(own, theirs, strict=False)]
        return f"row {[*same, False].index(False) + 1}"

    # what the task tells
    def committed(self, boundary: Boundary, latency_s: float, rows: np.ndarray | None) -> None:
        """A window is closed."""
        if self._outputs is not None:
            self._outputs.committed(boundary, latency_s, rows)
            return
        own = None if rows is None else np.array(rows)
        self._look()
        emitted_at = time.monotonic() - latency_s
        self._held.append(HeldWindow(boundary, emitted_at, self._rows, own, tuple(self._files)))
        self._rows += 0 if own is None else len(own)
        self._files.clear()

    def tentative(self, boundary: Boundary, latency_s: float, absent: Sequence[str], rows: np.ndarray | None) -> None:
        """Shown by the copy that writes, and by no other."""
        if self._outputs is not None:
            self._outputs.tentative(boundary, latency_s, absent, rows)

    def durable(self, epoch: int) -> None:
        """All up to this window may be announced."""
        self._durable = epoch
        if self._outputs is not None:
            self._outputs.durable(epoch)
        else:
            self._open_in_turn()

    def begin(self, epoch: int, items: int) -> None:
        """All up to this window was told by the job whose savepoint this one begins from."""
        self._begun, self._durable = (epoch, items), epoch

    def change_clock(self) -> None:
        """The former incarnation had another clock: it may be the one that wrote."""
        self._is_other_clock = True

    def cut(self, rows: int) -> None:
        """A former incarnation has put out so many rows up to where this one begins."""
        self._rows = rows

    def notes(self) -> dict[str, Any]:
        """None: windows are announced as they close."""
        return {}

    def resume(self, notes: Mapping[str, Any]) -> None:
        """There are no notes."""

    def write(self, files: WindowFiles, name: str, window: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a file of a window, or hold it."""
        if self.writes:
            files.write(name, window, arrays)
        else:
            self._files.append(HeldFile(files, name, window, {key: np.array(array) for key, array in arrays.items()}))

    # what the worker asks
    def note_metrics(self, task: Runs) -> None:
        """Note the task's metrics now and then."""
        if self._outputs is not None:
            self._outputs.note_metrics(task)

    def save_model(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the model, which is for the copy that writes to do."""
        assert self._outputs is not None, "a copy on standby is not done"
        self._outputs.save_model(arrays)

    @property
    def accounted(self) -> int:
        """The items of all windows that are announced; 0 on standby."""
        return 0 if self._outputs is None else self._outputs.accounted

    def stats(self, task: Runs) -> dict[str, Any]:
        """Statistics of the copy that writes."""
        return {} if self._outputs is None else self._outputs.stats(task)

    def close(self) -> None:
        """Close what is open."""
        if self._outputs is not None:
            self._outputs.close()


class CopiedFiles(WindowFiles):
    """The files of the windows of a copy: held, and written by whoever writes the output."""

    def __init__(self, files: WindowFiles, outputs: StandbyOutputs) -> None:
        self._files, self._outputs = files, outputs

    def tentative(self) -> WindowFiles:
        return TentativeFiles(self._files.tentative(), self._outputs)

    def write(self, name: str, window: int, arrays: Mapping[str, np.ndarray]) -> None:
        self._outputs.write(self._files, name, window, arrays)


class TentativeFiles(CopiedFiles):
    """Those of windows that lack something: of a copy on standby nobody needs them."""

    def write(self, name: str, window: int, arrays: Mapping[str, np.ndarray]) -> None:
        if self._outputs.writes:
            self._files.write(name, window, arrays)


Outputs = SinkOutputs | StandbyOutputs


def outputs_of(layout: Layout, run_dir: Path, attempt: int = 1, former: Outputs | None = None) -> Outputs | None:
    """The files of a worker that is a sink, in this attempt at its job; `former` were those before a rollback. Others
    must not so much as open them: a torn line would be cut off."""
    task, sinks = layout.me.primary, layout.sinks
    if task not in sinks:
        return None
    place = sinks.index(task), len(sinks)
    if not layout.copied:
        return SinkOutputs(run_dir, *place, attempt, former.opened_at if isinstance(former, SinkOutputs) else 0.0)
    epochs, rows = (run_dir / file_name(name, *place) for name in ("epochs.csv", "output.npy"))
    looks = partial(last_announced, epochs), RowsFile(rows).read
    return StandbyOutputs(layout.me, *looks, lambda: SinkOutputs(run_dir, *place, attempt))
