"""Draws requests to a web site on the day of a match, semi-real: real arrivals and real paths, and servers made up.

Arrivals follow the requests of each minute of 30 June 1998 at the site of the World Cup, 73,291,779 in all
(`requests_per_minute.csv.gz`); paths are drawn by their number of requests in another site's log
(`request_paths.tsv.gz`), since none came with the counts. Where both come from, and their licences, stands in
tests/data/README.md.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.resources import files

import numpy as np

SERVERS = 32
"""About as many as answered at that site."""
OWN_SHARE = 1.0
"""The share of a path's requests that its own server answers; any answers the others."""
MINUTE_S = 60


def generator(rng: np.random.Generator, rows: int, own_share: float = OWN_SHARE) -> Callable[[int], bytes]:
    """A function that draws the given number of requests, in the order of time, as lines `time,server,path` of `rows`
    in all: Unix seconds, a number from 0, and the rest of the line."""
    starts, arrived = arrivals()
    paths, weights = path_weights()
    homes = rng.integers(0, SERVERS, len(paths))
    made = 0

    def chunk(lines: int) -> bytes:
        nonlocal made
        places = (made + np.arange(lines) + 0.5) / rows
        made += lines
        times = np.interp(places, arrived, starts).astype(np.int64)
        drawn = np.searchsorted(weights, rng.random(lines), side="right")
        is_own = rng.random(lines) < own_share
        servers = np.where(is_own, homes[drawn], rng.integers(0, SERVERS, lines))
        found = zip(times.tolist(), servers.tolist(), (paths[place] for place in drawn.tolist()), strict=True)
        return b"".join(b"%d,%d,%s\n" % row for row in found)

    return chunk


def arrivals() -> tuple[np.ndarray, np.ndarray]:
    """The bounds of the day's minutes in Unix seconds, and the share of all requests that came before each."""
    rows = [line.split(",") for line in _lines("requests_per_minute.csv.gz")[1:]]
    first = datetime.fromisoformat(rows[0][0]).replace(tzinfo=UTC).timestamp()
    counts = np.array([int(count) for _, count in rows])
    before = np.concatenate([[0], np.cumsum(counts)])
    return first + MINUTE_S * np.arange(len(before)), before / before[-1]


def path_weights() -> tuple[list[bytes], np.ndarray]:
    """The paths, the most frequent first, and the cumulative shares of their requests."""
    rows = [line.split("\t") for line in _lines("request_paths.tsv.gz")]
    weights = np.cumsum([int(count) for _, count in rows])
    return [path.encode() for path, _ in rows], weights / weights[-1]


def _lines(name: str) -> list[str]:
    return gzip.decompress(files(__package__).joinpath(name).read_bytes()).decode().splitlines()
