"""The outcome of one program's run: a measurement, or a row that says why there is none."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Key = tuple[str, str]
"""Workload and contender."""

FIELDS = ("items", "seconds", "startup_seconds", "peak_rss_mb", "result", "version")


class NoMeasurement(Exception):
    """The reason why a program gave no measurement."""


@dataclass(frozen=True)
class Measurement:
    """One run: rates are of the steady part, start-up apart."""

    items: int
    seconds: float
    startup_seconds: float
    peak_rss_mb: float
    result: Mapping[str, Any]
    version: str

    @property
    def rate(self) -> float:
        """Items a second."""
        return self.items / self.seconds


def parse(output: str) -> Measurement:
    """The last line that a program printed. NoMeasurement when it is not one of harness.report."""
    lines = output.strip().splitlines()
    try:
        line = json.loads(lines[-1])
        values = [line[name] for name in FIELDS]
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise NoMeasurement(f"printed no measurement but: {lines[-1] if lines else 'nothing'}") from error
    measured = Measurement(*values)
    if not (measured.items > 0 and measured.seconds > 0 and math.isfinite(measured.seconds)):
        raise NoMeasurement(f"{measured.items} items in {measured.seconds} s are no measurement")
    return measured


@dataclass(frozen=True)
class Row:
    """A contender on a workload: its runs, and the reason why there are no more of them."""

    runs: Sequence[Measurement]
    why: str = ""

    @property
    def measured(self) -> bool:
        """True when every run gave a right answer."""
        return bool(self.runs) and not self.why

    def median(self, name: str) -> float:
        """The median of an attribute of the runs, NaN when there are none."""
        values = [float(getattr(one, name)) for one in self.runs]
        return statistics.median(values) if values else math.nan

    @property
    def rate(self) -> float:
        """Median items a second, NaN without a run."""
        return self.median("rate")


def without_paths(reason: str) -> str:
    """A reason for readers elsewhere: only the last part of each absolute path is left."""
    return re.sub(r"(?:file:/*)?(?<![\w.])(?:/[\w.+-]+)+/([\w.+-]*)", r"\1", reason)


def code_lines(texts: Sequence[str]) -> int:
    """Lines that are neither blank nor a comment nor of a docstring, of Python, YAML, SQL or Java."""
    return sum(1 for text in texts for line in _without_docstrings(text).splitlines() if _is_code(line.strip()))


def _is_code(line: str) -> bool:
    return bool(line) and not line.startswith(("#", "//", "/*", "*", "--"))


def _without_docstrings(text: str) -> str:
    parts = text.split('"""')
    return "".join(parts[::2])
