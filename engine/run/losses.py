"""The losses of a job, certain or possible, in each recovery: bounds are said as bounds, counts as counts (AF 3.5).

A recovery is an incarnation that went on from what another had saved. One that ended before its failure was on record
is known to no later one, which then goes on from the same records: the last that says so counts.

What an incarnation has missed is its own; what stays lost of coded rows, the next ones find in their records too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Stats = Mapping[str, Any]


def losses(stats: Mapping[str, Sequence[Stats]], left_out: int = 0) -> dict[str, Any]:
    """`items` were counted as lost, or are `left_out` of all windows, as those are too; `states` may lack something;
    `recoveries` has the details, by incarnation."""
    recoveries = list(_recoveries(stats))
    every = [one for of_worker in stats.values() for one in of_worker]
    missed = sum(_missed(one) for one in every if not one.get("recovery"))
    of_rows = sum(max(map(_lost_of_rows, of_worker), default=0) for of_worker in stats.values())
    return {
        "items": max(left_out, int(missed) + int(of_rows) + sum(one["items_lost"] for one in recoveries)),
        "states": sum(one["state"] != "" and one["divergence_max"] != 0 for one in recoveries),
        "recoveries": recoveries,
    }


def _missed(one: Stats) -> int:
    return one.get("missed_items", one.get("lost_items")) or 0


def _lost_of_rows(one: Stats) -> int:
    return (one.get("lost_items") or 0) - _missed(one)


def _recoveries(stats: Mapping[str, Sequence[Stats]]) -> Iterator[dict[str, Any]]:
    for worker, of_worker in sorted(stats.items()):
        newest: dict[int, Stats] = {}
        for number, said in enumerate(of_worker):
            if recovery := said.get("recovery"):
                known = {name: value for name, value in recovery.items() if name != "earlier"}
                for one in recovery.get("earlier", ()):  # of an incarnation that ended before it could say so itself
                    newest.setdefault(one["failure"], {**one, "items_lost": 0})
                newest[recovery["failure"] or -number] = known
        yield from ({"worker": worker, **newest[key]} for key in sorted(newest, key=abs))


def sentences(lost: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Sentences for people: the counts, and each recovery that may lack something."""
    if lost["items"]:
        yield "LOST", f"{lost['items']:,} items"
    for one in lost["recoveries"]:
        if parts := list(_parts(one)):
            yield "MAY LACK", f"{one['worker']}, restored in window {one['window'] + 1:,}: {'; '.join(parts)}"


def _parts(one: Mapping[str, Any]) -> Iterator[str]:
    if one["state"] and one["divergence_max"] is None:
        yield f"all of its state ({one['state']})"
    elif one["state"] and one["divergence_max"]:
        yield f"a divergence of {_most(one['divergence_max'])} ({one['state']}){_of_each(one)}"
    for name, what in (("items_max", "items unprocessed"), ("output_max", "items of output")):
        if one[name] != 0:
            yield f"{_most(one[name])} {what}"


def _of_each(one: Mapping[str, Any]) -> str:
    return "" if one["each_max"] is None else f", of each entry {one['each_max']:.3%} at most and none whole"


def _most(bound: float | None) -> str:
    return "any number of" if bound is None else f"at most {bound:,.6g}"
