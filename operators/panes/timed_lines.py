"""Lines of text with their event times: a source that reads them, and promises how late they may come."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.options import Option, check
from riprap.operators.panes.event_times import check_times, length
from riprap.operators.states.checks import PackedKeys, pack_keys
from riprap.operators.text.columns import column, numbers, whole_numbers

NO_NUMBER = (IndexError, OverflowError, ValueError)
"""Raised where a column is missing, or holds no number of 64 bits."""


class TimedLines(DataflowOperator):
    """Source stage: sends (time, key, value) of each line by key, and promises event time as it goes on.

    Times are whole numbers, keys too unless they are `text`, values are numbers. Lines may be `disorder` older than the
    newest before them in the same task's part of the input; the watermark is that far behind. Those that come later
    still are late items (a heuristic watermark), unless it is to be `perfect`: then they end the job. A task without
    lines in a window is idle.
    """

    def __init__(
        self,
        time: Annotated[int, Option("Where event times stand, the first column being 0", unit="column", low=0)] = 0,
        key: Annotated[int, Option("Where keys stand", unit="column", low=0)] = 1,
        value: Annotated[int, Option("Where values stand; -1: each is 1", unit="column", low=-1)] = -1,
        separator: Annotated[str, Option("Between two columns")] = ",",
        disorder: Annotated[int, length("How far times may go back")] = 0,
        perfect: Annotated[bool, Option("Times that go back further are an error")] = False,
        text: Annotated[bool, Option("Keys are text")] = False,
    ) -> None:
        check(
            self, time=time, key=key, value=value, separator=separator, disorder=disorder, perfect=perfect,
            text=text,
        )  # fmt: skip
        self._columns, self._separator = (time, key, value), separator.encode()
        self._disorder, self._perfect, self._text = disorder, perfect, text

    def prepare(self, items: Items) -> Items:
        """Lines: bytes (uint8) without line ends, and count + 1 offsets (int64); to times, values, and keys, of text
        as such a pair."""
        try:
            data, offsets = items.arrays
        except ValueError as error:
            raise DataError(f"the input has no lines: {error}", "Prepare it with riprap prep text.") from error
        columns = self._at_once(data, offsets)
        return items._replace(arrays=self._line_by_line(data, offsets) if columns is None else columns)

    def _at_once(self, data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, ...] | None:
        """None where a line is odd: then they are looked at one by one."""
        whole = (data, offsets, self._separator)
        time, key, value = (None if at < 0 else column(*whole, at) for at in self._columns)
        if time is None or key is None or (value is None and self._columns[2] >= 0):
            return None
        times = whole_numbers(*time)
        values = np.ones(len(offsets) - 1) if value is None else numbers(*value)
        keys = key if self._text else (whole_numbers(*key),)
        found = (times, values, *keys)
        return None if any(one is None for one in found) else found

    def _line_by_line(self, data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, ...]:
        """Whatever Python takes for numbers; DataError names the first line that has something else."""
        text, at = data.tobytes(), offsets.tolist()
        lines = [text[begin:end].split(self._separator) for begin, end in pairwise(at)]
        time, key, value = self._columns
        times = self._numbers(lines, time, np.int64)
        values = np.ones(len(lines)) if value < 0 else self._numbers(lines, value, np.float64)
        keys = self._texts(lines, key) if self._text else (self._numbers(lines, key, np.int64),)
        return times, values, *keys

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        times, values, *keys = items.arrays
        check_times(times, "a line has")
        if len(times):
            self._promise(times, out)
            out.send_by_key((keys[0], keys[1]) if self._text else keys[0], (times, values))
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        out.idle()

    def _promise(self, times: np.ndarray, out: Emitter) -> None:
        before = out.promised
        at = int(times.max()) - self._disorder
        if self._perfect:
            newest = np.maximum.accumulate(times) - self._disorder
            floor = newest if before is None else np.maximum(newest, before)
            early = np.flatnonzero(times < floor)
            if len(early):
                raise DataError(
                    f"a line is of the time {times[early[0]]}, and nothing before {floor[early[0]]} was to come",
                    "Sort the input, give a greater disorder, or leave perfect out: then such lines are late.",
                )
        out.watermark(at if before is None else max(at, before))

    def _texts(self, lines: list[list[bytes]], column: int) -> PackedKeys:
        try:
            return pack_keys([line[column] for line in lines])
        except IndexError:
            short = self._separator.join(next(line for line in lines if len(line) <= column))
            raise DataError(
                f"there is no column {column} in the line {short.decode(errors='replace')[:80]!r}",
                "Correct that line, or the column.",
            ) from None

    def _numbers(self, lines: list[list[bytes]], column: int, kind: type[np.generic]) -> np.ndarray:
        try:
            return np.array([line[column] for line in lines], dtype="S").astype(kind)
        except NO_NUMBER:
            raise self._wrong(lines, column, kind) from None

    def _wrong(self, lines: list[list[bytes]], column: int, kind: type[np.generic]) -> DataError:
        """Names the first line that is wrong."""
        what = "a whole number" if kind is np.int64 else "a number"
        for line in lines:
            try:
                np.array(line[column], dtype="S").astype(kind)
            except NO_NUMBER:
                break
        shown = self._separator.join(line).decode(errors="replace")[:80]
        return DataError(f"column {column} is not {what} in the line {shown!r}", "Correct that line, or the column.")
