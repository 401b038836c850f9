"""Word count over lines of text (AF Table 3): blocks are counted at the source, totals kept downstream."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np

from codec.errors import DataError
from operators.dataflow.base import DataflowOperator, Emitter, Items, Place
from operators.dataflow.text import WordTable
from operators.states import HashMap


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
    """Destination: the totals of its words. State: a hash map; divergence: the maximum difference of a count."""

    def __init__(self) -> None:
        self.state: HashMap = HashMap("bytes", "maximum", "int64")

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Words as (bytes, offsets), and their counts (int64)."""
        data, offsets, counts = items.arrays
        return first + self.state.add((data, offsets[first:]), counts[first:])

    def results(self) -> dict[str, np.ndarray]:
        """The words in the order of their bytes, as `words` (bytes) and `offsets`, with their `counts`."""
        (data, offsets), counts = self.state.items()
        text, ends = data.tobytes(), offsets.tolist()
        words = [text[begin:end] for begin, end in pairwise(ends)]
        order = sorted(range(len(words)), key=words.__getitem__)
        lengths = [len(words[i]) for i in order]
        return {
            "words": np.frombuffer(b"".join(words[i] for i in order), np.uint8),
            "offsets": np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
            "counts": counts[order],
        }

    def metrics(self) -> dict[str, float]:
        return {"distinct_words": float(len(self.state))}
