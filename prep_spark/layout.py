"""Decides, from counts alone, which row goes into which shard."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

CHUNK_ROWS = 1 << 20


class ShardPlan(NamedTuple):
    """One shard: the `rows` rows of `part` ("all", "train" or "test") among the kept rows start <= row < stop."""

    part: str
    number: int
    start: int
    stop: int
    rows: int


def held_back(start: int, stop: int, fraction: float, seed: int) -> np.ndarray:
    """A mask, as bools, of the kept rows start <= row < stop that are held back.

    A hash of the row's number and the seed decides, so it neither depends on how the input was split nor follows the
    stream's order. The hash is SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
    OOPSLA 2014, figure 15).
    """
    z = np.arange(start, stop, dtype=np.uint64) + np.uint64(1)
    with np.errstate(over="ignore"):
        z = z * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed % 2**64) * np.uint64(0xD1342543DE82EF95)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) < fraction * 2.0**53


def chosen(plan_part: str, start: int, stop: int, fraction: float, seed: int) -> np.ndarray | None:
    """A mask of these rows that belong to a part; None for all of them."""
    if plan_part == "all":
        return None
    held = held_back(start, stop, fraction, seed)
    return held if plan_part == "test" else ~held


def plan_shards(rows: int, fraction: float, seed: int, shard_rows: int) -> list[ShardPlan]:
    """The shards of `rows` kept rows, each of `shard_rows` rows but the last of its part."""
    if fraction == 0:
        starts = range(0, rows, shard_rows)
        return [
            _plan("all", i, start, min(start + shard_rows, rows), rows, shard_rows) for i, start in enumerate(starts)
        ]
    return [plan for part in ("train", "test") for plan in _plan_part(part, rows, fraction, seed, shard_rows)]


def _plan(part: str, number: int, start: int, stop: int, rows: int, shard_rows: int) -> ShardPlan:
    return ShardPlan(part, number, start, stop, min(shard_rows, rows - number * shard_rows))


def _plan_part(part: str, rows: int, fraction: float, seed: int, shard_rows: int) -> list[ShardPlan]:
    starts: list[int] = []
    count = 0
    for start in range(0, rows, CHUNK_ROWS):
        held = held_back(start, min(start + CHUNK_ROWS, rows), fraction, seed)
        places = np.flatnonzero(held if part == "test" else ~held) + start
        starts += places[-count % shard_rows :: shard_rows].tolist()
        count += len(places)
    stops = [*starts[1:], rows]
    return [_plan(part, i, start, stop, count, shard_rows) for i, (start, stop) in enumerate(zip(starts, stops))]
