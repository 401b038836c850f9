"""Word count over lines of text (AF Table 3): blocks are counted at the source, totals kept downstream."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

import numpy as np

from codec.errors import ConfigError, DataError
from operators.dataflow.base import DataflowOperator, Emitter, Items, Place
from operators.dataflow.text import WordTable
from operators.options import number, whole_number
from operators.states import Decaying, HashMap, Windowed

RELATIVE = 0.01


class Tables(threading.local):
    """A table of words for each thread that counts."""

    def __init__(self, seed: int) -> None:
        self.own = WordTable(seed)


class SplitWords(DataflowOperator):
    """Source stage: sends each word of a block once, with its count, to the task that its hash chooses.

    Text is split and counted in `prepare`, by as many threads as the stage has.
    Words are what `tr -cs A-Za-z '\\n' | tr A-Z a-z` makes: the longest runs of letters of ASCII, in lower case.
    """

    def start(self, place: Place) -> None:
        self._tasks = max(place.fan_out, 1)
        self._tables = Tables(place.seed)

    def prepare(self, items: Items) -> Items:
        """Lines: bytes (uint8) without line ends, and count + 1 offsets (int64); to words, bounds, counts by task."""
        try:
            data, offsets = items.arrays
            parts = self._tables.own.split(data, offsets, 0, self._tasks)
        except (ValueError, TypeError) as error:
            raise DataError(f"the input has no lines: {error}", "Prepare it with riprap prep text.") from error
        return items._replace(arrays=tuple(array for part in parts for array in part))

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """What was prepared of a whole block: there is no state to include a part of it."""
        for task in range(self._tasks):
            part = items.arrays[3 * task : 3 * task + 3]
            if len(part[2]):
                out.send(part, len(part[2]), to=task)
        return items.count


class CountWords(DataflowOperator):
    """Destination: the totals of its words. State: a hash map; divergence: the maximum difference of a count.

    Under `approximate` failures take away at most `relative` of a word's count, and no word whole (.inf: they may).
    """

    combines: ClassVar[Mapping[str, str]] = {"distinct_words": "sum"}  # each word is counted by one task

    def __init__(self, relative: float = RELATIVE) -> None:
        part = relative if relative == math.inf else number("relative", relative, 0.0)
        self.state: HashMap = HashMap("bytes", "maximum", "int64", part)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Words as (bytes, offsets), and their counts (int64)."""
        data, offsets, counts = items.arrays
        return first + self.state.add((data, offsets[first:]), counts[first:])

    def results(self) -> dict[str, np.ndarray]:
        """The words in the order of their bytes, as `words` (bytes) and `offsets`, with their `counts`."""
        return sorted_words(self.state)

    def metrics(self) -> dict[str, float]:
        return {"distinct_words": float(len(self.state))}


class CountRecentWords(DataflowOperator):
    """Destination: the counts of the words of the last windows.

    `window` is hopping or sliding, of `window_epochs` micro-batches each, or decaying: each leaves `factor` of the
    counts before. A hopping window is also written when it ends, as `words`. State: a map as that of CountWords, of
    such a window.
    """

    def __init__(self, window: str, window_epochs: int = 1, factor: float = 0.5, relative: float = RELATIVE) -> None:
        part = relative if relative == math.inf else number("relative", relative, 0.0)
        values = "float64" if window == "decaying" else "int64"
        self.state: Windowed | Decaying

        def make() -> HashMap:
            return HashMap("bytes", "maximum", values, part)

        try:
            epochs = whole_number("window_epochs", window_epochs, 1)
            self.state = Decaying(make, factor) if window == "decaying" else Windowed(make, window, epochs)
        except ValueError as error:
            raise ConfigError(str(error), "Correct the options of CountRecentWords.") from error
        self._distinct = 0

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Words as (bytes, offsets), and their counts (int64)."""
        data, offsets, counts = items.arrays
        return first + self.state.add(items.epoch, (data, offsets[first:]), counts[first:])

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self.state.close(epoch)
        self._distinct = len(self.state.content())
        if self.state.window == "hopping" and epoch % self.state.window_epochs == 0:
            out.write("words", self.results())

    def results(self) -> dict[str, np.ndarray]:
        """As those of CountWords, of the window that ends last."""
        return sorted_words(self.state.content())

    def metrics(self) -> dict[str, float]:
        return {"distinct_words": float(self._distinct)}


def sorted_words(state: HashMap) -> dict[str, np.ndarray]:
    """The words of a map in the order of their bytes, and their counts."""
    (data, offsets), counts = state.items()
    text, ends = data.tobytes(), offsets.tolist()
    words = [text[begin:end] for begin, end in pairwise(ends)]
    order = sorted(range(len(words)), key=words.__getitem__)
    lengths = [len(words[i]) for i in order]
    return {
        "words": np.frombuffer(b"".join(words[i] for i in order), np.uint8),
        "offsets": np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        "counts": counts[order],
    }
