"""The most frequent paths of a web site over its last windows, counted server by server and merged (PPA VI-B, Q1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.keyed import shares
from riprap.operators.options import Option, check
from riprap.operators.states import HashMap, Windowed
from riprap.operators.states.checks import PackedKeys, keys_at
from riprap.operators.tables import Arrays, Columns, Schema, Table, joined, lines_of
from riprap.operators.text.word_count import sorted_words

COMMA, ZERO, NINE = b",09"
DIGITS_MAX = 18


def requests_of(data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, PackedKeys]:
    """The servers (int64) and paths of lines `time,server,path`, bytes and offsets as sources get them.

    ValueError names the first line that is none.
    """
    commas = np.flatnonzero(data == COMMA)
    after = np.append(commas, [len(data), len(data)])
    first = np.searchsorted(commas, offsets[:-1])
    starts, ends = after[first] + 1, after[np.minimum(first + 1, len(commas))]
    widths = ends - starts
    wrong = (ends >= offsets[1:]) | (widths < 1) | (widths > DIGITS_MAX)
    servers = np.zeros(len(starts), np.int64)
    for place in range(int(widths[~wrong].max(initial=0))):
        inside = ~wrong & (widths > place)
        digits = data[starts[inside] + place]
        wrong[inside] |= (digits < ZERO) | (digits > NINE)
        servers[inside] = servers[inside] * 10 + (digits.astype(np.int64) - ZERO)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ValueError(bytes(data[offsets[place] : offsets[place + 1]]).decode(errors="replace")[:80])
    kept = np.zeros(len(data) + 1, np.int8)
    kept[ends + 1] += 1  # a line is not empty, so no line ends where the next one's path begins
    kept[offsets[1:]] -= 1
    lengths = offsets[1:] - ends - 1
    return servers, (data[np.cumsum(kept[:-1], dtype=np.int8) > 0], np.concatenate([[0], np.cumsum(lengths)]))


class ReadRequests(DataflowOperator):
    """Source stage: sends the path of each line `time,server,path` to the task that its server's number chooses."""

    def open(self, context: Context) -> None:
        if len(context.downstream) != 1:
            raise ConfigError(f"requests go to {len(context.downstream)} stages", "Lead one edge out of this stage.")
        (self._tasks,) = context.downstream.values()

    def prepare(self, items: Items) -> Items:
        """Lines: bytes (uint8) without line ends, and count + 1 offsets (int64); to servers and paths."""
        try:
            servers, paths = requests_of(*items.arrays)
        except (TypeError, IndexError) as error:
            raise DataError(f"the input has no lines: {error}", "Prepare it with riprap prep text.") from error
        except ValueError as error:
            raise DataError(f"expected a line of time,server,path, found {str(error)!r}", "Correct it.") from error
        return items._replace(arrays=(servers, *paths))

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """The requests prepared of a whole block: there is no state to include a part of it."""
        servers, *paths = items.arrays
        for share in shares(servers, [np.arange(items.count)], self._tasks):
            data, offsets = keys_at((paths[0], paths[1]), share.arrays[1])
            out.send((data, offsets), share.items, to=share.task)
        return items.count


class CountPaths(DataflowOperator):
    """Sums up counts by path within each window, and sends each path with its sum when the window closes.

    Paths come as bytes and offsets, and count 1 each, or with counts behind them as another task of this kind sends
    them. State: the open windows' map; divergence: the sum of counts that were not saved.
    """

    only_windows = True

    def __init__(self) -> None:
        self.state: Windowed[HashMap] = Windowed(_counts, "hopping")

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Paths as (bytes, offsets), and their counts (int64) unless they are 1."""
        return first + _add(self.state, items, first)

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self.state.close(epoch)
        found = sorted_words(self.state.content())
        if len(found["counts"]):
            out.send((found["words"], found["offsets"], found["counts"]), len(found["counts"]))


class TopPaths(DataflowOperator):
    """Destination: writes the most frequent paths of the last windows as `top` whenever a window closes.

    Of paths of one count those that come first in the order of bytes are taken. State: a map for each of the windows.
    """

    writes = ("top",)
    combines: ClassVar[dict[str, str]] = {}
    meanings: ClassVar[dict[str, str]] = {"distinct_paths": "paths that differ, in the windows that count"}

    def __init__(
        self,
        n: Annotated[int, Option("Paths that are written", unit="paths", low=1)] = 100,
        windows: Annotated[int, Option("The last windows, which count", unit="micro-batches", low=1)] = 10,
    ) -> None:
        check(self, n=n, windows=windows)
        self._n = n
        self.state: Windowed[HashMap] = Windowed(_counts, "sliding", windows)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Paths as (bytes, offsets), and their counts (int64)."""
        return first + _add(self.state, items, first)

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self.state.close(epoch)
        out.write("top", self.results())

    def results(self) -> dict[str, np.ndarray]:
        """The most frequent `paths` (bytes and `offsets`) of the windows that end last, with their `counts`."""
        found = sorted_words(self.state.content())
        chosen = np.argsort(-found["counts"], kind="stable")[: self._n]
        paths, offsets = keys_at((found["words"], found["offsets"]), chosen)
        return {"paths": paths, "offsets": offsets, "counts": found["counts"][chosen]}

    @classmethod
    def window_columns(cls, name: str, arrays: Arrays) -> dict[str, np.ndarray]:
        """Paths as text, and their counts; the most frequent first."""
        return {"path": lines_of(arrays["paths"], arrays["offsets"]), "count": arrays["counts"]}

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`top`: the paths and counts of the windows that end last."""
        columns: Columns = joined([cls.window_columns("top", one) for one in results])
        return {"top": Table(columns)}

    def metrics(self) -> dict[str, float]:
        return {"distinct_paths": float(len(self.state.content()))}


def _counts() -> HashMap:
    return HashMap("bytes", "manhattan", "int64")


def _add(state: Windowed[HashMap], items: Items, first: int) -> int:
    """Add a block's paths from `first` on; returns the number taken in."""
    data, offsets, *given = items.arrays
    counts = given[0][first:] if given else np.ones(items.count - first, np.int64)
    return state.add(items.epoch, (data, offsets[first:]), counts)
