"""Draws `profile.html`: what each thread of a job did over one micro-batch, and the shares of its time."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from engine.cli.epochs import EpochRow
from engine.cli.profile_spans import (
    OTHER,
    SHOWN,
    Interval,
    Shares,
    ThreadSpans,
    epochs_of,
    interval_of,
    kinds_of,
    read_threads,
    shares,
    span_of_job,
    typical,
)  # fmt: skip
from engine.profiling import PROFILE, boot

PAGE = "profile.html"
TEMPLATE = Path(__file__).with_name("profile_page.html")
MARGIN = 0.15
"""What is drawn before and after the micro-batch, in its lengths."""
LAST_NS = 100_000_000
"""What is drawn of a job that committed nothing: its end."""
UNIT_NS = 100
"""Of the times in the page."""
MEANINGS = {
    "wait": "sleeping until something arrives",
    "copy": "reading input, copying states and results",
    "code": "encoding and decoding",
    "compute": "the operator",
    "send": "handing messages on",
    "receive": "taking messages in",
    OTHER: "everything else: the Python of tasks, links and schemes",
}


@dataclass(frozen=True)
class Profile:
    """What the page shows. `rows` are the job's epochs; `word` is what the job calls one: micro-batch or window."""

    job: str
    scheme: str
    stages: Sequence[str]
    rows: Sequence[EpochRow]
    threads: Sequence[ThreadSpans]
    elsewhere: Sequence[str] = ()
    word: str = "micro-batch"

    @property
    def lanes(self) -> list[ThreadSpans]:
        """The threads in the order in which data passes them, and each worker's compute threads first."""
        place = {stage: number for number, stage in enumerate(self.stages)}

        def rank(thread: ThreadSpans) -> tuple[Any, ...]:
            stage, _, index = thread.worker.partition(".")
            io = ("upstream", "downstream").index(thread.thread) if thread.thread.endswith("stream") else -1
            return place.get(stage, len(place)), int(index), thread.life, io, thread.thread

        return sorted(self.threads, key=rank)


def write_page(
    run_dir: Path, job: str, scheme: str, stages: Sequence[str], rows: Sequence[EpochRow], word: str
) -> Path | None:
    """Write `profile.html` from what workers left in the run directory; None where they left nothing."""
    threads, elsewhere = read_threads(run_dir / PROFILE, boot())
    if not threads:
        return None
    path = run_dir / PAGE
    path.write_text(page(Profile(job, scheme, stages, rows, threads, elsewhere, word)))
    return path


def page(profile: Profile) -> str:
    """The whole page; it needs nothing else."""
    row = typical(profile.rows, profile.threads)
    job = span_of_job(profile.rows, profile.threads)
    batch = interval_of(row) if row else Interval(max(job.start_ns, job.end_ns - LAST_NS), job.end_ns)
    parts = {
        "title": html.escape(profile.job),
        "head": _head(profile, row, job),
        "caption": _caption(profile, row),
        "legend": _legend(),
        "tables": _tables(profile, batch, job),
        "data": json.dumps(_data(profile, row, batch), separators=(",", ":")).replace("</", "<\\/"),
    }
    text = TEMPLATE.read_text()
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part, 1)
    return text


def _head(profile: Profile, row: EpochRow | None, job: Interval) -> str:
    facts = {"scheme": profile.scheme}
    if row:
        facts |= {
            profile.word: f"{row.epoch:,}",
            "items of it": f"{row.items:,}",
            "length": f"{row.latency_ms:,.2f} ms",
        }
    facts |= {"the job": f"{job.ns / 1e9:,.2f} s", "committed": f"{len(profile.rows):,}"}
    listed = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd></div>" for name, text in facts.items()
    )
    notes = ""
    if profile.elsewhere:
        lives = html.escape(", ".join(profile.elsewhere))
        notes = f'<p class="note">Not shown, because the clocks of other hosts differ: {lives}.</p>'
    return (
        f'<h1>{html.escape(profile.job)}</h1><p class="soft">where the time of its threads goes</p>'
        f'<dl class="facts">{listed}</dl>{notes}'
    )


def _caption(profile: Profile, row: EpochRow | None) -> str:
    if row is None:
        return f"No {profile.word} was committed; this is the end of what was recorded."
    return (
        f"From the first emission of {profile.word} {row.epoch} to its commit, and a little around it. It is the one "
        f"of median length among those recorded. What is paler belongs to another {profile.word}."
    )


def _legend() -> str:
    entries = (f'<li><i style="background:var(--{kind})"></i>{kind}: {MEANINGS[kind]}</li>' for kind in SHOWN)
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _data(profile: Profile, row: EpochRow | None, batch: Interval) -> dict[str, Any]:
    margin = int(batch.ns * MARGIN)
    drawn = Interval(batch.start_ns - margin, batch.end_ns + margin)
    lanes = [lane for thread in profile.lanes if (lane := _lane(thread, drawn, batch.start_ns))]
    return {
        "word": profile.word,
        "epoch": row.epoch if row else 0,
        "kinds": SHOWN,
        "batch": [0, batch.ns // UNIT_NS],
        "view": [-margin // UNIT_NS, (batch.ns + margin) // UNIT_NS],
        "lanes": lanes,
    }


def _lane(thread: ThreadSpans, drawn: Interval, zero_ns: int) -> dict[str, Any] | None:
    """What is drawn of a thread, each span as kind (of SHOWN), start, end, CPU time, epoch; None if there is nothing."""
    part = thread.recorded.within(drawn)
    if part is None:
        return None
    spans = thread.spans
    spans = spans[(spans["end_ns"] > drawn.start_ns) & (spans["start_ns"] < drawn.end_ns)]
    starts, ends = ((spans[name] - zero_ns) // UNIT_NS for name in ("start_ns", "end_ns"))
    ran = (spans["cpu_end_ns"] - spans["cpu_start_ns"]) // UNIT_NS
    fields = np.column_stack([kinds_of(spans) - 1, starts, ends, ran, epochs_of(spans)])
    recorded = [(moment - zero_ns) // UNIT_NS for moment in (part.start_ns, part.end_ns)]
    return {
        "worker": _name(thread),
        "thread": thread.thread,
        "recorded": recorded,
        "spans": fields.ravel().tolist(),
    }


def _name(thread: ThreadSpans) -> str:
    return thread.worker if thread.life == 1 else f"{thread.worker}#{thread.life}"


def _tables(profile: Profile, batch: Interval, job: Interval) -> str:
    lanes = profile.lanes
    found = {"one": [shares(lane, batch) for lane in lanes], "all": [shares(lane, job) for lane in lanes]}
    by_stage = "".join(
        f'<div class="scroll {name}">{_table(_stage_rows(lanes, which), "stage", "compute threads")}</div>'
        for name, which in found.items()
    )
    by_thread = "".join(
        f'<div class="scroll {name}">{_table(_thread_rows(lanes, which), "worker", "thread")}</div>'
        for name, which in found.items()
    )
    return f"""<section class="card">
<h2>Shares of time</h2>
<p class="soft">Of the time that passed, on a CPU or not; the last column says how
much of it a thread really ran. Where there are more threads than CPUs,
what it lacks in compute and code it spent waiting for one.</p>
<div class="tabs">
<input type="radio" name="over" id="one" checked><label for="one">this {profile.word}</label>
<input type="radio" name="over" id="all"><label for="all">the whole recording</label>
{by_stage}{by_thread}
</div></section>"""


Row = tuple[str, str, Shares, bool]
"""What stands in the first two columns, the shares, and whether a line is drawn above."""


def _thread_rows(lanes: Sequence[ThreadSpans], found: Sequence[Shares | None]) -> Iterator[Row]:
    worker = ""
    for lane, share in zip(lanes, found):
        if share is not None:
            name = _name(lane)
            yield name if name != worker else "", lane.thread, share, name != worker
            worker = name


def _stage_rows(lanes: Sequence[ThreadSpans], found: Sequence[Shares | None]) -> Iterator[Row]:
    """The compute threads of a stage together, each by the time that it was recorded."""
    known = [
        (lane.worker.partition(".")[0], share)
        for lane, share in zip(lanes, found)
        if share is not None and not lane.thread.endswith("stream")
    ]
    for stage, members in groupby(known, key=lambda entry: entry[0]):
        each = [share for _, share in members]
        yield stage, str(len(each)), together(each), True


def together(each: Sequence[Shares]) -> Shares:
    """The shares of several threads as if they were one."""
    seconds = sum(share.seconds for share in each)

    def mean(values: Iterable[float]) -> float:
        return sum(value * share.seconds for value, share in zip(values, each)) / seconds

    of = {kind: mean(share.of[kind] for share in each) for kind in SHOWN}
    return Shares(seconds, of, mean(share.running for share in each))


def _table(rows: Iterable[Row], *heading: str) -> str:
    heads = "".join(f"<th>{name}</th>" for name in (*heading, "", *SHOWN, "on a CPU"))
    body = "".join(
        f"<tr{' class=first' if first else ''}><td>{html.escape(one)}</td><td>{html.escape(two)}</td>"
        f'<td class="wide">{_bar(share.of)}</td>{"".join(map(_percent, (*share.of.values(), share.running)))}</tr>'
        for one, two, share, first in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _bar(of: Mapping[str, float]) -> str:
    parts = (
        f'<i style="width:{share:.3%};background:var(--{kind})" title="{kind} {share:.1%}"></i>'
        for kind, share in of.items()
        if share >= 0.0005
    )
    return f'<div class="bar">{"".join(parts)}</div>'


def _percent(share: float) -> str:
    return f"<td>{share:.1%}</td>" if share >= 0.0005 else '<td class="nil">0</td>'
