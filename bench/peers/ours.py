"""Riprap as one more contender: the same workloads through `riprap run`, answers in the form of the programs' lines."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.afstream.jobs import Job, Outcome, run
from bench.afstream.settings import NONE, approximate
from bench.peers.programs import harness
from bench.peers.workloads import Size, Workload, count_result, data_set

#: Contender -> its fault_tolerance section, for each program's name.
LOGISTIC = {
    "riprap none": NONE,
    "riprap erasure (4,2)": "{scheme: erasure, code: gf256, k: 4, r: 2}",
    "riprap replication 3x": "{scheme: replication, copies: 3}",
}
DATAFLOW = {"riprap none": NONE, "riprap approximate": approximate(1e4, 1e3)}
SCHEMES: dict[str, dict[str, str]] = {"logistic": LOGISTIC, "words": DATAFLOW, "flows": DATAFLOW}
SIZE = Size(60_000_000, word_passes=12, flow_passes=80)
WORD_WINDOWS = 10


def config(workload: Workload) -> str:
    """The topology, which is the user's code."""
    if workload.program == "logistic":
        return f"configs/logistic_regression_{data_set(workload)}.yaml"
    return {"words": "configs/word_count.yaml", "flows": "configs/heavy_hitters.yaml"}[workload.program]


def line(workload: Workload, contender: str, words: list[str]) -> dict[str, Any]:
    """Run once with a program's arguments; returns the line of a program. RuntimeError when it does not complete."""
    given = dict(zip(words[::2], words[1::2], strict=True))
    sets = {"logistic": _logistic, "words": _words, "flows": _flows}[workload.program](given)
    job = Job(config(workload), [f"input.path={given['--data']}", *sets])
    done = run(job.under(SCHEMES[workload.program][contender]))
    result = RESULTS[workload.program](done, given)
    return {
        "items": result["words"] * int(given["--passes"]) if workload.program == "words" else done.summary["items"],
        "seconds": done.summary["seconds"],
        "startup_seconds": done.summary["startup_seconds"],
        "peak_rss_mb": sum(done.summary["peak_rss_mb"].values()),
        "result": result,
        "version": "the commit above",
    }


def reason(message: str) -> str:
    """The line of a failed run's message that tells the cause, or its last."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("error:")), lines[-1])


def _logistic(given: Mapping[str, str]) -> list[str]:
    items, rows = int(given["--items"]), _rows(given["--data"])
    return [f"input.limit={items}", f"input.repeat={-(-items // rows)}", f"micro_batch={given['--micro-batch']}"]


def _words(given: Mapping[str, str]) -> list[str]:
    passes = int(given["--passes"])
    window = max(1, _rows(given["--data"]) * passes // WORD_WINDOWS)
    return [f"input.repeat={passes}", f"micro_batch={window}", "stages.split.options.ascii=true"]  # as the others split


def _flows(given: Mapping[str, str]) -> list[str]:
    stages = [f"stages.{stage}.options.threshold={given['--threshold']}" for stage in ("sketch", "merge")]
    return [f"input.repeat={given['--passes']}", f"micro_batch={_rows(given['--data'])}", *stages]


def _rows(folder: str) -> int:
    from riprap.operators.inputs.job_input import open_input

    return int(open_input(folder).items)


def _model(done: Outcome, given: Mapping[str, str]) -> dict[str, Any]:
    model = done.results[0]
    return dict(harness.score_weights(model["coefficients"], float(model["intercept"][0]), Path(given["--test"])))


def _counts(done: Outcome, given: Mapping[str, str]) -> dict[str, Any]:
    counts: dict[bytes, int] = {}
    for task in done.results:
        text, ends = task["words"].tobytes(), task["offsets"].tolist()
        words = [text[begin:end] for begin, end in pairwise(ends)]
        counts.update(zip(words, (task["counts"] // int(given["--passes"])).tolist(), strict=True))
    return count_result(counts)


def _heavy(done: Outcome, given: Mapping[str, str]) -> dict[str, Any]:
    found = done.results[0]
    return {"flows": np.unique(found["flow"][found["epoch"] == found["epoch"].max()]).tolist()}


RESULTS = {"logistic": _model, "words": _counts, "flows": _heavy}
