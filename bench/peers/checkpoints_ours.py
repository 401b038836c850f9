"""Riprap under `barrier`, aligned and unaligned, on the jobs of checkpoints_jobs.py."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.afstream.jobs import Job, Outcome, run
from bench.peers.checkpoints_jobs import KEYED, NONE, Measured, Stream, first_outputs_ms, rate_of
from bench.peers.recovery_ours import WORDS as WORD_COUNT
from bench.peers.recovery_ours import committed
from bench.takeover import Case

CASES = {
    NONE: "{scheme: none}",
    "aligned, 1 s": "{scheme: barrier, interval_ms: 1000}",
    "aligned, 100 ms": "{scheme: barrier, interval_ms: 100}",
    "unaligned, 1 s": "{scheme: barrier, interval_ms: 1000, alignment: unaligned}",
    "unaligned, 100 ms": "{scheme: barrier, interval_ms: 100, alignment: unaligned}",
}
FREE_ITEMS = {"keys": 100_000_000, "words": 24_000_000}
APART_S, BEFORE_S = 4.0, 8.0
"""Seconds between two kills, and before the first one."""
LINES = 1_000_000


def run_freely(stream: Stream, scheme: str) -> Measured:
    """At full speed; the rate is that of the second half of the time. RuntimeError where the job does not complete."""
    done = _run(stream, scheme, 0, FREE_ITEMS[stream.kind], [])
    counters = [committed([rows]) for rows in done.epochs]
    moments = [one.at for outputs in counters for one in outputs]
    middle = (min(moments) + max(moments)) / 2
    each = stream.counts_an_output(0)
    rate = sum(each * rate_of(outputs, middle, max(moments)) for outputs in counters)
    counts = FREE_ITEMS[stream.kind] * stream.counts_an_item
    cpu = sum(done.summary["cpu_seconds"].values()) / counts
    made = done.summary.get("checkpoints")
    if not made or not made["completed"]:
        return Measured(rate, cpu, 0)
    took = made["duration_ms"]
    return Measured(rate, cpu, made["completed"], took["median"], took["p99"], made["bytes"] / made["completed"])


def run_killed(stream: Stream, scheme: str, kills: int) -> list[float | None]:
    """At the stream's rate; milliseconds from each kill of a counter to a new output of every one."""
    victims = ["map.0"] if stream.kind == KEYED else ["count.0", "count.1"]
    faults = [
        f"kill:{victims[number % len(victims)]}@items={int(stream.rate * (BEFORE_S + number * APART_S))}"
        for number in range(kills)
    ]
    done = _run(stream, scheme, stream.rate, int(stream.rate * (BEFORE_S + kills * APART_S)), faults)
    moments = sorted(one["injected_at"] for one in done.summary["failures"] if one["action"] == "kill")
    if len(moments) != kills:
        raise RuntimeError(f"{len(moments)} of {kills} kills were injected")
    return first_outputs_ms([committed([rows]) for rows in done.epochs], moments)


def keyed_job(stream: Stream, scheme: str, rate: int, items: int, lines: Path) -> str:
    """The topology of the job with a keyed state, as text; `lines` is its input, again and again."""
    pace, batch = rate or "null", stream.items_an_output(rate)
    return Case(scheme, is_destination=True).job(lines=lines, rate=pace, limit=items, batch=batch, keys=stream.size)


def _run(stream: Stream, scheme: str, rate: int, items: int, faults: Sequence[str]) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder:
        if stream.kind == KEYED:
            lines, job = Path(folder, "lines.txt"), Path(folder, "job.yaml")
            lines.write_text("x\n" * LINES)
            job.write_text(keyed_job(stream, scheme, rate, items, lines))
            done = run(Job(str(job), faults=faults))
        else:
            sets = [f"input.path={Path(stream.files[0]).parent}", "input.repeat=1000", f"input.limit={items}"]
            sets += [f"input.rate={rate or 'null'}", f"micro_batch={stream.items_an_output(rate)}"]
            sets.append("stages.split.options.ascii=true")
            done = run(Job(WORD_COUNT, sets).under(scheme, *faults))
    if done.summary["items"] != items:
        raise RuntimeError(f"{done.summary['items']} items of {items}")
    return done
