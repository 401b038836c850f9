"""The source that streams a directory of shards, perhaps several times over."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators import options
from riprap.operators.base import Context, Source
from riprap.operators.inputs.shard_checks import Checks
from riprap.operators.inputs.shards import open_shards

FIRST_ITEMS, RUNS, RUN_ITEMS = 16_384, 64, 256
"""A sample: 33,000 items, a few milliseconds where they are on disk."""


class ShardSource(Source):
    """The job's input, streamed `repeat` times and cut after `limit` items.

    Each source task streams a contiguous share of that: disjoint, complete, and of equal size to one item. Where it is
    streamed for ever, each streams its share of the rows again and again.
    """

    def open(self, context: Context) -> None:
        """Map the shards. ConfigError for a bad input, DataError for bad shards, both naming what is wrong."""
        path = context.input.get("path")
        if path is None:
            raise ConfigError("the job's input has no path", "Set input.path to a directory of shards.")
        self._shards = open_shards(path, Checks.of(context.input))
        if not self._shards.rows:
            raise ConfigError(f"the input {path} has no rows", "Prepare it again from files that have some.")
        repeat, limit = context.input.get("repeat", 1), context.input.get("limit")
        limits = [] if limit is None else [options.whole_number("input.limit", limit, 1)]
        if repeat != "forever":
            limits.append(self._shards.rows * options.whole_number("input.repeat", repeat, 1))
        self._empty = context.empty
        self._start, self._rows = 0, self._shards.rows
        """The rows that this task streams again and again."""
        self._first, self.items = 0, None
        if limits:
            self._first, self.items = _share(min(limits), context)
        else:
            self._start, self._rows = _share(self._rows, context)
            if not self._rows:
                raise ConfigError(
                    f"source task {context.index} of {context.parallelism} would have no row",
                    "Lower the source's parallelism.",
                )

    def schema(self) -> tuple[tuple[str, ...], str | None]:
        """Columns and label of the shards."""
        return tuple(self._shards.columns), self._shards.label

    def sample(self) -> Iterator[tuple[int, np.ndarray]]:
        """The first items, and runs from all over the shards: those may be sorted."""
        count = self._rows if self.items is None else min(self.items, self._rows)
        yield 0, self.read(0, min(FIRST_ITEMS, count))
        length = min(RUN_ITEMS, count)
        for run in range(RUNS if count > FIRST_ITEMS else 0):
            start = (count - length) * (run + 1) // RUNS
            yield start, self.read(start, start + length)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Items [start, stop): a view of the shards, or a copy where the stream starts over.

        ValueError outside the task's stream.
        """
        if not 0 <= start <= stop or (self.items is not None and stop > self.items):
            raise ValueError(f"items [{start}, {stop}) of a stream of {self.items}")
        begin, rows = self._start, self._rows
        first = (self._first + start) % rows
        count = stop - start
        if first + count <= rows:
            return self._shards.read(begin + first, begin + first + count, self._empty)
        block = self._empty((count, len(self._shards.columns)), np.dtype(float))
        done = 0
        while done < count:
            step = min(rows - first, count - done)
            block[done : done + step] = self._shards.read(begin + first, begin + first + step)
            done += step
            first = 0
        return block


def _share(total: int, context: Context) -> tuple[int, int]:
    """This task's part of `total` rows: the first row, and the number of rows."""
    first = total * context.index // context.parallelism
    return first, total * (context.index + 1) // context.parallelism - first
