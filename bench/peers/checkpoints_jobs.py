"""Two jobs that keep counts by key, and what is measured of them, with definitions; the same for Flink and Riprap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.afstream import data
from bench.peers.recovery_times import Output, measure
from bench.peers.workloads import books, true_counts

KEYED, WORDS = "keys", "words"
NONE = "none"
"""The case without checkpoints."""
WINDOW_S = 0.02
"""Seconds between two outputs of a counter where the stream is paced."""


@dataclass(frozen=True)
class Stream:
    """A job's input."""

    kind: str
    size: int
    """Keys of the state, or passes over the text."""
    rate: int
    """Items a second (updates, or lines) while workers are killed."""
    counters: int
    counts_an_item: float
    """Words of a line; of an update it is 1."""
    free_output: int
    """Items between two outputs at full speed."""
    files: tuple[str, ...] = ()

    def items_an_output(self, rate: int) -> int:
        """Items between two outputs of all counters, at that rate; 0 is full speed."""
        return int(rate * WINDOW_S) if rate else self.free_output

    def counts_an_output(self, rate: int) -> int:
        """The counts of one counter between two outputs."""
        return int(self.items_an_output(rate) * self.counts_an_item) // self.counters


class Measured(NamedTuple):
    """A run at full speed: counts a second, CPU seconds a count, and its completed checkpoints."""

    rate: float
    cpu: float
    completed: int
    median_ms: float | None = None
    p99_ms: float | None = None
    bytes_each: float | None = None


def keyed(keys: int) -> Stream:
    """One update an item, of a key far from the one before."""
    return Stream(KEYED, keys, 50_000, 1, 1.0, 100_000)


def text() -> Stream:
    """Word count in two counters over all books."""
    folder = books(few=False)
    files = tuple(str(file.absolute()) for file in sorted(folder.glob("*.txt")))
    words = int(true_counts(str(folder))["words"]) / data.rows_of(folder)
    return Stream(WORDS, 100, 50_000, 2, words, 20_000, files)


def rate_of(outputs: Sequence[Output], began: float, ended: float) -> float:
    """Outputs a second between two moments, from the first to the last one there. RuntimeError where there are none."""
    inside = [one for one in outputs if began <= one.at <= ended]
    if len(inside) < 2:
        raise RuntimeError(f"{len(inside)} outputs in {ended - began:.0f} s")
    return (len(inside) - 1) / (inside[-1].at - inside[0].at)


def first_outputs_ms(counters: Sequence[Sequence[Output]], kills: Sequence[float]) -> list[float | None]:
    """For each kill, milliseconds until every counter had put out what it had not before; None where one did not."""
    of_each = [[one.first_output_ms for one in measure(outputs, kills, [])] for outputs in counters]
    return [None if None in found else max(ms for ms in found if ms is not None) for found in zip(*of_each)]
