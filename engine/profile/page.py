"""Draws `profile.html`: the spans of each thread of a job over one micro-batch, and the shares of its time."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from riprap.codec.files import replace as replace_file
from riprap.codec.ids import WorkerId
from riprap.codec.json_text import to_json
from riprap.engine.pages.fill import fill
from riprap.engine.profile.spans import (
    NETWORK,
    OTHER,
    SPENT,
    Interval,
    ThreadSpans,
    epochs_of,
    interval_of,
    kinds_of,
    read_threads,
    read_unrecorded,
    span_of_job,
    typical,
    with_gaps,
)
from riprap.engine.profile.tables import tables
from riprap.engine.run_directory.epochs import EpochRow
from riprap.engine.worker.profile_folder import PROFILE, boot

PAGE = "profile.html"
TEMPLATE = Path(__file__).with_name("page.html")
MARGIN = 0.15
"""The time drawn before and after the micro-batch, in its lengths."""
LAST_NS = 100_000_000
"""The time drawn of a job that committed nothing: its end."""
UNIT_NS = 100
"""The unit of the times in the page."""
MEANINGS = {
    "wait": "sleeping until something arrives",
    "copy": "reading input, writing into shared memory, saving",
    "code": "encoding and decoding",
    "compute": "the operator",
    "send": "handing messages on",
    "receive": "taking messages in",
    "other": "the rest: Python of tasks, links, schemes",
    "stalled": "with work to do, but not on a CPU",
}


@dataclass(frozen=True)
class Profile:
    """The content of the page. `rows` are the epochs of each sink, `word` is the job's name for one."""

    job: str
    scheme: str
    stages: Sequence[str]
    rows: Sequence[EpochRow]
    threads: Sequence[ThreadSpans]
    elsewhere: Sequence[str] = ()
    unrecorded: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Stage and thread -> CPU time (s) of the threads that record no spans."""
    word: str = "micro-batch"

    @property
    def lanes(self) -> list[ThreadSpans]:
        """The threads in the order in which data passes them, and each worker's compute threads first."""
        place = {stage: number for number, stage in enumerate(self.stages)}

        def rank(thread: ThreadSpans) -> tuple[Any, ...]:
            worker = WorkerId.parse(thread.worker)
            io = NETWORK.index(thread.thread) if thread.is_network else -1
            at = place.get(worker.stage, len(place))
            return at, worker.index, worker.copy, thread.incarnation, io, thread.thread

        return sorted(self.threads, key=rank)


def write_page(
    run_dir: Path, job: str, scheme: str, stages: Sequence[str], rows: Sequence[EpochRow], word: str,
    since: float = 0.0,
) -> Path | None:  # fmt: skip
    """Write `profile.html` from the workers' records in the run directory; None where there are none.

    Epochs that were open before `since` (monotonic s) are an earlier attempt's too, and left out: nothing was recorded
    of it, nor of the time between.
    """
    threads, elsewhere = read_threads(run_dir / PROFILE, boot())
    if not threads:
        return None
    own = [row for row in rows if row.committed_at - row.latency_ms / 1000 >= since]
    profile = Profile(job, scheme, stages, own, threads, elsewhere, read_unrecorded(run_dir / PROFILE), word)
    path = run_dir / PAGE
    replace_file(path, page(profile))
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
        "tables": tables(profile.lanes, profile.unrecorded, batch, job, profile.word),
        "data": to_json(_data(profile, row, batch), separators=(",", ":")),
    }
    return fill(TEMPLATE, parts)


def _head(profile: Profile, row: EpochRow | None, job: Interval) -> str:
    facts = {"scheme": profile.scheme}
    if row:
        facts |= {
            profile.word: f"{row.epoch:,}",
            "items of it": f"{sum(one.items for one in profile.rows if one.epoch == row.epoch):,}",
            "length": f"{row.latency_ms:,.2f} ms",
        }
    facts |= {"the job": f"{job.ns / 1e9:,.2f} s", "committed": f"{len({one.epoch for one in profile.rows}):,}"}
    listed = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd></div>" for name, text in facts.items()
    )
    notes = ""
    if profile.elsewhere:
        incarnations = html.escape(", ".join(profile.elsewhere))
        notes = f'<p class="note">Not shown, because the clocks of other hosts differ: {incarnations}.</p>'
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
    entries = (f'<li><i style="background:var(--{kind})"></i>{kind}: {MEANINGS[kind]}</li>' for kind in SPENT)
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _data(profile: Profile, row: EpochRow | None, batch: Interval) -> dict[str, Any]:
    margin = int(batch.ns * MARGIN)
    drawn = Interval(batch.start_ns - margin, batch.end_ns + margin)
    lanes = [lane for thread in profile.lanes if (lane := _lane(thread, drawn, batch.start_ns))]
    return {
        "word": profile.word,
        "epoch": row.epoch if row else 0,
        "kinds": SPENT,
        "batch": [0, batch.ns // UNIT_NS],
        "view": [-margin // UNIT_NS, (batch.ns + margin) // UNIT_NS],
        "lanes": lanes,
    }


def _lane(thread: ThreadSpans, drawn: Interval, zero_ns: int) -> dict[str, Any] | None:
    """The drawing of a thread, each span as kind (of SPENT), start, end, CPU time, epoch; None: nothing."""
    if thread.recorded.within(drawn) is None:
        return None
    spans = with_gaps(thread.spans)
    spans = spans[(spans["end_ns"] > drawn.start_ns) & (spans["start_ns"] < drawn.end_ns)]
    starts, ends = ((spans[name] - zero_ns) // UNIT_NS for name in ("start_ns", "end_ns"))
    ran = np.maximum(0, spans["cpu_end_ns"] - spans["cpu_start_ns"]) // UNIT_NS
    kinds = np.where(kinds_of(spans) == 0, SPENT.index(OTHER), kinds_of(spans) - 1)
    fields = np.column_stack([kinds, starts, ends, ran, epochs_of(spans)])[ends > starts]
    return {
        "worker": thread.name,
        "thread": thread.thread,
        "spans": fields.ravel().tolist(),
    }
