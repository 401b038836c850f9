"""Draws where the users of a navigation app are and how fast, and the incidents that they report (PPA VI-B, Q2).

Each user stays on a segment of a road; segments are as popular as Zipf's law says. Every two seconds there is an
incident where some user is, so the more users a segment has, the more incidents; all users of the segment report it.
Some incidents lead to a jam. Locations and reports of one seed are of the same users and incidents. All is synthetic;
of the paper's users, and of its locations a second, there is one in twenty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

SEGMENTS = 1_000
SKEW = 0.5
USERS = 5_000
LOCATIONS_PER_S = 1_000
INCIDENT_EVERY_S = 2
JAM_SHARE = 0.5
JAM_S = 120
FREE_KMH, JAM_KMH, SPREAD_KMH = 80.0, 12.0, 8.0
REPORT_S = 5
"""A user reports an incident less than this later, and reports of several incidents overlap by no more."""
START_S = 1_500_000_000
BLOCK = 1024
"""Incidents that are drawn at a time."""


def users_segments(seed: int) -> np.ndarray:
    """The segment of each user, from 0."""
    rng = np.random.default_rng((seed, 0))
    weights = 1 / np.arange(1, SEGMENTS + 1) ** SKEW
    return rng.permutation(SEGMENTS)[rng.choice(SEGMENTS, USERS, p=weights / weights.sum())]


@lru_cache(maxsize=8)
def _block(seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng((seed, 1, number))
    return users_segments(seed)[rng.integers(0, USERS, BLOCK)], rng.random(BLOCK) < JAM_SHARE


def incidents(seed: int, first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """The segments of incidents first <= incident < stop, and a mask of those that lead to a jam; incident i is at
    START_S + i * INCIDENT_EVERY_S."""
    blocks = [_block(seed, number) for number in range(first // BLOCK, -(-stop // BLOCK))]
    part = slice(first - first // BLOCK * BLOCK, stop - first // BLOCK * BLOCK)
    segments, jams = (np.concatenate(columns)[part] for columns in zip(*blocks, strict=True))
    return segments, jams


def locations(seed: int) -> Callable[[int], bytes]:
    """A function that draws the given number of locations in the order of time, as lines `time,segment,speed`: Unix
    seconds, a number from 0, km/h."""
    rng, segments, made = np.random.default_rng((seed, 2)), users_segments(seed), 0

    def chunk(lines: int) -> bytes:
        nonlocal made
        elapsed = (made + np.arange(lines)) // LOCATIONS_PER_S
        made += lines
        where = segments[rng.integers(0, USERS, lines)]
        means = np.where(_jammed(seed, where, elapsed), JAM_KMH, FREE_KMH)
        speeds = np.maximum(means + SPREAD_KMH * rng.standard_normal(lines), 0)
        rows = zip((START_S + elapsed).tolist(), where.tolist(), speeds.tolist(), strict=True)
        return b"".join(b"%d,%d,%.1f\n" % row for row in rows)

    return chunk


def _jammed(seed: int, where: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
    """True for each location that is on a segment with a jam."""
    first = max(0, (int(elapsed[0]) - JAM_S) // INCIDENT_EVERY_S)
    segments, jams = incidents(seed, first, int(elapsed[-1]) // INCIDENT_EVERY_S + 1)
    begun = (first + np.flatnonzero(jams)) * INCIDENT_EVERY_S
    horizon = int(elapsed[-1]) + 1
    known = np.sort(segments[jams] * horizon + begun)
    latest = np.searchsorted(known, where * horizon + elapsed, side="right") - 1
    found = np.append(known, -1)[latest]
    return (found >= 0) & (found // horizon == where) & (elapsed - found % horizon < JAM_S)


def reports(seed: int) -> Callable[[int], bytes]:
    """A function that draws the given number of reports, incident by incident, as lines `time,segment`; a time is less
    than REPORT_S before the latest one so far."""
    rng, users = np.random.default_rng((seed, 3)), np.bincount(users_segments(seed), minlength=SEGMENTS)
    number, waiting = 0, b""

    def chunk(lines: int) -> bytes:
        nonlocal number, waiting
        while waiting.count(b"\n") < lines:
            (segment,), _ = incidents(seed, number, number + 1)
            at = START_S + number * INCIDENT_EVERY_S
            delays = np.sort(rng.integers(0, REPORT_S, users[segment])).tolist()
            waiting += b"".join(b"%d,%d\n" % (at + delay, segment) for delay in delays)
            number += 1
        *found, waiting = waiting.split(b"\n", lines)
        return b"\n".join([*found, b""])

    return chunk


STREAMS: Mapping[str, Callable[[int], Callable[[int], bytes]]] = {"locations": locations, "reports": reports}
"""By name, the function that makes a stream's generator from a seed."""
