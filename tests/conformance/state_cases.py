"""The states that the conformance suite tries: how each is updated and read, and a naive one to compare them with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from riprap.operators.states import Backup, HashMap, KeySet, Matrix, Number, State, Vector, pack_keys, unpack_keys

N = 12  # entries of the arrays; keys of the others are as many
Item = tuple[int, float]


class Naive:
    """A dictionary and its copy of the last backup; every divergence is computed anew from both."""

    def __init__(self, divergence: str, entries: Sequence[int], set_only: bool) -> None:
        self._divergence, self._entries, self._set_only = divergence, entries, set_only
        self.clear()

    def clear(self) -> None:
        self.values = dict.fromkeys(self._entries, 0.0)
        self.changed: set[int] = set()
        self.backed_up()

    def backed_up(self) -> None:
        self.saved = dict(self.values)
        self.changed.clear()
        self.greatest = 0.0

    def apply(self, item: Item, assign: bool) -> None:
        key, amount = item
        amount = 0.0 if self._set_only else amount
        if not (self._set_only and key in self.values):
            self.changed.add(key)
        self.values[key] = amount if assign else self.values.get(key, 0.0) + amount
        self.greatest = max(self.greatest, self.exact())

    def distances(self) -> list[float]:
        return [abs(value - self.saved.get(key, 0.0)) for key, value in self.values.items()]

    def exact(self) -> float:
        if self._divergence == "cardinality":
            return float(len(self.values) - len(self.saved))
        if self._divergence == "euclidean":
            return math.sqrt(sum(distance * distance for distance in self.distances()))
        return max(self.distances(), default=0.0) if self._divergence == "maximum" else math.fsum(self.distances())

    def kept(self) -> float:
        """What a state should report: of the maximum the greatest value since the backup."""
        return self.greatest if self._divergence == "maximum" else self.exact()


class Tally(State):
    """A state of a user's own, by the three methods of AF Table 7: how often each key was added, saved as a whole."""

    def __init__(self) -> None:
        self.counts: dict[int, float] = {}
        self._saved: dict[int, float] = {}

    def state_divergence(self) -> float:
        return sum(abs(count - self._saved.get(key, 0.0)) for key, count in self.counts.items())

    def backup_state(self) -> Backup:
        self._saved = dict(self.counts)
        return Backup(True, (np.array(list(self.counts), np.int64), np.array(list(self.counts.values()), np.float64)))

    def recover_state(self, backup: Backup) -> None:
        keys, counts = backup.arrays
        self.counts = dict(zip(keys.tolist(), counts.tolist()))
        self._saved = dict(self.counts)


@dataclass(frozen=True)
class Case:
    """A state and how to handle it; keys are numbers from 0 to N - 1."""

    name: str
    divergence: str
    make: Callable[[], State]
    update: Callable[[State, Sequence[Item], bool], int]
    contents: Callable[[State], list[Item]]
    entries: Sequence[int] = ()
    set_only: bool = False
    own: bool = False

    def naive(self) -> Naive:
        return Naive(self.divergence, self.entries, self.set_only)


def update_array(state: Vector | Matrix, items: Sequence[Item], assign: bool) -> int:
    keys, amounts = [key for key, _ in items], [amount for _, amount in items]
    return (state.assign if assign else state.add)(keys, amounts)


def update_number(state: Number, items: Sequence[Item], assign: bool) -> int:
    return (state.assign if assign else state.add)([amount for _, amount in items])


def word(key: int) -> bytes:
    """Of every length from 0 on, with long common beginnings."""
    return b"a" * key


def keys_of(kind: str, items: Sequence[Item]) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    keys = [key for key, _ in items]
    return pack_keys([word(key) for key in keys]) if kind == "bytes" else np.array(keys, np.int64) * 2**57


def numbers_of(kind: str, keys: np.ndarray | tuple[np.ndarray, np.ndarray]) -> list[int]:
    return [len(key) for key in unpack_keys(keys)] if kind == "bytes" else (keys // 2**57).tolist()


def update_map(state: HashMap, items: Sequence[Item], assign: bool) -> int:
    amounts = np.array([amount for _, amount in items])
    if state.get(keys_of(state.key, [])).dtype == np.int64:
        amounts = amounts.astype(np.int64)
    return (state.assign if assign else state.add)(keys_of(state.key, items), amounts)


def read_map(state: HashMap) -> list[Item]:
    keys, values = state.items()
    return list(zip(numbers_of(state.key, keys), values.tolist()))


def update_tally(state: Tally, items: Sequence[Item], assign: bool) -> int:
    for i, (key, amount) in enumerate(items):
        state.counts[key] = amount if assign else state.counts.get(key, 0.0) + amount
        if state.exceeded:
            return i + 1
    return len(items)


def read_array(state: Vector | Matrix | Number) -> list[Item]:
    return list(enumerate(state.values.ravel().tolist()))


ARRAY_DIVERGENCES = ("manhattan", "euclidean", "maximum")
CASES = [
    Case("number", "manhattan", Number, update_number, read_array, entries=(0,)),
    *(Case("vector", d, lambda d=d: Vector(N, d), update_array, read_array, range(N)) for d in ARRAY_DIVERGENCES),
    *(Case("matrix", d, lambda d=d: Matrix((3, 4), d), update_array, read_array, range(N)) for d in ARRAY_DIVERGENCES),
    *(
        Case(f"map-{key}-{values}", d, lambda k=key, d=d, v=values: HashMap(k, d, v), update_map, read_map)
        for key in ("int64", "bytes")
        for values in ("float64", "int64")
        for d in (*ARRAY_DIVERGENCES, "cardinality")
    ),
    *(
        Case(
            f"set-{key}", "cardinality", lambda k=key: KeySet(k),
            lambda state, items, assign: state.add(keys_of(state.key, items)),
            lambda state: [(number, 0.0) for number in numbers_of(state.key, state.items())],
            set_only=True,
        )
        for key in ("int64", "bytes")
    ),
    Case("own", "manhattan", Tally, update_tally, lambda state: list(state.counts.items()), own=True),
]  # fmt: skip
