"""Reads libsvm's sparse text: a label, then index:value pairs, `#` before a comment, qid skipped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from riprap.prep_spark.cells import parse_pairs
from riprap.prep_spark.formats import Reason
from riprap.prep_spark.reading import Fault, Lines, Parsed, Parser, shown
from riprap.prep_spark.tables import Table

COLON = ord(":")
EXPECTED = {
    Reason.NUMBER: "a label, which is a number",
    Reason.PAIR: "index:value, two numbers",
    Reason.FINITE: "finite numbers",
    Reason.INDEX: "an index of at least 1",
    Reason.DUPLICATE: "each index once",
}


class Extent(NamedTuple):
    """Extent of a file's pairs: the number of features, and the most pairs of a line."""

    features: int
    pairs: int


@dataclass(frozen=True)
class LibsvmReader:
    """The lowest index `first`, the number of `features`, and the most `pairs` of a row, 0 for dense rows.

    Dense rows are the label and each feature; sparse ones the label, `pairs` indexes from 0, and as many values.
    Features beyond are left out and counted: a transform made elsewhere does not know them.
    """

    first: int
    features: int
    pairs: int = 0
    unit: str = "line"

    @property
    def width(self) -> int:
        """Numbers of a parsed row, the label first."""
        return 1 + (2 * self.pairs or self.features)

    def parser(self, at_start: bool) -> Parser:
        """A parser for a split."""
        return LibsvmParser(self)


class LibsvmParser:
    """Parses one split, batch by batch."""

    skipped = 0

    def __init__(self, reader: LibsvmReader) -> None:
        self._reader = reader
        self._lines = Lines(np.zeros(1, np.int32), np.zeros(0, np.uint8))
        self.tables: list[Table | None] = []
        self.unseen = 0
        """Pairs whose index is beyond the features."""

    def parse(self, batch: Lines) -> Parsed | Fault:
        """The rows of one batch of lines."""
        self._lines = batch
        labels, bounds, indexes, values, reasons, places = parsed_pairs(batch, self._reader.first)
        odd = np.append(~np.isfinite(values), False)  # their sum would not tell: it may overflow
        finite = ~np.logical_or.reduceat(odd, bounds[:-1]) | (np.diff(bounds) == 0)
        finite &= np.isfinite(labels)
        lines, counts = np.flatnonzero(reasons == Reason.NONE), np.diff(bounds)
        reasons[lines[~finite]] = Reason.FINITE
        row = np.repeat(np.arange(len(labels)), counts)
        place = np.arange(len(indexes)) - np.repeat(bounds[:-1], counts)
        known = indexes < self._reader.features
        self.unseen += len(known) - int(known.sum())
        row, place, indexes, values = row[known], place[known], indexes[known], values[known]
        rows = np.zeros((len(labels), self._reader.width), "<f8")
        rows[:, 0] = labels
        if pairs := self._reader.pairs:
            fits = place < pairs
            rows[row[fits], 1 + place[fits]] = indexes[fits]
            rows[row[fits], 1 + pairs + place[fits]] = values[fits]
        else:
            rows[row, 1 + indexes] = values
        return Parsed(rows[finite], reasons, places)

    def explain(self, line: int, reason: Reason, place: int) -> Fault:
        """The reason why a line of the batch that was parsed last gives no row."""
        text = self._lines.line(line).decode("utf-8", "replace")
        remedy = "give --zero-based if the indexes of the file begin at 0" if reason == Reason.INDEX else ""
        found = text if reason == Reason.FINITE else (text[place:].split() or [""])[0]
        fault = Fault(line + 1, f"column {place + 1}", EXPECTED[reason], shown(found))
        return fault._replace(remedy=remedy) if remedy else fault


def parsed_pairs(
    batch: Lines, first: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Labels, bounds, indexes (from 0) and values of the lines that give rows; reasons and places of all lines."""
    offsets, text = batch
    lines = batch.num_rows
    room = int(np.count_nonzero(text[offsets[0] : offsets[-1]] == COLON)) + 1
    labels, bounds = np.empty(lines), np.empty(lines + 1, np.int64)
    indexes, values = np.empty(room, np.int64), np.empty(room)
    reasons, places = np.empty(lines, np.uint8), np.empty(lines, np.int32)
    kept = parse_pairs(offsets, text, first, labels, bounds, indexes, values, reasons, places)
    pairs = bounds[kept]
    return labels[:kept], bounds[: kept + 1], indexes[:pairs] - first, values[:pairs], reasons, places


def extent(batches: Iterable[Lines], first: int) -> Extent:
    """Extent of the pairs of a split; lines that give no row do not count."""
    found = Extent(0, 0)
    for batch in batches:
        _, bounds, indexes, _, _, _ = parsed_pairs(batch, first)
        highest = int(indexes.max(initial=-1)) + 1
        found = Extent(max(found.features, highest), max(found.pairs, int(np.diff(bounds).max(initial=0))))
    return found
