"""Word count under every scheme of DataflowOperators, with its processes killed: exact or bounded, as promised.

The jobs share one cluster.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import SLOW_WORDS, WORD_COUNT
from shared_cluster import SharedCluster

LINES, REPEAT, WINDOW = 30_000, 30, 30_000
WORDS_OF_A_LINE, WORDS = 10, 500
THETA, L = 1000, 10
ALPHA = 150
"""How often a word comes in a block, at most: 65 kB of 500 words that are equally frequent."""
SCHEMES = {
    "none": "{scheme: none}",
    "mini_batch": "{scheme: mini_batch}",
    "upstream_backup": "{scheme: upstream_backup}",
    "exactly": "{scheme: approximate, theta: 0, l: 0, gamma: 1}",
    "approximate": f"{{scheme: approximate, theta: {THETA}, l: {L}, gamma: 100}}",
}
ONE_OF_EACH = ["kill:count.0@30%", "kill:split.1@60%"]
EVERYBODY = [f"kill:{worker}@40%" for worker in ("split.0", "split.1", "count.0", "count.1")]
AGAIN = ["kill:count.1@20%", "kill:split.0@40%", "kill:count.1@60%"]
LONG = pytest.mark.long
Job = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def shared(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a text and a topology."""
    directory = tmp_path_factory.mktemp("words")
    numbers = np.random.default_rng(3).integers(0, WORDS, (LINES, WORDS_OF_A_LINE))
    letters = [chr(97 + n // 26) + chr(97 + n % 26) for n in range(WORDS)]
    (directory / "text.txt").write_text("".join(" ".join(letters[n] for n in row) + "\n" for row in numbers))
    (directory / "job.yaml").write_text(WORD_COUNT % (REPEAT, WINDOW))
    for folder in (directory, cluster.directory):
        (folder / "slow_words.py").write_text(SLOW_WORDS % 225_000)
    return directory


@pytest.fixture(scope="module")
def truth(shared: Path) -> Counter[str]:
    """Each word's count, times the repetitions."""
    counts = Counter(re.findall("[a-z]+", (shared / "text.txt").read_text()))
    return Counter({word: REPEAT * count for word, count in counts.items()})


@pytest.fixture(scope="module")
def job(shared: Path, cluster: SharedCluster) -> Job:
    """Runs the job under a scheme and faults; its summary, with the counts under `words`."""
    number = iter(range(1000))

    def run(scheme: str, faults: list[str], *sets: str) -> dict[str, Any]:
        out = shared / f"run{next(number)}"
        specs = [word for fault in faults for word in ("--fault", fault)]
        if faults:  # who dies must have something left to do, on any machine
            sets = (*sets, "stages.split.operator=slow_words:SlowSplit")
        words = [word for value in (f"fault_tolerance={SCHEMES[scheme]}", *sets) for word in ("--set", value)]
        summary = cluster.job(shared / "job.yaml", out, *words, *specs)
        assert [failure["action"] for failure in summary["failures"]] == ["kill"] * len(faults)
        return summary | {"words": counts_in(out), "windows": windows_in(out)}

    return run


def counts_in(out: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for index in (0, 1):
        model = np.load(out / f"model.{index}.npz")
        text, ends = model["words"].tobytes(), model["offsets"]
        for i, count in enumerate(model["counts"].tolist()):
            word = text[ends[i] : ends[i + 1]].decode()
            assert word not in found, "a word has one task"
            found[word] = count
    return found


def victims(faults: list[str]) -> Counter[str]:
    """How often each worker is killed."""
    return Counter(fault.split(":")[1].split("@")[0] for fault in faults)


def windows_in(out: Path) -> list[list[int]]:
    """The windows that each destination announced."""
    files = [(out / f"epochs.{index}.csv").read_text().splitlines()[1:] for index in (0, 1)]
    return [[int(line.partition(",")[0]) for line in lines] for lines in files]


@pytest.mark.parametrize(
    ("scheme", "faults"),
    [
        ("mini_batch", ONE_OF_EACH),
        pytest.param("mini_batch", EVERYBODY, marks=LONG),
        ("upstream_backup", EVERYBODY),
        pytest.param("upstream_backup", AGAIN, marks=LONG),
    ],
    ids=["mini-batch-one-of-each", "mini-batch-everybody", "upstream-everybody", "upstream-again"],
)
def test_each_word_is_counted_once_whoever_dies(job: Job, truth: Counter[str], scheme: str, faults: list[str]) -> None:
    summary = job(scheme, faults)
    assert summary["words"] == truth
    lost = summary["lost"]
    assert summary["items"] == LINES * REPEAT and lost["items"] == lost["states"] == 0
    assert Counter(one["worker"] for one in lost["recoveries"]) == victims(faults)
    assert not any(one["divergence_max"] or one["items_max"] or one["output_max"] for one in lost["recoveries"])
    assert summary["windows"] == [list(range(1, REPEAT + 1))] * 2, "each window is announced once, in order"


@pytest.mark.parametrize("scheme", ["mini_batch", pytest.param("exactly", marks=LONG)])
def test_with_several_compute_threads_each_word_is_counted_once_too(job: Job, truth: Counter[str], scheme: str) -> None:
    """Sources die with blocks read ahead; the result is that of one thread (AF 3.2)."""
    alone, helped = job(scheme, []), job(scheme, ["kill:split.0@30%", *ONE_OF_EACH], "stages.split.threads=3")
    assert helped["words"] == truth
    for name, model in alone["model"]["all"].items():
        assert helped["model"]["all"][name]["sha256"] == model["sha256"]
    assert helped["items"] == alone["items"] == LINES * REPEAT
    assert helped["windows"] == [list(range(1, REPEAT + 1))] * 2


@pytest.mark.parametrize(
    "faults", [ONE_OF_EACH, EVERYBODY, pytest.param(AGAIN, marks=LONG)], ids=["one-of-each", "everybody", "again"]
)
def test_approximate_counts_stay_within_their_bound(job: Job, truth: Counter[str], faults: list[str]) -> None:
    """AF 3.5: a count is off by Theta + L alpha at most, and by alpha for the item at which a backup was due."""
    summary = job("approximate", faults)
    off = {word: abs(summary["words"][word] - count) for word, count in truth.items()}
    assert max(off.values()) <= THETA + (L + len(faults)) * ALPHA < min(truth.values()) / 2
    assert summary["windows"] == [list(range(1, REPEAT + 1))] * 2
    recoveries, states = summary["lost"]["recoveries"], {"count.0": THETA / 4, "count.1": THETA / 4}
    assert Counter(one["worker"] for one in recoveries) == victims(faults)
    for one in recoveries:
        assert one["divergence_max"] == states.get(one["worker"], 0) / 2 ** (one["failure"] - 1), "halved by each"
        assert (one["state"] != "") == (one["worker"] in states) == (one["items_max"] > 0)
    assert summary["lost"]["states"] == sum(victims(faults)[worker] for worker in states)


def test_without_fault_tolerance_the_counts_of_the_dead_are_gone_and_no_others(job: Job, truth: Counter[str]) -> None:
    summary = job("none", ["kill:count.0@50%"])
    found, lost = summary["words"], summary["lost"]
    assert [(one["worker"], one["divergence_max"]) for one in lost["recoveries"]] == [("count.0", None)]
    assert lost["states"] == 1, "and all of it"
    assert all(found[word] <= count for word, count in truth.items())
    assert sum(found.values()) < 0.9 * sum(truth.values()), "half of the words had half of their counts there"
    kept = [word for word, count in truth.items() if found[word] == count]
    assert len(kept) >= WORDS / 4, "those of the other task are whole"
