"""Prints a table for people: the first rows, and the number of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from riprap.engine.flow.table_files import rows_of
from riprap.operators.tables import Table

COLUMNS_MAX = 12
"""A table of more, and of no more rows than this, is turned: its columns become rows."""
WIDTH_UNKNOWN = 10_000
WHOLE_MAX = 1e15
"""Up to here a float that is whole is shown with all its digits."""


def print_table(name: str, table: Table, top: int) -> None:
    """The first `top` rows, and a line with the number of all."""
    console = _console()
    rows = list(islice(rows_of({name: column[:top] for name, column in table.columns.items()}), top))
    headings = list(table.columns)
    if len(headings) > COLUMNS_MAX and 0 < len(rows) <= COLUMNS_MAX:
        first, *rest = headings
        cells = [[str(heading), *(row[i] for row in rows)] for i, heading in enumerate(rest, 1)]
        _print(console, [first, *(_cell(row[0]) for row in rows)], cells)
    else:
        _print(console, headings, rows)
    whole = f"{len(table):,} row{'' if len(table) == 1 else 's'}"
    shown = whole if len(rows) == len(table) else f"the first {len(rows):,} of {whole}"
    console.print(Text(f"{name}: {shown}"))
    if table.note:
        console.print(Text(table.note))


def _print(console: Console, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        is_text = any(isinstance(row[number], str) for row in rows)
        grid.add_column(Text(heading), justify="left" if is_text else "right", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(_cell(value)) for value in row))
    console.print(grid)


def _console() -> Console:
    """As wide as the terminal; where there is none, so wide that nothing is cut."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_UNKNOWN)


def _cell(value: Any) -> str:
    """Numbers with as many digits as people read; text without characters that would move the cursor."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(value))
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 100_000 else str(value)
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if value.is_integer() and 1e6 <= abs(value) < WHOLE_MAX else f"{value:.6g}"
