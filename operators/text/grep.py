"""Grep over lines of text (AF Table 3): matching lines are found at the source, merged and written downstream."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.options import Option, check
from riprap.operators.states.base import Backup, State
from riprap.operators.tables import Columns, Schema, Table, joined, lines_of, ordered
from riprap.operators.text.line_pattern import LinePattern
from riprap.operators.text.text import checksum, matching_lines, take_lines

_META = frozenset(b"\\.^$*+?{}[]|()")


class Grep(DataflowOperator):
    """Source stage: sends the lines that match `pattern`, in their order.

    A pattern without metacharacters is searched as a substring, at memory speed; any other is a regular expression of
    Python's `re` over bytes, which one thread at a time can search. So several threads gain little here.
    """

    def __init__(
        self,
        pattern: Annotated[
            str, Option("What to look for: a substring, or a regular expression of Python", example="whale")
        ],
    ) -> None:
        check(self, pattern=pattern)
        self._needle = pattern.encode()
        try:
            self._expression = LinePattern(self._needle) if _META & set(self._needle) else None
        except re.error as error:
            raise ConfigError(f"the option pattern is no regular expression: {error}", "Correct pattern.") from error

    def prepare(self, items: Items) -> Items:
        """Lines: bytes (uint8) without line ends, and count + 1 offsets (int64). To those that match."""
        try:
            data, offsets = items.arrays
            numbers = self._matching(data, offsets)
            matched = take_lines(data, offsets, numbers)
        except (ValueError, TypeError) as error:
            raise DataError(f"the input has no lines: {error}", "Prepare it with riprap prep text.") from error
        return items._replace(arrays=matched)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """The lines prepared of a whole block: there is no state to include a part of it."""
        lines = len(items.arrays[1]) - 1
        if lines:
            out.send(items.arrays, lines)
        return items.count

    def _matching(self, data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        if self._expression is None:
            return matching_lines(data, offsets, self._needle, 0)
        return self._expression.matching(data, offsets, 0)


class Part(NamedTuple):
    """Lines that one task sent in one block."""

    epoch: int
    task: int
    data: np.ndarray
    offsets: np.ndarray


class MergedLines(State):
    """The lines of the open windows, and how many came and their checksum. Divergence: lines since the last backup.

    A window that is closed is in its file: what is not saved of it by then never will be, and what was saved of it is
    dropped when the next window is closed.
    """

    window = "hopping"

    def __init__(self) -> None:
        self.saved: list[Part] = []
        self.unsaved: list[Part] = []
        self.lines = 0
        self.checksum = 0
        self._divergence = 0

    @property
    def parts(self) -> list[Part]:
        """The parts in the order in which they came."""
        return self.saved + self.unsaved

    def add(self, part: Part) -> None:
        """Take in a block of lines. ValueError when it is none."""
        self.checksum = (self.checksum + checksum(part.data, part.offsets)) % 2**64
        self.lines += len(part.offsets) - 1
        self._divergence += len(part.offsets) - 1
        self.unsaved.append(part)

    def close(self, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Drop a window's lines and return them, by task and in the order in which it sent them, and their tasks."""
        closed = sorted((part for part in self.parts if part.epoch == epoch), key=lambda part: part.task)
        self.saved = [part for part in self.saved if part.epoch > epoch]
        self.unsaved = [part for part in self.unsaved if part.epoch > epoch]
        tasks = [np.full(len(part.offsets) - 1, part.task) for part in closed]
        return *joined_lines(closed), np.concatenate([np.empty(0, np.int64), *tasks])

    def state_divergence(self) -> float:
        return float(self._divergence)

    def backup_state(self) -> Backup:
        return self._backup(False, self.unsaved)

    def backup_all(self) -> Backup:
        return self._backup(True, self.parts)

    def _backup(self, full: bool, parts: list[Part]) -> Backup:
        parts = sorted(parts, key=lambda part: (part.epoch, part.task))
        data, offsets = joined_lines(parts)
        groups = groupby(parts, key=lambda part: (part.epoch, part.task))
        counts = [(*which, sum(len(part.offsets) - 1 for part in group)) for which, group in groups]
        about = np.array(counts, np.int64).reshape(-1, 3)
        merged = parts_of(about, data, offsets)
        self.saved, self.unsaved, self._divergence = [*([] if full else self.saved), *merged], [], 0
        return Backup(full, (np.array([self.lines, self.checksum], np.uint64), about, data, offsets))

    def recover_state(self, backup: Backup) -> None:
        if [(a.dtype, a.ndim) for a in backup.arrays] != [(np.uint64, 1), (np.int64, 2), (np.uint8, 1), (np.int64, 1)]:
            raise ValueError("a backup of lines does not consist of such arrays")
        totals, about, data, offsets = backup.arrays
        if totals.shape != (2,) or about.shape[1] != 3 or (about < 0).any() or about[:, 2].sum() != len(offsets) - 1:
            raise ValueError("a backup of lines whose counts do not agree")
        checksum(data, offsets)
        parts = parts_of(about, data, offsets)
        self.saved, self.unsaved, self._divergence = parts if backup.full else self.parts + parts, [], 0
        self.lines, self.checksum = (int(value) for value in totals)


def joined_lines(parts: list[Part]) -> tuple[np.ndarray, np.ndarray]:
    """The lines of all parts, one after the other, as arrays of their own."""
    data = [part.data[part.offsets[0] : part.offsets[-1]] for part in parts]
    ends = np.concatenate([np.zeros(1, np.int64), *(part.offsets for part in parts)])
    before = np.cumsum([0, *(len(part.offsets) for part in parts)])[:-1]  # from one part to the next there is no line
    lengths = np.delete(np.diff(ends), before)
    return np.concatenate([np.empty(0, np.uint8), *data]), np.concatenate([np.zeros(1, np.int64), lengths]).cumsum()


def parts_of(about: np.ndarray, data: np.ndarray, offsets: np.ndarray) -> list[Part]:
    """Lines that follow each other, by rows of window, task and number of lines."""
    found, line = [], 0
    for epoch, task, count in about.tolist():
        found.append(Part(epoch, task, data, offsets[line : line + count + 1]))
        line += count
    return found


class MergeLines(DataflowOperator):
    """Destination: writes the lines of each window, by the task that sent them and in their order, and counts them."""

    combines: ClassVar[Mapping[str, str]] = {"lines": "sum"}
    meanings: ClassVar[Mapping[str, str]] = {"lines": "lines that matched"}
    writes = ("lines",)

    def __init__(self) -> None:
        self.state: MergedLines = MergedLines()

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Lines, as many as theta allows."""
        data, offsets = items.arrays
        room = self.state.theta - self.state.state_divergence()
        last = items.count if room >= items.count - first else first + max(int(room), 0) + 1
        self.state.add(Part(items.epoch, items.task, data, offsets[first : last + 1]))
        return last

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        data, offsets, tasks = self.state.close(epoch)
        out.write("lines", {"bytes": data, "offsets": offsets, "tasks": tasks})

    @classmethod
    def window_columns(cls, name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Each line, and the `task` that sent it, which read its part of the input in order."""
        return {"task": arrays["tasks"], "line": lines_of(arrays["bytes"], arrays["offsets"])}

    @classmethod
    def tables(cls, results: Sequence[Mapping[str, np.ndarray]], schema: Schema) -> dict[str, Table]:
        """None: the lines are in the files of the windows."""
        return {}

    @classmethod
    def whole(cls, name: str, windows: Sequence[Columns]) -> Table:
        """The lines of all windows in the order of the input: sources read parts of it that follow each other."""
        columns = joined(windows)
        in_order = ordered(columns, np.argsort(columns["task"], kind="stable"))
        return Table({"line": in_order["line"]})

    def results(self) -> dict[str, np.ndarray]:
        """The number of `lines`, and their `checksum`: the same for the same lines in any order."""
        return {"lines": np.array([self.state.lines]), "checksum": np.array([self.state.checksum], np.uint64)}

    def metrics(self) -> dict[str, float]:
        return {"lines": float(self.state.lines)}
