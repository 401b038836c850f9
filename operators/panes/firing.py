"""One step of event time: items are added to panes, panes that are due are put out, and those that are over are dropped
(Akidau et al., The Dataflow Model, 2015: triggers, lateness and accumulation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from riprap.operators.panes.aggregates import Aggregate, nothing
from riprap.operators.panes.assigners import Assigner
from riprap.operators.panes.rows import EARLY, LATE, NEVER, ON_TIME, RETRACTION, Rows

MODES = ("accumulating", "discarding", "retracting")


@dataclass(frozen=True)
class Plan:
    """The panes of a job, and the times at which they are put out; times in the unit of the items' own."""

    assigner: Assigner
    aggregate: Aggregate
    mode: str = "accumulating"
    lateness: int = 0
    """A pane takes items until event time is so far behind its end."""
    early_items: float = math.inf
    """Items since its last output after which an open pane is put out."""
    late_items: int = 1
    """The same for a pane that was put out on time; all that is left when it is dropped."""


class TimedItems(NamedTuple):
    """Items with their event times and keys (int64), and values (float64).

    Within the operator keys of bytes are numbers; outside they are bytes and offsets (Keys in states/checks.py).
    """

    times: np.ndarray
    keys: Any
    values: np.ndarray


class Fired(NamedTuple):
    """Output of panes: arrays of one length; `kinds` as in rows.py (int8), keys as with TimedItems."""

    keys: Any
    starts: np.ndarray
    ends: np.ndarray
    values: np.ndarray
    kinds: np.ndarray


class Step(NamedTuple):
    """The result of a step."""

    rows: Rows
    changed: np.ndarray
    """Ids of the panes that are not as they were, or no more; one may stand twice."""
    fired: Fired
    late: TimedItems
    """Items all of whose panes were over."""


def step(plan: Plan, kept: Rows, items: TimedItems, before: int, now: int, hurry: bool = False) -> Step:
    """Add items that came while event time was `before`; then it is `now`. `hurry`: open panes with new items are due.

    The output does not depend on the order of items, except for the rounding of sums.
    """
    new = plan.assigner.panes(*items, plan.aggregate)
    rows, touched, moved = plan.assigner.merged(kept, new, plan.aggregate)
    changed = [moved.ids, rows.ids[touched]]
    is_over = rows.ends + plan.lateness <= before
    late = _late(plan, items, rows.take(~is_over), before)
    rows = rows.take(~is_over)
    kinds = _kinds(plan, rows, before, now, hurry)
    due = kinds != NEVER
    changed.append(rows.ids[due])
    fired = _put_out(plan, rows, moved, kinds)
    _note_put_out(plan, rows, kinds, fired)
    is_over = rows.ends + plan.lateness <= now
    changed.append(rows.ids[is_over])
    return Step(rows.take(~is_over), np.concatenate(changed), fired, late)


def _late(plan: Plan, items: TimedItems, live: Rows, before: int) -> TimedItems:
    """Items whose own panes are over, and that no live one has taken in."""
    if len(items.times) and plan.assigner.last_ends(items.times.min(keepdims=True))[0] + plan.lateness > before:
        return TimedItems(*(column[:0] for column in items))
    found = np.flatnonzero(plan.assigner.last_ends(items.times) + plan.lateness <= before)
    late = TimedItems(*(column[found] for column in items))
    if not len(found) or not len(live.keys):
        return late
    order = np.lexsort((np.append(np.zeros(len(live.keys)), np.ones(len(found))),
                        np.append(live.starts, late.times), np.append(live.keys, late.keys)))  # fmt: skip
    is_pane = order < len(live.keys)
    place = np.maximum.accumulate(np.where(is_pane, order, -1))[~is_pane]
    which = order[~is_pane] - len(live.keys)
    inside = np.zeros(len(found), bool)
    inside[which] = (place >= 0) & (live.keys[place] == late.keys[which]) & (late.times[which] < live.ends[place])
    return TimedItems(*(column[~inside] for column in late))


def _kinds(plan: Plan, rows: Rows, before: int, now: int, hurry: bool) -> np.ndarray:
    """The kind of output that each pane is due for now; NEVER for those that are not due."""
    complete, has_new = rows.ends <= now, rows.pending > 0
    first = complete & (rows.fired < ON_TIME)
    leaves = rows.ends + plan.lateness <= now
    again = complete & ~first & has_new & ((rows.pending >= plan.late_items) | leaves)
    early = ~complete & has_new & ((rows.pending >= plan.early_items) | hurry)
    kinds = np.full(len(rows.keys), NEVER)
    kinds[first] = np.where(rows.ends[first] <= before, LATE, ON_TIME)
    kinds[again], kinds[early] = LATE, EARLY
    return kinds


def _put_out(plan: Plan, rows: Rows, moved: Rows, kinds: np.ndarray) -> Fired:
    """Retractions first, then values; each in the order of key and start."""
    said = (kinds != NEVER) & ((rows.pending > 0) | (plan.mode != "discarding"))
    values = rows.take(said)
    parts = [_fired(values, plan.aggregate.result(values.parts), kinds[said])]
    if plan.mode == "retracting":
        back = rows.take(said & (rows.fired != NEVER)).and_(moved.take(moved.fired != NEVER))
        parts.insert(0, _fired(back, back.last, np.full(len(back.keys), RETRACTION)))
    return Fired(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _fired(rows: Rows, values: np.ndarray, kinds: np.ndarray) -> Fired:
    return Fired(rows.keys, rows.starts, rows.ends, values, kinds.astype(np.int8))


def _note_put_out(plan: Plan, rows: Rows, kinds: np.ndarray, fired: Fired) -> None:
    """Note in the rows the output of their panes."""
    due = kinds != NEVER
    said = due & ((rows.pending > 0) | (plan.mode != "discarding"))
    rows.last[said] = fired.values[fired.kinds != RETRACTION]
    rows.fired[due], rows.pending[due] = kinds[due], 0
    if plan.mode == "discarding":
        rows.parts[due] = nothing(plan.aggregate)
