"""The promises of a raw text format: its columns, its delimiter, and the rows refused for each reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np


class Reason(IntEnum):
    """The reason why a line of a raw file gives no row. The numbers are those that the parsers write."""

    NONE = 0
    """The line gives a row."""
    BLANK = 1
    """Nothing on the line; never an error, files end in such lines."""
    COLUMNS = 2
    """Too few columns (a truncated row) or too many."""
    NUMBER = 3
    """A column is not a number."""
    FINITE = 4
    """A column is NaN or infinite; one such item would ruin any model."""
    LABEL = 5
    """The label has a value that its data set does not know."""
    MISSING = 6
    """A value is missing; a fault, or the user asked to drop such rows."""
    CELL = 7
    """A cell does not fit the type of its column."""
    QUOTE = 8
    """A cell that begins with a quote does not end with one."""
    PAIR = 9
    """Not index:value."""
    INDEX = 10
    """An index below the first."""
    DUPLICATE = 11
    """An index that the line has twice."""
    JSON = 12
    """Not an object of JSON."""


FAULTS = frozenset({Reason.COLUMNS, Reason.NUMBER, Reason.FINITE, Reason.LABEL})
"""Reasons that stop the job unless the user asked to drop bad rows."""


def accept_all(rows: np.ndarray) -> np.ndarray:
    """A check that finds nothing wrong with any row."""
    return np.zeros(len(rows), np.uint8)


@dataclass(frozen=True)
class RowFormat:
    """A delimited text format of numbers, one item a line.

    `columns` names the columns in their order in the file, the label first. `check` gets the parsed rows as a float64
    matrix, may normalise them in place, and returns one `Reason` a row as uint8; it runs in Spark's workers, so it
    must be picklable.
    """

    dataset: str
    delimiter: str
    columns: tuple[str, ...]
    empty_is_zero: bool = False
    check: Callable[[np.ndarray], np.ndarray] = accept_all

    @property
    def label(self) -> str:
        """The name of the label's column."""
        return self.columns[0]

    def explain(self, line: bytes, reason: Reason) -> tuple[str, str]:
        """The value expected on a refused line, and the one found there."""
        text = line.decode("utf-8", "replace")
        fields = text.split(self.delimiter)
        between = {",": "commas", "\t": "tabs"}[self.delimiter]
        if reason == Reason.COLUMNS:
            return f"{len(self.columns)} columns separated by {between}", f"{len(fields)} in {_shown(text)}"
        if reason == Reason.LABEL:
            return f"a label that {self.dataset} knows in column 1", _shown(fields[0])
        wanted = "a number" if reason == Reason.NUMBER else "a finite number"
        for place, (name, field) in enumerate(zip(self.columns, fields), 1):
            if not _is_number(field, finite=reason == Reason.FINITE, empty=self.empty_is_zero):
                return f"{wanted} in column {place} ({name})", _shown(field)
        return f"{wanted} in every column", _shown(text)


def _is_number(field: str, finite: bool, empty: bool) -> bool:
    field = field.strip(" ")
    if not field:
        return empty
    try:
        value = float(field)
    except ValueError:
        return False
    # Python also reads 1_000, other scripts' digits and white space that the parser does not.
    return field == field.strip() and "_" not in field and field.isascii() and (not finite or math.isfinite(value))


def _shown(text: str, length_max: int = 60) -> str:
    return repr(text if len(text) <= length_max else text[:length_max] + "...")
