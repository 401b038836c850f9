"""A source that sends runs of keys, and a destination with a map of them: jobs whose state is large and kept by key."""

from __future__ import annotations

import numpy as np

from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.states import HashMap

DIGITS = (10, 6)
"""Of a line: the first key of its run, and the length of the run."""
MIX = np.uint64(0x9E3779B97F4A7C15)


def line(first: int, count: int) -> str:
    """A line of the input."""
    return f"{first:0{DIGITS[0]}d}{count:0{DIGITS[1]}d}\n"


class Runs(DataflowOperator):
    """Source: sends the keys of each line's run by key."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        digits = items.arrays[0].reshape(items.count, sum(DIGITS)).astype(np.int64) - ord("0")
        begins, lengths = (part @ 10 ** np.arange(part.shape[1])[::-1] for part in np.split(digits, DIGITS[:1], 1))
        ends = np.cumsum(lengths)
        keys = np.arange(ends[-1]) + np.repeat(begins - ends + lengths, lengths)
        out.send_by_key(keys)
        return items.count


class KeyedMap(DataflowOperator):
    """Destination: counts each key."""

    def __init__(self) -> None:
        self.state: HashMap = HashMap(values="int64")

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (keys,) = items.arrays
        self.state.add(keys[first:], np.ones(items.count - first, np.int64))
        return items.count

    def results(self) -> dict[str, np.ndarray]:
        """Keys, their counts, and a digest of both; the sum over all tasks is the same however the keys are dealt."""
        keys, counts = self.state.items()
        assert isinstance(keys, np.ndarray)
        mixed = (keys.view(np.uint64) + np.uint64(1)) * MIX
        mixed = (mixed ^ (mixed >> np.uint64(29))) * counts.view(np.uint64)
        return {"sums": np.array([len(keys), int(counts.sum()), int(mixed.sum())], np.uint64)}
