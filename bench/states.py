"""Updates a second of the fault-tolerant states on one core: `python -m bench.states`, half a minute.

Random keys out of a million, in blocks of 8,192; every state starts with all of its keys. The columns of a row are
timed in turns, so that a noisy machine disturbs all alike. Beside them stands what has no fault tolerance.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.runs import save, table
from riprap.operators.states import HashMap, KeySet, Matrix, Number, State, Vector, pack_keys

KEYS = 1_000_000
UPDATES = 2_000_000
BLOCK = 8192
REPEATS = 7
Pass = Callable[[], object]


@dataclass
class Subject:
    """A state full of keys, its items, and the same work without fault tolerance."""

    name: str
    state: State
    update: Callable[[int, int], int]
    theta: float
    rival: str = ""
    rival_pass: Pass | None = None
    share: float = 0.0  # of theta, by which an entry must have changed to be saved
    saved_bytes: int = 0  # by the backups of the last run

    def passes(self) -> dict[str, Pass]:
        found: dict[str, Pass] = {"no threshold": lambda: self.run(math.inf), "backups": lambda: self.run(self.theta)}
        return found | ({"rival": self.rival_pass} if self.rival_pass else {})

    def run(self, theta: float) -> int:
        """All items once; returns the number of backups that theta demands."""
        self.state.theta, first, backups, self.saved_bytes = theta, 0, 0, 0
        self.state.save_above = self.share * self.theta
        while first < UPDATES:
            first += self.update(first, min(UPDATES, first - first % BLOCK + BLOCK))
            if self.state.exceeded:
                self.saved_bytes += sum(array.nbytes for array in self.state.backup_state().arrays)
                backups += 1
        return backups


def map_subject(divergence: str, values: str, keys: np.ndarray, chosen: np.ndarray) -> Subject:
    state, amounts = HashMap("int64", divergence, values), np.ones(UPDATES, values)
    state.add(keys, np.ones(KEYS, values))
    state.backup_all()
    counts = dict.fromkeys(keys.tolist(), 1)
    listed = chosen.tolist()

    def count_in_dictionary() -> None:
        for key in listed:
            counts[key] += 1

    theta = {"manhattan": UPDATES / 100, "euclidean": math.sqrt(UPDATES / 100), "maximum": 3.0, "cardinality": 1.0}
    return Subject(
        f"HashMap int64, {divergence}, {values}", state,
        lambda first, stop: state.add(chosen[first:stop], amounts[first:stop]), theta[divergence],
        "dict in a loop", count_in_dictionary if divergence == "manhattan" else None,
    )  # fmt: skip


def bytes_subject(words: Sequence[bytes], indexes: np.ndarray) -> Subject:
    state, amounts = HashMap("bytes", "maximum", "int64"), np.ones(UPDATES, np.int64)
    state.add(pack_keys(words), np.ones(KEYS, np.int64))
    state.backup_all()
    data, offsets = pack_keys([words[i] for i in indexes.tolist()])
    return Subject(
        "HashMap bytes, maximum, int64", state,
        lambda first, stop: state.add((data, offsets[first : stop + 1]), amounts[first:stop]), 3.0,
    )  # fmt: skip


def zipf_subject(words: Sequence[bytes], share: float) -> Subject:
    """Words as a text has them: the most frequent one crosses theta about every 50,000 updates."""
    ranks = np.random.default_rng(1).zipf(1.1, 2 * UPDATES)
    ranks = ranks[ranks <= len(words)][:UPDATES]
    assert len(ranks) == UPDATES
    state, amounts = HashMap("bytes", "maximum", "int64"), np.ones(UPDATES, np.int64)
    data, offsets = pack_keys([words[rank - 1] for rank in ranks.tolist()])
    state.add((data, offsets), amounts)
    state.backup_all()
    theta = 50_000 * float((ranks == 1).mean())
    return Subject(
        f"HashMap bytes, maximum, Zipf words, save above {share:g} theta", state,
        lambda first, stop: state.add((data, offsets[first : stop + 1]), amounts[first:stop]), theta, share=share,
    )  # fmt: skip


def set_subject(keys: np.ndarray, chosen: np.ndarray) -> Subject:
    state = KeySet("int64")
    state.add(keys)
    state.backup_all()
    return Subject("KeySet int64", state, lambda first, stop: state.add(chosen[first:stop]), 1.0)


def array_subject(name: str, state: Any, indexes: np.ndarray, theta: float) -> Subject:
    amounts, plain = np.ones(UPDATES), np.zeros(state.values.size)
    return Subject(
        name, state, lambda first, stop: state.add(indexes[first:stop], amounts[first:stop]), theta,
        "numpy.add.at", lambda: np.add.at(plain, indexes, amounts),
    )  # fmt: skip


def number_subject() -> Subject:
    state, amounts = Number(), np.ones(UPDATES)
    return Subject("Number", state, lambda first, stop: state.add(amounts[first:stop]), UPDATES / 100)


def subjects() -> list[Subject]:
    """The subjects to measure; every row's memory stays while the others are measured."""
    rng = np.random.default_rng(0)
    keys, indexes = rng.integers(-(2**62), 2**62, KEYS), rng.integers(0, KEYS, UPDATES)
    chosen = keys[indexes]
    words = [b"word-%d" % key for key in range(KEYS)]
    maps = [("manhattan", "float64"), ("euclidean", "float64"), ("maximum", "float64"), ("maximum", "int64"),
            ("cardinality", "float64")]  # fmt: skip
    return [
        *(map_subject(divergence, values, keys, chosen) for divergence, values in maps),
        bytes_subject(words, indexes),
        *(zipf_subject(words, share) for share in (0.0, 0.1)),
        set_subject(keys, chosen),
        array_subject("Vector of 1,000,000, euclidean", Vector(KEYS, "euclidean"), indexes, math.sqrt(UPDATES / 100)),
        array_subject("Matrix 4 x 8,000, maximum", Matrix((4, 8000), "maximum"), indexes % 32_000, 10.0),
        number_subject(),
    ]


def measure(subject: Subject) -> tuple[dict[str, float], int]:
    """Median million updates a second of each pass, and the backups of the pass that makes them."""
    passes = subject.passes()
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(REPEATS):
        for name, run in passes.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    rates = {name: UPDATES / statistics.median(values) / 1e6 for name, values in seconds.items()}
    return rates, subject.run(subject.theta)


def filling() -> float:
    """Million new keys a second into an empty map, growth included."""
    keys, ones, seconds = np.random.default_rng(0).integers(-(2**62), 2**62, KEYS), np.ones(KEYS), []
    for _ in range(REPEATS):
        state = HashMap("int64")
        began = time.perf_counter()
        for first in range(0, KEYS, BLOCK):
            state.add(keys[first : first + BLOCK], ones[first : first + BLOCK])
        seconds.append(time.perf_counter() - began)
    return KEYS / statistics.median(seconds) / 1e6


def main() -> None:
    """Print and save."""
    rows: list[tuple[object, ...]] = []
    figures: dict[str, dict[str, float]] = {}
    for subject in subjects():
        rates, backups = measure(subject)
        each = subject.saved_bytes // max(backups, 1)
        figures[subject.name] = {**rates, "backups_made": backups, "bytes_each": each}
        rival = f"{subject.rival}: {rates['rival']:.3g}" if "rival" in rates else ""
        rows.append((subject.name, rates["no threshold"], rates["backups"], backups, each, rival))
    figures["HashMap int64, filling"] = {"no threshold": filling()}
    rows.append(
        ("HashMap int64, a million new keys", figures["HashMap int64, filling"]["no threshold"], "", "", "", "")
    )
    caption = f"M updates/s, one core, {KEYS:,} keys, {UPDATES:,} updates in blocks of {BLOCK:,}, medians of {REPEATS}"
    heading = ["state", "no threshold", "with backups", "backups made", "bytes each", "without fault tolerance"]
    save("states", "Fault-tolerant states", {caption: table(heading, rows)}, figures)


if __name__ == "__main__":
    main()
