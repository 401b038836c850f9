"""`riprap run --profile`: the model is the same, and the page tells of each thread of each worker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from cli_harness import WORD_COUNT, Cli
from shared_cluster import SharedCluster

from riprap.engine.wire.trace import KINDS, SPAN

SHARED_ENSEMBLE = True

ROWS, BATCH, BLOCKS = 5000, 500, 2
"""Items of the input, of a micro-batch, and the blocks that one is cut into."""
EPOCHS = ROWS // BATCH
WORKERS = ["source.0", *(f"processor.{i}" for i in range(3)), "sink.0"]
THREADS = ["compute", "upstream", "downstream"]


def page_of(run_dir: Path) -> tuple[str, dict[str, Any]]:
    """The page of a run, and the data that it draws."""
    text = (run_dir / "profile.html").read_text()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    return text, json.loads(found[1])


def spans_of(run_dir: Path, incarnation: str, thread: str = "compute") -> np.ndarray:
    slots = np.fromfile(run_dir / "profile" / incarnation / f"{thread}.spans", dtype=SPAN)
    return np.sort(slots[slots["tag"] != 0], order="start_ns")


def epochs_of(spans: np.ndarray, kind: str) -> list[int]:
    """The epochs of all spans of a kind, in the order of time."""
    return (spans["tag"][(spans["tag"] & 255) == KINDS.index(kind)] >> 8).tolist()


def test_a_profiled_run_trains_the_same_model_and_shows_where_its_time_went(cli: Cli, cluster: SharedCluster) -> None:
    plain = cluster.job(cli.directory / "job.yaml", cli.directory / "plain")
    ended = cli.answer("run", "job.yaml", "--out", "out", "--json", "--profile")
    assert ended.returncode == 0, ended.stderr
    summary, run_dir = json.loads(ended.stdout), cli.directory / "out"
    assert summary["model"]["sha256"] == plain["model"]["sha256"] and summary["epochs"] == plain["epochs"] == EPOCHS
    assert not (cli.directory / "plain/profile").exists() and not (cli.directory / "plain/profile.html").exists()

    text, data = page_of(run_dir)
    lanes = {(lane["worker"], lane["thread"]) for lane in data["lanes"]}
    assert lanes == {(worker, thread) for worker in WORKERS for thread in THREADS}
    assert all(f"<td>{worker}</td>" in text for worker in WORKERS)
    assert 1 <= data["epoch"] <= EPOCHS and data["batch"][0] < data["batch"][1]

    computed = [epochs_of(spans_of(run_dir, f"processor.{i}#1"), "compute") for i in range(3)]
    of_data = sorted(epoch for epochs in computed for epoch in set(epochs))
    assert set(of_data) >= set(range(1, EPOCHS + 1)), "some processor computed in each micro-batch"
    feedbacks = 3 * (EPOCHS + 1)
    assert EPOCHS * BLOCKS <= sum(map(len, computed)) <= EPOCHS * BLOCKS + feedbacks
    source = spans_of(run_dir, "source.0#1")
    assert len(epochs_of(source, "code")) == EPOCHS, "each row is encoded in one pass"
    assert len(epochs_of(source, "copy")) == EPOCHS * BLOCKS, "each block is read once"
    sink = epochs_of(spans_of(run_dir, "sink.0#1"), "compute")
    assert len(sink) >= EPOCHS * (BLOCKS + 2), "each result aggregated, the commit, and the state to recompute with"
    for incarnation in (path.name for path in (run_dir / "profile").iterdir()):
        for thread in THREADS:
            spans = spans_of(run_dir, incarnation, thread)
            times = np.column_stack([spans["start_ns"], spans["end_ns"]]).ravel()
            assert len(spans) and (np.diff(times) >= 0).all(), f"spans of {incarnation} {thread} overlap"
    cli.await_no_process()


def test_a_graph_of_dataflow_operators_that_fails_still_has_its_page(cli: Cli) -> None:
    (cli.directory / "text.txt").write_text("one two three\n" * 3000)
    (cli.directory / "mine.py").write_text(
        "from riprap.operators.text.word_count import CountWords as Sound\n\n\n"
        "class CountWords(Sound):\n"
        "    def process_punctuation(self, epoch, out):\n"
        "        if epoch == 4:\n"
        "            raise ZeroDivisionError('a mistake')\n"
        "        super().process_punctuation(epoch, out)\n"
    )
    words = (WORD_COUNT % (1, 500)).replace("word_count:CountWords", "mine:CountWords")
    (cli.directory / "words.yaml").write_text(words)
    ended = cli.answer("run", "words.yaml", "--out", "out", "--profile")
    assert ended.returncode == 1 and "ZeroDivisionError: a mistake" in ended.stderr
    text, data = page_of(cli.directory / "out")
    assert data["word"] == "window" and "this window" in text
    workers = {lane["worker"] for lane in data["lanes"] if lane["thread"] == "compute"}
    assert workers <= {"split.0", "split.1", "count.0", "count.1"} and workers >= {"split.0", "split.1"}
    counted = [epochs_of(spans_of(cli.directory / "out", f"count.{i}#1"), "compute") for i in (0, 1)]
    last = [epochs[-1] for epochs in counted if epochs]  # on busy cores the other one may not have begun
    assert 4 in last, "whoever failed did so there, and what it did until then is kept"
