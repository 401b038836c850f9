"""The base of all readers of tables: the meaning of a cell, and the reasons why a line gives no row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from riprap.prep_spark.columns import Column, Layout
from riprap.prep_spark.formats import Reason
from riprap.prep_spark.tables import UNSEEN, Buckets, Codes, Dates, Known, Table

if TYPE_CHECKING:
    import pyarrow as pa

Policy = Literal["fail", "drop", "mean", "flag"]
EXPECTED = {"number": "a number", "date": "a date such as 2026-01-31 or 2026-01-31 12:00:00", "category": "UTF-8 text"}
REMEDIES = {
    "number": "repair it; or take the column with --categorical {name}, or name what stands for a missing value: --na",
    "date": "repair it, or take the column with --categorical {name}",
    "category": "convert the file, for example: iconv -f LATIN1 -t UTF-8",
}
DROP = "repair the file, or drop and count such rows with --bad-rows drop"


class Parsed(NamedTuple):
    """The rows of some lines, packed, and of each line the `Reason` and, where that is a fault, the place."""

    rows: np.ndarray
    reasons: np.ndarray
    places: np.ndarray


class Fault(NamedTuple):
    """The first line of a split that stops the job; `line` counts from 1 within the split."""

    line: int
    place: str
    expected: str
    found: str
    remedy: str = DROP


class Parser(Protocol):
    """Parses one split, batch by batch."""

    skipped: int
    """Lines that are no rows, such as a header."""
    tables: list[Table | None]
    """The meaning of cells, by slot; the codes among them are the categories that were met."""

    def parse(self, batch: Any) -> Parsed | Fault:
        """The rows of one batch, `Lines` or Arrow's columns; a Fault when the split cannot be read at all."""

    def explain(self, line: int, reason: Reason, place: int) -> Fault:
        """The reason why a line of the batch that was parsed last (from 0) gives no row; `place` as in Parsed."""


class Reader(Protocol):
    """The reading of a format; picklable."""

    @property
    def width(self) -> int:
        """Numbers of a parsed row, the label first."""

    @property
    def unit(self) -> str:
        """The unit that messages count: a line, or a row."""

    def parser(self, at_start: bool) -> Parser:
        """A parser for a split, which may be the start of its file."""


@dataclass(frozen=True)
class Reading:
    """The meaning of cells. `buckets`: categories are hashed; `known`: the categories of a transform, by column."""

    layout: Layout
    missing: frozenset[bytes]
    policy: Policy
    buckets: int | None
    categories_max: int
    known: Mapping[str, tuple[str, ...]] | None = None

    def tables(self) -> list[Table | None]:
        """The meaning of cells, by slot; None for numbers."""
        return [self._table(slot, column) for slot, column in enumerate(self.layout.columns)]

    def _table(self, slot: int, column: Column) -> Table | None:
        if column.kind == "number":
            return None
        if column.kind == "date":
            return Dates()
        if slot and self.buckets:
            return Buckets(column.name, self.buckets)
        if self.known is not None:
            return Known(self.known[column.name])
        return Codes(column.name, self.categories_max)

    def screened(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each parsed row the reason to refuse it after all, and the slot to blame.

        NaN is missing: the label's always a reason, a feature's unless it is to be replaced. An unseen label is none.
        """
        reasons, slots = np.zeros(len(rows), np.uint8), np.zeros(len(rows), np.int32)
        with np.errstate(over="ignore", invalid="ignore"):
            suspects = np.flatnonzero(~np.isfinite(rows.sum(axis=1)))
        bad = ~np.isfinite(rows[suspects]) if self.policy in ("fail", "drop") else np.isinf(rows[suspects])
        bad[:, 0] = ~np.isfinite(rows[suspects, 0])
        guilty = bad.any(axis=1)
        suspects, slot = suspects[guilty], bad[guilty].argmax(axis=1)
        reasons[suspects] = np.where(np.isnan(rows[suspects, slot]), Reason.MISSING, Reason.FINITE)
        slots[suspects] = slot
        if self.known is not None and self.layout.columns[0].kind == "category":
            reasons[rows[:, 0] == UNSEEN] = Reason.LABEL
        return reasons, slots

    def fault(self, line: int, reason: Reason, column: Column, found: str) -> Fault:
        """The fault of one cell."""
        place = f"column {column.place + 1} ({column.name})"
        if reason == Reason.MISSING:
            is_label = column == self.layout.columns[0]
            remedy = "drop such rows with --missing drop" if is_label else "give --missing drop, mean or flag"
            return Fault(line, place, "a value", found, remedy)
        if reason == Reason.FINITE:
            return Fault(line, place, "a finite number", found)
        if reason == Reason.LABEL:
            classes = ", ".join((self.known or {}).get(column.name, ()))
            return Fault(line, place, f"one of the label's classes, {classes}", found)
        return Fault(line, place, EXPECTED[column.kind], found, REMEDIES[column.kind].format(name=column.name))


class Lines(NamedTuple):
    """Some lines, which may still have their ends: line i is text[offsets[i]:offsets[i + 1]]."""

    offsets: np.ndarray
    text: np.ndarray

    @property
    def num_rows(self) -> int:
        """Their number."""
        return len(self.offsets) - 1

    def line(self, number: int) -> bytes:
        """One of them, without its end."""
        return self.text[self.offsets[number] : self.offsets[number + 1]].tobytes().rstrip(b"\r\n")


def lines_of(batch: pa.RecordBatch) -> Lines:
    """The lines of a batch of Spark's."""
    array = batch.column(0)
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return Lines(bounds, np.frombuffer(data or b"", np.uint8))


def shown(text: str, length_max: int = 60) -> str:
    """A piece of input as a message shows it."""
    return repr(text if len(text) <= length_max else text[:length_max] + "...")
