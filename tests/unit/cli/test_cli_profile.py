"""Shares of time from spans written by hand, the micro-batch that is shown, and the page that comes of it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.engine.profile.page import write_page
from riprap.engine.profile.spans import (
    SPENT,
    Interval,
    ThreadSpans,
    interval_of,
    read_threads,
    shares,
    span_of_job,
    typical,
    with_gaps,
)  # fmt: skip
from riprap.engine.profile.tables import stage_rows, together
from riprap.engine.run_directory.epochs import EpochRow
from riprap.engine.wire.trace import KINDS, SPAN, Trace
from riprap.engine.worker.profile_folder import ABOUT, PROFILE, UNRECORDED, boot

Spent = tuple[str, int, int]
"""Kind (or "other" for what leaves no span), how long it takes, and how much of that on a CPU."""
STAGES = ["source", "processor", "sink"]


def thread(*spent: Spent, start: int = 1000, name: str = "compute", worker: str = "source.0", full: bool = False):
    """A thread that did these things one after another, from `start` ns on."""
    rows, now, cpu = [], start, 0
    for kind, length, ran in spent:
        if kind != "other":
            rows.append((now, now + length, cpu, cpu + ran, KINDS.index(kind) + 256 * 7))
        now, cpu = now + length, cpu + ran
    return ThreadSpans(worker, 1, name, np.array(rows, dtype=SPAN), full)


def of(spans: ThreadSpans, start: int, end: int) -> dict[str, float]:
    found = shares(spans, Interval(start, end))
    assert found is not None
    return {kind: round(share, 9) for kind, share in found.of.items() if share > 1e-9}


def test_waiting_is_time_that_passed_and_work_is_time_on_a_cpu() -> None:
    spans = thread(("compute", 40, 30), ("wait", 40, 2), ("other", 10, 10), ("send", 10, 10))
    assert of(spans, 1000, 1100) == {"compute": 0.3, "wait": 0.4, "other": 0.1, "send": 0.1, "stalled": 0.1}


def test_an_interval_cuts_spans_at_its_ends() -> None:
    spans = thread(("compute", 40, 20), ("wait", 60, 0))
    assert of(spans, 1020, 1060) == {"compute": 0.25, "stalled": 0.25, "wait": 0.5}
    assert of(spans, 0, 1020) == {"compute": 0.5, "stalled": 0.5}, "only what was recorded counts"
    assert shares(spans, Interval(0, 1000)) is None and shares(spans, Interval(1100, 1200)) is None


@given(
    st.lists(st.tuples(st.sampled_from([*KINDS[1:], "other"]), st.integers(1, 10**9), st.floats(0, 1.05)), max_size=20),
    st.integers(0, 2 * 10**9),
    st.integers(1, 10**10),
)
def test_shares_add_up_to_one(spent: list[tuple[str, int, float]], start: int, length: int) -> None:
    did = [("wait", 1, 0), *((kind, ns, int(ns * ran)) for kind, ns, ran in spent)]
    found = shares(thread(*did, start=10**9), Interval(start, start + length))
    if found is not None:
        assert tuple(found.of) == SPENT and all(0 <= share <= 1 + 1e-9 for share in found.of.values())
        assert sum(found.of.values()) == pytest.approx(1)


def test_threads_together_count_by_the_time_that_each_was_recorded() -> None:
    lanes = [thread(("compute", 100, 100)), thread(("wait", 300, 0), worker="source.1")]
    lanes.append(thread(("send", 900, 900), name="upstream"))
    ((stage, number, both, _),) = stage_rows(lanes, [shares(lane, Interval(1000, 2000)) for lane in lanes])
    assert (stage, number, both.of["compute"], both.of["wait"]) == ("source", "2", 0.25, 0.75)
    assert together([both]) == both


def test_gaps_are_spans_too() -> None:
    spans = with_gaps(thread(("compute", 10, 5), ("other", 20, 15), ("send", 5, 5), ("wait", 5, 0)).spans)
    assert [KINDS[int(tag) & 255] for tag in spans["tag"]] == ["compute", "nothing", "send", "wait"]
    assert (spans["end_ns"] - spans["start_ns"]).tolist() == [10, 20, 5, 5]
    assert int(spans[1]["cpu_end_ns"] - spans[1]["cpu_start_ns"]) == 15


def row(epoch: int, start: float, latency_s: float) -> EpochRow:
    return EpochRow(epoch, 10, latency_s * 1000, start + latency_s)


def test_the_epoch_shown_is_of_median_length_among_those_recorded_whole() -> None:
    rows = [row(n, float(n), length / 10) for n, length in enumerate([9, 1, 3, 2, 5, 4, 3.5, 8, 9, 9, 0.1], 0)]
    assert typical(rows, []).epoch == 5, "the first and the last are left out; of nine the fifth in length"  # type: ignore[union-attr]
    late = thread(("wait", 10**9, 0), start=6 * 10**9, full=True)
    assert typical(rows, [late]).epoch == 7, "what began before the ring's oldest span is left out"  # type: ignore[union-attr]
    assert typical(rows, [thread(("wait", 10, 0), start=10**12, full=True)]) == rows[-1]
    assert typical([], [late]) is None
    assert interval_of(rows[2]) == Interval(2 * 10**9, 2 * 10**9 + 3 * 10**8)
    assert span_of_job([], [late, thread(("wait", 5, 0))]) == Interval(1000, 7 * 10**9)


def leave(run_dir: Path, incarnation: str, *traces: str, at: str = "") -> None:
    """What an incarnation of a worker would have left: 10 ms of computing in each 20 ms, for 100 ms."""
    folder = run_dir / PROFILE / incarnation
    folder.mkdir(parents=True)
    (folder / ABOUT).write_text(json.dumps({"boot": at or boot()}))
    for name in traces:
        trace = Trace(folder / f"{name}.spans", 16)
        for n in range(5):
            start = 10**9 + n * 20_000_000
            trace.add("compute", (start, start + 10_000_000), (0, 10_000_000), n + 1)
            trace.add("wait", (start + 10_000_000, start + 20_000_000), (10_000_000, 10_000_000), n + 1)


def made(run_dir: Path, rows: list[EpochRow], word: str = "micro-batch") -> tuple[str, dict[str, Any]]:
    """The page, and the data that it draws."""
    path = write_page(run_dir, "a <job>", "erasure", STAGES, rows, word)
    assert path is not None
    text = path.read_text()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    return text, json.loads(found[1])


def test_the_page_shows_every_thread_of_every_worker(tmp_path: Path) -> None:
    for incarnation in ("sink.0#1", "processor.10#1", "processor.2#1", "processor.2#2", "source.0#1"):
        leave(tmp_path, incarnation, "upstream", "compute")
    (tmp_path / PROFILE / "sink.0#1" / UNRECORDED).write_text(json.dumps({"ZMQbg/IO/0": 0.05}))
    text, data = made(tmp_path, [row(1, 1.0, 0.02), row(2, 1.02, 0.04), row(3, 1.06, 0.03)])
    assert [(lane["worker"], lane["thread"]) for lane in data["lanes"]] == [
        (worker, name)
        for worker in ("source.0", "processor.2", "processor.2#2", "processor.10", "sink.0")
        for name in ("compute", "upstream")
    ]
    assert data["epoch"] == 3 and data["batch"] == [0, 300_000] and data["view"] == [-45_000, 345_000]
    spans = np.array(data["lanes"][0]["spans"]).reshape(-1, 5)
    assert spans.tolist()[:2] == [
        [KINDS.index("wait") - 1, -100_000, 0, 0, 3],
        [KINDS.index("compute") - 1, 0, 100_000, 100_000, 4],
    ]
    for worker in ("source.0", "processor.2", "processor.2#2", "processor.10", "sink.0"):
        assert text.count(f"<td>{worker}</td>") == 2, "over the micro-batch and over the job"
    assert "<td>66.7%</td>" in text and "<td>55.6%</td>" in text, "computing: 20 of 30 ms, 50 of 90 ms"
    assert "<td>ZMQbg/IO/0</td><td>0.05 s</td>" in text


def test_a_window_that_two_sinks_close_counts_once_with_the_items_of_both(tmp_path: Path) -> None:
    leave(tmp_path, "sink.0#1", "compute")
    text, data = made(tmp_path, [row(n, 1.0, 0.02 * n) for n in (1, 2, 3) for _ in range(2)], "window")
    assert data["epoch"] == 2
    assert "<dt>items of it</dt><dd>20</dd>" in text and "<dt>committed</dt><dd>3</dd>" in text


def test_an_attempt_begins_with_the_first_epoch_that_is_all_its_own(tmp_path: Path) -> None:
    """A window that was open when the machine went down is committed by the next attempt."""
    leave(tmp_path, "sink.0#1", "compute")
    rows = [row(1, 0.2, 0.82), row(2, 1.0, 0.04), row(3, 1.04, 0.06)]
    path = write_page(tmp_path, "job", "none", STAGES, rows, "window", since=0.9)
    assert path is not None and "<dt>the job</dt><dd>0.10 s</dd>" in path.read_text()
    assert "<dt>the job</dt><dd>0.90 s</dd>" in made(tmp_path, rows)[0]


def test_an_active_replica_stands_behind_its_primary(tmp_path: Path) -> None:
    for incarnation in ("processor.1#1", "processor.0~1#1", "processor.0#2"):
        leave(tmp_path, incarnation, "compute")
    _, data = made(tmp_path, [row(1, 1.0, 0.02)])
    assert [lane["worker"] for lane in data["lanes"]] == ["processor.0#2", "processor.0~1", "processor.1"]


class Links(HTMLParser):
    """Collects what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [f"{tag} {value}" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        self.open += [tag] if tag not in ("meta", "input", "br") else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_loads_nothing_and_is_well_formed(tmp_path: Path) -> None:
    leave(tmp_path, "source.0#1", "compute")
    text, _ = made(tmp_path, [row(1, 1.0, 0.02)])
    links = Links()
    links.feed(text)
    assert links.loads == [] and links.open == [] and "http" not in text and "@import" not in text
    assert "a &lt;job&gt;" in text and "<job>" not in text
    assert not re.findall(r"@\w+@", text), "all places are filled in"


def test_a_job_that_committed_nothing_has_a_page_of_its_end(tmp_path: Path) -> None:
    leave(tmp_path, "split.0#1", "compute")
    text, data = made(tmp_path, [], "window")
    assert "No window was committed" in text and data["epoch"] == 0 and data["word"] == "window"
    assert data["batch"] == [0, 1_000_000] and len(data["lanes"][0]["spans"]) == 10 * 5


def test_workers_of_other_hosts_are_named_and_not_drawn(tmp_path: Path) -> None:
    leave(tmp_path, "source.0#1", "compute")
    leave(tmp_path, "sink.0#1", "compute", at="another boot")
    text, data = made(tmp_path, [row(1, 1.0, 0.02)])
    assert [lane["worker"] for lane in data["lanes"]] == ["source.0"]
    assert "clocks of other hosts differ: sink.0#1." in text


def test_what_is_not_there_or_half_written_makes_no_page(tmp_path: Path) -> None:
    assert write_page(tmp_path, "job", "none", STAGES, [], "window") is None
    folder = tmp_path / PROFILE / "source.0#1"
    folder.mkdir(parents=True)
    (folder / "compute.spans").write_bytes(b"\1" * 100)
    assert write_page(tmp_path, "job", "none", STAGES, [], "window") is None, "it was killed before it could say where"
    (folder / ABOUT).write_text("{")
    (folder / "compute.spans").write_bytes(b"")
    assert read_threads(tmp_path / PROFILE, boot()) == ([], ["source.0#1"])
