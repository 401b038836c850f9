"""Shows the outcome for a table's columns, from a sample, before anything is written."""

from __future__ import annotations

from typing import Any, NamedTuple

from riprap.prep_spark.columns import Found
from riprap.prep_spark.sources import Opened
from riprap.prep_spark.table_options import TableOptions
from riprap.prep_spark.transform import Transform

LINES_MAX = 60
HEADING = ("column", "type", "becomes", "shard columns", "missing", "examples")


class Preview(NamedTuple):
    """The columns as a table of text, and as objects with the keys of HEADING."""

    text: str
    columns: list[dict[str, Any]]


def preview(opened: Opened, options: TableOptions, like: Transform | None) -> Preview:
    """The outcome for each column of the file."""
    columns = [_row(opened, options, like, place, found) for place, found in enumerate(opened.found)]
    shown = [[str(cell) for cell in row.values()] for row in columns[:LINES_MAX]]
    widths = [max(map(len, cells)) for cells in zip(HEADING, *shown)]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
             for row in (HEADING, *shown)]  # fmt: skip
    hidden = len(columns) - LINES_MAX
    if opened.indexes is not None:
        hidden = opened.indexes.features + 1 - min(LINES_MAX, len(columns))
    if hidden > 0:
        lines.append(f"  and {hidden:,} more")
    return Preview("\n".join(lines), columns)


def _row(opened: Opened, options: TableOptions, like: Transform | None, place: int, found: Found) -> dict[str, Any]:
    kind, becomes, width = found.kind, "left out", "0"
    slot = place if opened.layout is None else opened.layout.slot(place)
    if opened.layout is not None and slot is not None:
        kind = opened.layout.columns[slot].kind
    if slot is not None and (opened.layout is None or slot < opened.layout.used):
        becomes, width = _becomes(options, like, slot, found.name, kind)
    elif slot is not None:
        becomes = "the order of the rows"
    missing = f"{100 * found.missing:.3g} %"
    return dict(zip(HEADING, (found.name, kind, becomes, width, missing, ", ".join(found.examples))))


def _becomes(options: TableOptions, like: Transform | None, slot: int, name: str, kind: str) -> tuple[str, str]:
    """The outcome for a column, and the number of columns of a shard."""
    if slot == 0:
        return ("label, its classes numbered" if kind == "category" else "label"), "1"
    if like is not None:
        widths = [len(like.made_of(one)) for one in like.features if one.name == name]  # of sparse libsvm none
        return "as the transform says", str(widths[0]) if widths else "1 feature"
    if kind == "category":
        if options.buckets:
            return f"hashed to {options.buckets:,} buckets", "1 feature"
        return "0 or 1 for each category", "1 a category"
    scaled = {"none": "", "standard": ", minus its mean, over its deviation", "minmax": ", scaled to 0..1"}
    what = "seconds since 1970" if kind == "date" else "number"
    return what + scaled[options.scale], "1"
