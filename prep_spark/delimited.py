"""Reads delimited text (CSV): cells that may be quoted, with or without a header in each file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riprap.prep_spark.cells import parse_cells
from riprap.prep_spark.formats import Reason
from riprap.prep_spark.inference import BOM, cells_of
from riprap.prep_spark.reading import Fault, Lines, Parsed, Parser, Reading, shown

BETWEEN = {",": "commas", "\t": "tabs", " ": "spaces"}


@dataclass(frozen=True)
class DelimitedReader:
    """`header` is the line that each file must begin with, None for files without one."""

    reading: Reading
    delimiter: str
    header: bytes | None
    unit: str = "line"

    @property
    def width(self) -> int:
        """Numbers of a parsed row, the label first."""
        return len(self.reading.layout.columns)

    def parser(self, at_start: bool) -> Parser:
        """A parser for a split; at the start of a file it takes the header."""
        return DelimitedParser(self, at_start)


class DelimitedParser:
    """Parses one split, batch by batch."""

    def __init__(self, reader: DelimitedReader, at_start: bool) -> None:
        layout = reader.reading.layout
        self._reader, self._at_start = reader, at_start
        self._header = reader.header if at_start else None
        self._lines = Lines(np.zeros(1, np.int32), np.zeros(0, np.uint8))
        self._slots = np.full(len(layout.file_columns), -1, np.int32)
        self._by_place: list[object] = [None] * len(layout.file_columns)
        self.skipped = 0
        self.tables = reader.reading.tables()
        for slot, (column, table) in enumerate(zip(layout.columns, self.tables)):
            self._slots[column.place] = slot
            self._by_place[column.place] = table

    def parse(self, batch: Lines) -> Parsed | Fault:
        """The rows of one batch of lines."""
        offsets, text = batch
        if self._at_start and batch.num_rows:
            self._at_start = False
            if text[offsets[0] : offsets[0] + len(BOM)].tobytes() == BOM:
                offsets = offsets + np.array([len(BOM), *[0] * (len(offsets) - 1)], np.int32)
        if self._header is not None:
            batch = Lines(offsets, text)
            place = next((n for n in range(batch.num_rows) if batch.line(n).strip()), None)
            if place is not None:
                if fault := self._other_header(place, batch.line(place)):
                    return fault
                self._header, offsets, self.skipped = None, offsets[place + 1 :], place + 1
        self._lines = Lines(offsets, text)
        rows = np.empty((len(offsets) - 1, self._reader.width), "<f8")
        reasons, places = np.empty(len(rows), np.uint8), np.empty(len(rows), np.int32)
        kept = parse_cells(
            offsets, text, self._reader.delimiter, self._slots, self._by_place,  # type: ignore[arg-type]
            self._reader.reading.missing, rows, reasons, places,
        )  # fmt: skip
        return Parsed(rows[:kept], reasons, places)

    def _other_header(self, number: int, line: bytes) -> Fault | None:
        """The fault of a line, counted from 0 in its batch, that is not the header of the first file."""
        header = self._reader.header or b""
        expected, found = self._cells(header), self._cells(line)
        if found == expected:
            return None
        place = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
        wanted = shown(header.decode("utf-8", "replace"))
        return Fault(
            number + 1, f"column {place + 1}", f"the header of the first file, {wanted}",
            shown(line.decode("utf-8", "replace")), "give files with the same columns in the same order",
        )  # fmt: skip

    def _cells(self, line: bytes) -> list[str]:
        text = line.removeprefix(BOM).decode("utf-8", "replace")
        return [cell.strip() for cell in cells_of(text, self._reader.delimiter)]

    def explain(self, line: int, reason: Reason, place: int) -> Fault:
        """The reason why a line of the batch that was parsed last gives no row."""
        reading = self._reader.reading
        text = self._lines.line(line).decode("utf-8", "replace")
        if reason == Reason.COLUMNS:
            between = BETWEEN.get(self._reader.delimiter, repr(self._reader.delimiter))
            expected = f"{len(self._slots)} columns separated by {between}"
            return Fault(line + 1, f"column {min(place, len(self._slots)) or 1}", expected, f"{place} in {shown(text)}")
        if reason == Reason.QUOTE:
            return Fault(line + 1, f"column {place + 1}", "a quote at the end of a quoted cell", shown(text))
        if reason in (Reason.MISSING, Reason.FINITE, Reason.LABEL):
            column = reading.layout.columns[place]
        else:
            column = reading.layout.columns[int(self._slots[place])]
        cells = self._cells(text.encode())
        return reading.fault(line + 1, reason, column, shown(cells[column.place]))
