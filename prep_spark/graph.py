"""Turns lists of edges into line shards, `from to` or `from to length`: the rest of the lists is dropped.

Lists come as SNAP, KONECT and the like give them: columns between spaces, tabs, commas or semicolons, comments behind #
or %, and in further columns weights, signs or times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.inference import BOM
from riprap.prep_spark.lines import Lines
from riprap.prep_spark.text import prepare_lines

VERTEX_MAX = 2**53
"""Vertices are below: float64 tells them apart."""
# Python refuses to make a number of thousands of digits.
EDGE = re.compile(rb"\s*(\d{1,99})[\s,;]+(\d{1,99})(?:[\s,;].*)?", re.DOTALL)
LENGTH = re.compile(rb"\s*(\d{1,99})[\s,;]+(\d{1,99})[\s,;]+(\d+\.?\d*(?:[eE][+-]?\d{1,2})?)(?:[\s,;].*)?", re.DOTALL)


def run(
    inputs: Sequence[str],
    out: str,
    *,
    lengths: bool = False,
    bad_rows: str = "fail",
    shard_rows: int = 1_000_000,
    report: Callable[[str], Any] = print,
) -> dict[str, Any]:
    """Write the edges of some lists to the directory `out`, in the order of the files.

    With `lengths` the third column is each edge's length, from 0 on. A line that is no edge is an error, or with
    `bad_rows` "drop" counted. Returns the counts as `text.run` does, of lines. Raises PrepError.
    """
    if bad_rows not in ("fail", "drop"):
        raise PrepError(f"--bad-rows is {bad_rows!r}; expected fail or drop", "correct --bad-rows")
    clean = partial(edges_of, lengths=lengths, drop=bad_rows == "drop")
    return prepare_lines("graph", inputs, out, shard_rows, report, clean)


def edges_of(lines: Lines, lengths: bool, drop: bool) -> tuple[Lines, Counter[str]]:
    """The edges in these lines, a space between their columns, and why lines were dropped. Runs in Spark's workers."""
    form, kept, dropped = LENGTH if lengths else EDGE, [], Counter[str]()
    text, bounds = lines.text.tobytes(), np.cumsum([0, *lines.lengths]).tolist()
    for start, end in pairwise(bounds):
        line = text[start:end].removeprefix(BOM)
        if line.lstrip()[:1] in (b"#", b"%"):
            dropped["comments"] += 1
        elif (found := form.fullmatch(line)) and max(int(found[1]), int(found[2])) < VERTEX_MAX:
            kept.append(b" ".join(found.groups()))
        elif not line.strip():
            dropped["empty"] += 1
        elif drop:
            dropped["malformed"] += 1
        else:
            raise _no_edge(line, lengths)
    joined = np.frombuffer(b"".join(kept), np.uint8)
    return Lines(joined, np.array([len(edge) for edge in kept], np.int64), lines.empty), dropped


def _no_edge(line: bytes, lengths: bool) -> PrepError:
    columns = "`from to length`, the length from 0 on" if lengths else "`from to`"
    return PrepError(
        f"expected {columns}, vertices whole numbers from 0 below 2^53; found {line[:80].decode(errors='replace')!r}",
        "give --bad-rows drop to leave such lines out",
    )
