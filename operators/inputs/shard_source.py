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

    Each source task streams a contiguous share of that: disjoint, complete, and of equal size to one item.
    """

    def open(self, context: Context) -> None:
        """Map the shards. ConfigError for a bad input, DataError for bad shards, both naming what is wrong."""
        path = context.input.get("path")
        if path is None:
            raise ConfigError("the job's input has no path", "Set input.path to a directory of shards.")
        self._shards = open_shards(path, Checks.of(context.input))
        if not self._shards.rows:
            raise ConfigError(f"the input {path} has no rows", "Prepare it again from files that have some.")
        total = self._shards.rows * options.whole_number("input.repeat", context.input.get("repeat", 1), 1)
        limit = context.input.get("limit")
        if limit is not None:
            total = min(total, options.whole_number("input.limit", limit, 1))
        self._empty = context.empty
        self._first = total * context.index // context.parallelism
        self.items: int = total * (context.index + 1) // context.parallelism - self._first

    def schema(self) -> tuple[tuple[str, ...], str | None]:
        """Columns and label of the shards."""
        return tuple(self._shards.columns), self._shards.label

    def sample(self) -> Iterator[tuple[int, np.ndarray]]:
        """The first items, and runs from all over the shards: those may be sorted."""
        count = min(self.items, self._shards.rows)
        yield 0, self.read(0, min(FIRST_ITEMS, count))
        length = min(RUN_ITEMS, count)
        for run in range(RUNS if count > FIRST_ITEMS else 0):
            start = (count - length) * (run + 1) // RUNS
            yield start, self.read(start, start + length)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Items [start, stop): what the shards hand out, but a copy where the stream starts over.

        ValueError outside the task's stream.
        """
        if not 0 <= start <= stop <= self.items:
            raise ValueError(f"items [{start}, {stop}) of a stream of {self.items}")
        rows = self._shards.rows
        first = (self._first + start) % rows
        count = stop - start
        if first + count <= rows:
            return self._shards.read(first, first + count, self._empty)
        block = self._empty((count, len(self._shards.columns)), np.dtype(float))
        done = 0
        while done < count:
            step = min(rows - first, count - done)
            block[done : done + step] = self._shards.read(first, first + step)
            done += step
            first = 0
        return block
