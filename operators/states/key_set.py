"""A set of keys with built-in fault tolerance (AF Table 8)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from riprap.operators.states.base import Backup
from riprap.operators.states.checks import Keys, key_column, keys_at, places_in, saved_keys
from riprap.operators.states.hash_map import KINDS, filled, flat
from riprap.operators.states.tracked import Arrays, TrackedState, one_of


class KeySet(TrackedState):
    """Keys (int64, or byte strings), handed in and out as with HashMap; the divergence is the number of new ones.

    Backups are (keys,) or (bytes, offsets); a partial one holds the keys that came since the one before.
    """

    def __init__(self, key: str = "int64", divergence: str = "cardinality") -> None:
        self.key = one_of("key", key, KINDS)
        self.divergence = one_of("divergence", divergence, ("cardinality",))
        self._packed = key == "bytes"
        self._table = filled(self._packed)
        self._saved = 0

    def __len__(self) -> int:
        return len(self._table)

    def add(self, keys: Keys) -> int:
        """Put keys in, one item each; returns the number taken in: up to and with the one that exceeds theta.

        ValueError at a malformed packed key; then those before it are in.
        """
        return self._table.add(key_column(keys, self._packed), self._saved, self.theta)

    def contains(self, keys: Keys) -> np.ndarray:
        """A mask of the keys that are in the set (bool). ValueError when packed keys are malformed."""
        return self.places(keys) >= 0

    def places(self, keys: Keys) -> np.ndarray:
        """The place of each key in the order in which they came; -1 where it is not in the set. ValueError when packed
        keys are malformed."""
        return self._table.find(key_column(keys, self._packed))

    def items(self) -> Keys:
        """All keys in the order in which they came; copies."""
        return self._table.contents

    def entries(self) -> tuple[Keys]:
        """The arguments of which `add` makes the same set; copies."""
        return (self.items(),)

    def state_divergence(self) -> float:
        """The number of keys that came since the last backup."""
        return float(len(self._table) - self._saved)

    def recover_groups(self, backups: Sequence[Backup], groups: range) -> None:
        parts = [saved_keys(backup.arrays, self._packed) for backup in backups]
        self._recover([flat(keys_at(keys, places_in(keys, groups))) for keys in parts])

    def _mostly_changed(self) -> bool:
        return self._saved == 0

    def _has_changed(self) -> bool:
        return len(self._table) > self._saved

    def _changed_arrays(self) -> Arrays:
        return flat(self._table.take(np.arange(self._saved, len(self._table))))

    def _all_arrays(self) -> Arrays:
        return flat(self._table.contents)

    def _count(self) -> int:
        return len(self._table)

    def _slice_arrays(self, start: int, stop: int) -> Arrays:
        return flat(self._table.part(start, stop))

    def _load(self, parts: Sequence[Arrays]) -> None:
        self._table = filled(self._packed, [saved_keys(arrays, self._packed) for arrays in parts])
        self._settle()

    def _merge(self, arrays: Arrays) -> None:
        self._table.add(saved_keys(arrays, self._packed), 0, math.inf)
        self._settle()

    def _settle(self) -> None:
        self._saved = len(self._table)

    def _empty(self) -> None:
        self._table.clear()
        self._saved = 0
