"""The words of the tables, defined once for all benches: gap, stall, bytes.

throughput   `items_per_second` of the summary: from the first item emitted to the last epoch committed.
latency      of an epoch: from its opening at the source to its commit. The worst one of a kill: the longest of the
             epochs that are committed from the kill to the next kill; the usual one: the median of all epochs.
gap          seconds between two consecutive commits.
stall        of a kill: the longest gap from the kill to the next kill (or the end). No kill can hide from it, however
             many epochs were under way; every kill has one.
             Of a stop: the longest gap under its stretch, from its beginning to its end.
usual gap    the median of the gaps that end in the second half of what lies between two kills, or before the first.
recovery     detected, restored, caught up: milliseconds from the kill, as in summary.json.
bytes        copied: through sockets, or into shared memory. By reference: named to a neighbour and mapped by it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple


class Gap(NamedTuple):
    """From a commit to the next; monotonic seconds."""

    begin: float
    end: float

    @property
    def ms(self) -> float:
        """Its length."""
        return (self.end - self.begin) * 1000


def gaps(commits: Sequence[float]) -> list[Gap]:
    """Between the moments of commits."""
    ordered = sorted(commits)
    return [Gap(*pair) for pair in pairwise(ordered)]


def stalls_ms(commits: Sequence[float], kills: Sequence[float]) -> list[float]:
    """The stall of each kill, in the order of the kills; kills at one moment are to be given once.

    A gap in which a later kill falls counts for that kill too. ValueError for a kill behind the last commit, which
    nothing can be said of.
    """
    every, found = gaps(commits), []
    for at, until in _stretches(sorted(kills)):
        under = [gap.ms for gap in every if gap.end > at and gap.begin < until]
        if not under:
            raise ValueError(f"no commit follows the kill at {at}")
        found.append(max(under))
    return found


def longest_gap_ms(commits: Sequence[float], begin: float, end: float) -> float:
    """The longest gap under a stretch of time. ValueError where no commit follows its begin."""
    under = [gap.ms for gap in gaps(commits) if gap.end > begin and gap.begin < end]
    if not under:
        raise ValueError(f"no commit follows {begin}")
    return max(under)


def worst_latencies_ms(epochs: Sequence[tuple[float, float]], kills: Sequence[float]) -> list[float]:
    """The worst latency of each kill; epochs are (committed at, latency in ms). ValueError where there is none."""
    found = []
    for at, until in _stretches(sorted(kills)):
        behind = [latency for committed_at, latency in sorted(epochs) if committed_at > at]
        if not behind:
            raise ValueError(f"no commit follows the kill at {at}")
        until_next = [latency for committed_at, latency in epochs if at < committed_at <= until]
        found.append(max(until_next or behind[:1]))
    return found


def usual_gap_ms(commits: Sequence[float], kills: Sequence[float]) -> float:
    """The median gap while nothing is wrong."""
    every, ordered = gaps(commits), sorted(kills)
    calm = [gap.ms for gap in every if not ordered or gap.end <= ordered[0]]
    for at, until in _stretches(ordered):
        end = min(until, every[-1].end)
        calm += [gap.ms for gap in every if gap.begin >= (at + end) / 2 and gap.end <= end]
    return statistics.median(calm)


def bytes_per_item(summary: Mapping[str, Any], edge: str = "") -> tuple[float, float]:
    """Bytes an item, copied and by reference, over one edge or over all."""
    copied, shared = (
        sum(count for name, count in summary[kind].items() if edge in ("", name))
        for kind in ("bytes_sent", "bytes_shared")
    )
    return copied / summary["items"], shared / summary["items"]


def _stretches(kills: Sequence[float]) -> Iterator[tuple[float, float]]:
    """From each kill to the next, the last one without end."""
    yield from zip(kills, (*kills[1:], float("inf")))
