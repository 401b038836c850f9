"""The tables of `profile.html`: the shares of each stage's and each thread's time, with bars."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from riprap.engine.profile.spans import SPENT, Interval, Shares, ThreadSpans, shares

SHARE_MIN = 0.0005
"""The share below which 0.0 % would be shown."""


class ShareRow(NamedTuple):
    """A row of the table: the first two columns, the shares, and True when a line is drawn above."""

    first: str
    second: str
    shares: Shares
    begins: bool


def tables(
    lanes: Sequence[ThreadSpans], unrecorded: Mapping[tuple[str, str], float], batch: Interval, job: Interval, word: str
) -> str:
    """The section of the tables, over one micro-batch and over the job; buttons choose one of them."""
    over = {"one": [shares(lane, batch) for lane in lanes], "all": [shares(lane, job) for lane in lanes]}
    both = "".join(
        f'<div class="scroll {name}">{_table(rows(lanes, found), *heading)}</div>'
        for rows, heading in ((stage_rows, ("stage", "compute threads")), (thread_rows, ("worker", "thread")))
        for name, found in over.items()
    )
    return f"""<section class="card">
<h2>Shares of time</h2>
<p class="soft">Wait is time that passed; the others are time on a CPU. What is left is stalled: the thread had work,
but others had the CPU, or a lock or the memory made it wait. Much of it tells of more busy threads than CPUs.</p>
<div class="tabs">
<input type="radio" name="over" id="one" checked><label for="one">this {word}</label>
<input type="radio" name="over" id="all"><label for="all">all that was recorded</label>
{both}
</div></section>{_unrecorded(unrecorded, job)}"""


def thread_rows(lanes: Sequence[ThreadSpans], found: Sequence[Shares | None]) -> Iterator[ShareRow]:
    """A row for each thread that recorded anything."""
    worker = ""
    for lane, share in zip(lanes, found):
        if share is not None:
            begins = lane.name != worker
            yield ShareRow(lane.name if begins else "", lane.thread, share, begins)
            worker = lane.name


def stage_rows(lanes: Sequence[ThreadSpans], found: Sequence[Shares | None]) -> Iterator[ShareRow]:
    """The compute threads of each stage together."""
    known = [
        (lane.worker.partition(".")[0], share)
        for lane, share in zip(lanes, found)
        if share is not None and not lane.is_network
    ]
    for stage, members in groupby(known, key=lambda entry: entry[0]):
        each = [share for _, share in members]
        yield ShareRow(stage, str(len(each)), together(each), True)


def together(each: Sequence[Shares]) -> Shares:
    """The shares of several threads, by the time that each was recorded."""
    seconds = sum(share.seconds for share in each)
    return Shares(seconds, {kind: sum(one.of[kind] * one.seconds for one in each) / seconds for kind in SPENT})


def _table(rows: Iterable[ShareRow], *heading: str) -> str:
    heads = "".join(f"<th>{name}</th>" for name in (*heading, "", *SPENT))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(map(_line, rows))}</tbody></table>"


def _line(row: ShareRow) -> str:
    of = row.shares.of
    return (
        f"<tr{' class=first' if row.begins else ''}><td>{html.escape(row.first)}</td><td>{html.escape(row.second)}</td>"
        f'<td class="wide">{_bar(of)}</td>{"".join(map(_percent, of.values()))}</tr>'
    )


def _bar(of: Mapping[str, float]) -> str:
    parts = (
        f'<i style="width:{share:.3%};background:var(--{kind})" title="{kind} {share:.1%}"></i>'
        for kind, share in of.items()
        if share >= SHARE_MIN
    )
    return f'<div class="bar">{"".join(parts)}</div>'


def _percent(share: float) -> str:
    return f"<td>{share:.1%}</td>" if share >= SHARE_MIN else '<td class="nil">0</td>'


def _unrecorded(used: Mapping[tuple[str, str], float], job: Interval) -> str:
    """The CPU time of the other threads; nothing where no worker lived to tell."""
    lines = "".join(
        f"<tr><td>{html.escape(stage)}</td><td>{html.escape(thread)}</td><td>{seconds:.2f} s</td>"
        f"{_percent(seconds / job.ns * 1e9)}</tr>"
        for (stage, thread), seconds in used.items()
        if seconds > 0
    )
    if not lines:
        return ""
    return f"""<section class="card">
<h2>Threads that record nothing</h2>
<p class="soft">CPU time of each stage's other threads, from their start to their end, and as a share of one CPU over
the job. ZMQbg/IO moves the bytes between messages and sockets; control sends heartbeats.</p>
<table class="narrow"><thead><tr><th>stage</th><th>thread</th><th>on a CPU</th><th>of one CPU</th></tr></thead>
<tbody>{lines}</tbody></table></section>"""
