"""The workloads: the data they stream, the amount for each contender, and the checks of an answer.

A contender is a program's file name without its workload: `river_item` for programs/river_item_words.py.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.afstream import data
from bench.numpy_loop import Linear, logistic
from bench.numpy_loop import train as descend
from bench.peers.programs import harness
from bench.runs import ready

MICRO_BATCH = 100_000
ROWS = 2_000_000
RATES = {"kdd12": 2.0, "higgs": 1.0}  # learning rates, those of the topologies in configs/
LOSS_MAX = {"kdd12": 0.205, "higgs": 0.67}
"""Log loss, in nats, that learners with mathematics of their own must stay below."""
LOSS_TOLERANCE = 0.005
"""The greatest distance of the others from gradient descent in NumPy on as many items."""
PER_ITEM = ("sklearn", "river_item", "vw", "vw_item")
"""Contenders that step once per item, not once per micro-batch."""

PACKETS, PACKETS_FEW = 2_000_000, 160_000
THRESHOLD_BYTES = {PACKETS: 5e6, PACKETS_FEW: 2.5e5}
BOOKS_FEW = 12
PRECISION_MIN = 0.9  # count-min overestimates, so a few flows just below the threshold may be reported


@dataclass(frozen=True)
class Size:
    """A contender's amount, to take seconds: items to train on, passes over all (or few) books or packets."""

    items: int
    word_passes: int = 1
    flow_passes: int = 1
    few: bool = False


#: Contender -> its size. Whoever is not named here gets the default.
DEFAULT = Size(30_000_000, word_passes=1, flow_passes=10)
SIZES: dict[str, Size] = {
    "numpy": Size(60_000_000, word_passes=4, flow_passes=60),
    "sklearn": Size(5_000_000),
    "river_item": Size(200_000),
    "river": Size(0, few=True),
    "vw": Size(2_000_000),
    "vw_item": Size(200_000),
    "bytewax_item": Size(600_000, flow_passes=3, few=True),
    "bytewax_batch": Size(30_000_000, word_passes=4, flow_passes=40),
    "pathway_item": Size(200_000, flow_passes=5, few=True),
    "pathway_batch": Size(6_000_000, word_passes=3, flow_passes=10),
    "spark": Size(2_000_000, word_passes=1, flow_passes=1),
    "flink_item": Size(30_000_000, word_passes=1, flow_passes=10),
    "flink_batch": Size(60_000_000),
    "flink_sql": Size(0, word_passes=1, flow_passes=1),
    "flink_pandas": Size(2_000_000),
}


@dataclass(frozen=True)
class Workload:
    """One column of the results."""

    name: str
    program: str
    """The last part of the programs' names."""
    unit: str


WORKLOADS = (
    Workload("logistic, 11 attributes", "logistic", "items"),
    Workload("logistic, 28 attributes", "logistic", "items"),
    Workload("word count", "words", "words"),
    Workload("heavy hitters", "flows", "packets"),
)


def data_set(workload: Workload) -> str:
    """The shards that logistic regression trains on."""
    return "kdd12" if "11" in workload.name else "higgs"


def arguments(workload: Workload, size: Size) -> list[str]:
    """The arguments of a program of that workload, without --scratch."""
    if workload.program == "logistic":
        name = data_set(workload)
        train = Path(ready(name, ROWS))
        words = ["--data", train, "--test", train.with_name("test"), "--items", size.items]
        words += ["--micro-batch", MICRO_BATCH, "--learning-rate", RATES[name]]
    elif workload.program == "words":
        words = ["--data", books(size.few), "--passes", size.word_passes]
    else:
        rows = PACKETS_FEW if size.few else PACKETS
        words = ["--data", packets(rows), "--passes", size.flow_passes, "--threshold", THRESHOLD_BYTES[rows]]
    return [str(word.absolute() if isinstance(word, Path) else word) for word in words]


@cache
def books(few: bool) -> Path:
    """A folder with the text, or with links to its first files."""
    whole = Path(data.text(800_000).path)
    if not few:
        return whole
    part = whole.with_name(f"{whole.name}-{BOOKS_FEW}")
    part.mkdir(exist_ok=True)
    for file in sorted(whole.glob("*.txt"))[:BOOKS_FEW]:
        if not (part / file.name).exists():
            (part / file.name).hardlink_to(file)
    return part


@cache
def packets(rows: int) -> Path:
    """A folder with the packets of sixteen links."""
    return Path(data.links(rows).path)


def wrong(workload: Workload, contender: str, words: list[str], result: Mapping[str, Any]) -> str:
    """The fault in the answer of a contender that was given these words; nothing when it is right."""
    given = dict(zip(words[::2], words[1::2], strict=True))
    if workload.program == "logistic":
        if contender in PER_ITEM:
            return wrong_loss(result["log_loss"], 0.0, LOSS_MAX[data_set(workload)])
        loss = true_loss(given["--data"], given["--test"], int(given["--items"]), float(given["--learning-rate"]))
        return wrong_loss(result["log_loss"], loss - LOSS_TOLERANCE, loss + LOSS_TOLERANCE)
    if workload.program == "words":
        return wrong_counts(result, true_counts(given["--data"]))
    return wrong_flows(set(result["flows"]), heavy(given["--data"], float(given["--threshold"])))


def wrong_loss(loss: float, low: float, high: float) -> str:
    """A log loss outside [low, high], or not a number."""
    return "" if low <= loss <= high else f"log loss {loss:.4f}, not within {low:.4f} and {high:.4f}"


def wrong_counts(result: Mapping[str, Any], truth: Mapping[str, Any]) -> str:
    """Another digest than that of the true counts."""
    if all(result[name] == truth[name] for name in truth):
        return ""
    return f"{result['words']} words, {result['distinct']} different: not {truth['words']}, {truth['distinct']}"


def wrong_flows(found: set[int], truth: set[int]) -> str:
    """A heavy hitter that was not reported, or too many others."""
    right = len(found & truth)
    precision, recall = right / max(len(found), 1), right / max(len(truth), 1)
    if recall == 1 and precision >= PRECISION_MIN:
        return ""
    return f"precision {precision:.3f}, recall {recall:.3f}"


@cache
def true_loss(train: str, test: str, items: int, rate: float) -> float:
    """The log loss of mini-batch gradient descent, by the single-thread NumPy loop."""
    blocks = harness.micro_batches(Path(train), items, MICRO_BATCH)
    first = harness.shards(Path(train))[0]
    model = descend(Linear(first.shape[1] - 1, logistic, rate), blocks, 0)["model"]
    return harness.score_weights(model["coefficients"], float(model["intercept"][0]), Path(test))["log_loss"]


@cache
def true_counts(folder: str) -> Mapping[str, Any]:
    """Words, distinct words and digest, as the programs' harness reports them."""
    counts: Counter[bytes] = Counter()
    for file in sorted(Path(folder).glob("*.txt")):
        counts.update(re.findall(rb"[a-z]+", file.read_bytes().lower()))
    return count_result(counts)


def count_result(counts: Mapping[bytes, int]) -> dict[str, Any]:
    """The answer that these counts are, in the form of programs/harness.py."""
    lines = sorted(b"%s %d\n" % (word, count) for word, count in counts.items())
    digest = hashlib.sha256(b"".join(lines)).hexdigest()[:16]
    return {"words": sum(counts.values()), "distinct": len(lines), "digest": digest}


@cache
def heavy(folder: str, threshold: float) -> set[int]:
    """The flows of more than the threshold of bytes in one pass."""
    records = np.concatenate([np.load(file) for file in sorted(Path(folder).glob("part-*.npy"))])
    flows, numbers = np.unique(records["flow"], return_inverse=True)
    return set(flows[np.bincount(numbers, weights=records["payload"]) > threshold].tolist())
