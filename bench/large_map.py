"""A map of many keys, of which each item changes one, at a destination or in between; a source that counts lines."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.options import Option, check
from riprap.operators.states import HashMap, Number
from riprap.operators.states.base import Backup

KeyCount = Annotated[int, Option("Keys of the map, all of which are there from the first item on", low=1)]
COUNTER = -1
"""The key that counts the items."""
MIX = np.uint64(0x9E3779B97F4A7C15)


class Beats(DataflowOperator):
    """Source: sends one zero for each line."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        out.send((np.zeros(items.count, np.int8),), items.count)
        return items.count


class LargeMap(DataflowOperator):
    """Adds 1 to a key that follows from the number of the item, far from the one before."""

    def __init__(self, keys: KeyCount = 1_000_000) -> None:
        check(self, keys=keys)
        self._keys = np.uint64(keys)
        self.state: HashMap = self.make()

    def make(self) -> HashMap:
        return HashMap(values="int64")

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        count = items.count - first
        if not len(self.state):
            self.state.add(np.arange(int(self._keys)), np.zeros(int(self._keys), np.int64))
        (before,) = self.state.get(np.array([COUNTER])).tolist()
        numbers = np.arange(before, before + count, dtype=np.uint64)
        keys = ((numbers * MIX) >> np.uint64(11)) % self._keys
        self.state.add(keys.view(np.int64), np.ones(count, np.int64))
        self.state.add(np.array([COUNTER]), np.array([count]))
        return items.count

    def results(self) -> dict[str, np.ndarray]:
        """`items`: as its counter says, and by the sum of all other keys."""
        keys, values = self.state.items()
        total = int(values.sum())
        (counted,) = self.state.get(np.array([COUNTER])).tolist()
        assert isinstance(keys, np.ndarray)
        return {"items": np.array([counted, total - counted]), "keys": np.array([len(keys)])}


class WholeMap(HashMap):
    """Is saved whole each time: the control."""

    rolls = False

    def backup_state(self) -> Backup:
        return self.backup_all()


class SavedWhole(LargeMap):
    """The same with a state that knows no changes."""

    def make(self) -> HashMap:
        return WholeMap(values="int64")


class PassingMap(LargeMap):
    """The same between two stages: hands its items on."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        done = super().process_data(items, first, out)
        out.send(items.arrays, items.count)
        return done


class Counted(DataflowOperator):
    """Destination: counts items."""

    def __init__(self) -> None:
        self.state: Number = Number()

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.state.add(np.array([float(items.count - first)]))
        return items.count
