"""The one key: jobs that train and predict under all schemes, and a coded stage inside a graph.

Real processes are killed, of every stage in one run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import paced, write_shards, write_topology
from shared_cluster import SharedCluster

ROWS, REPEAT, MICRO_BATCH = 50_000, 4, 8_000
ITEMS = ROWS * REPEAT
SETS = [f"input.repeat={REPEAT}", f"micro_batch={MICRO_BATCH}", "links.block_bytes=65536"]
SETS += ["stages.processor.parallelism=3"]
PREDICTING = [
    ('logistic_regression:Gradient", ', 'linear_prediction:LogisticRegression", options: {models: 3}, '),
    ('logistic_regression:Model", options: {learning_rate: 0.5}', 'prediction:Predictions"'),
    ("  - {from: sink, to: processor, feedback: true}\n", ""),
]
"""What makes the topology one that predicts with so many models, drawn from its seed."""
EACH = ["kill:source.0@20%", "kill:processor.1@45%", "kill:sink.0@70%"]
THETA = 0.05
APPROXIMATE = f"{{scheme: approximate, theta: {THETA}, l: 0, gamma: 1}}"
CODED = """\
job: coded
input: {path: text.txt, repeat: 20}
micro_batch: 4000
links: {block_bytes: 16384}
stages:
  read: {operator: "forward:Forward", parallelism: 2}
  find:
    operator: "slow_search:SlowSearch"
    parallelism: 4
    options: {pattern: "b"}
    fault_tolerance: {scheme: erasure, k: 2, r: 2}
  split: {operator: "word_count:SplitWords", parallelism: 2}
  count: {operator: "word_count:CountWords", parallelism: 2}
edges:
  - {from: read, to: find, partitioning: stripe}
  - {from: find, to: split, partitioning: merge}
  - {from: split, to: count, partitioning: full}
fault_tolerance: upstream_backup
"""
SLOW_SEARCH = """\
import time

from riprap.operators.text.grep import Grep


class SlowSearch(Grep):
    def process_data(self, items, first, out):
        time.sleep(items.count / 35_000)
        return super().process_data(items, first, out)
"""
LINES = 10_000
Job = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def shared(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One working directory for the module."""
    directory = tmp_path_factory.mktemp("one_key")
    write_shards(directory / "shards", rows=ROWS)
    write_topology(directory / "job.yaml")
    write_topology(directory / "predict.yaml", sets=PREDICTING)
    numbers = np.random.default_rng(3).integers(0, 300, (LINES, 5))
    words = [chr(97 + n // 26) + chr(97 + n % 26) for n in range(300)]
    (directory / "text.txt").write_text("".join(" ".join(words[n] for n in row) + "\n" for row in numbers))
    (directory / "coded.yaml").write_text(CODED)
    for folder in (directory, cluster.directory):
        (folder / "slow_search.py").write_text(SLOW_SEARCH)
    return directory


@pytest.fixture(scope="module")
def job(shared: Path, cluster: SharedCluster) -> Job:
    """Runs a job under faults; its summary, with the run directory under `out`."""
    number = iter(range(1000))

    def run(file: str, sets: list[str], faults: list[str], *words: str) -> dict[str, Any]:
        out = shared / f"run{next(number)}"
        command = [word for one in sets for word in ("--set", one)]
        command += [word for fault in faults for word in ("--fault", fault)]
        summary = cluster.job(shared / file, out, *command, *words)
        assert [failure["action"] for failure in summary["failures"]] == ["kill"] * len(faults)
        return summary | {"out": out}

    return run


@pytest.fixture(scope="module")
def trained(job: Job) -> dict[str, Any]:
    """The model of an undisturbed run without any fault tolerance."""
    return job("job.yaml", [*SETS, "fault_tolerance=none"], [])


REPLICATED = "{scheme: partially_active, checkpoint_s: 0.3, replicate: [processor]}"
BOTH = [*EACH[:2], "kill:processor.1~1@58%", EACH[2]]
"""Either copy may be the one that is heard."""


@pytest.mark.parametrize(
    ("scheme", "kills"),
    [("mini_batch", EACH), (REPLICATED, BOTH), pytest.param("upstream_backup", EACH, marks=pytest.mark.long)],
)
def test_a_job_that_trains_is_exact_whoever_dies(
    job: Job, trained: dict[str, Any], scheme: str, kills: list[str]
) -> None:
    summary = job("job.yaml", [*SETS, f"fault_tolerance={scheme}"], kills, *paced(70_000))
    assert summary["model"]["sha256"] == trained["model"]["sha256"]
    assert summary["items"] == ITEMS and summary["lost"]["items"] == 0
    assert summary["epochs"] == trained["epochs"]
    compared = summary.get("replicas", {}).get("windows_compared", 0)
    assert (compared > 0) == (scheme == REPLICATED), "copies compare what they put out"


def test_a_model_that_is_approximate_stays_within_theta(job: Job, trained: dict[str, Any]) -> None:
    """With l = 0 no result is lost: what a death takes is less than theta of the model, and is learnt anew."""
    summary = job("job.yaml", [*SETS, f"fault_tolerance={APPROXIMATE}"], EACH, *paced(70_000))
    models = [dict(np.load(one["out"] / "model.npz")) for one in (summary, trained)]
    assert models[0].keys() == models[1].keys()
    off = sum(float(np.square(models[0][name] - models[1][name]).sum()) for name in models[0]) ** 0.5
    assert off <= THETA
    assert summary["items"] == ITEMS
    bounds = {one["worker"]: one["divergence_max"] for one in summary["lost"]["recoveries"]}
    assert bounds["source.0"] == 0.0 and all(bound <= THETA for bound in bounds.values())


def test_a_job_that_predicts_puts_each_row_out_once(job: Job) -> None:
    calm = job("predict.yaml", [*SETS, "fault_tolerance=none"], [])
    killed = job("predict.yaml", [*SETS, "fault_tolerance=mini_batch"], EACH, *paced(70_000))
    assert killed["output"]["rows"] == calm["output"]["rows"] == ITEMS
    assert killed["output"]["sha256"] == calm["output"]["sha256"]


@pytest.fixture(scope="module")
def searched(job: Job) -> dict[str, Any]:
    """The counts of a run in which nothing is coded and nobody dies."""
    return job("coded.yaml", ["stages.find.fault_tolerance=none", "fault_tolerance=none"], [])


@pytest.mark.parametrize(
    "faults",
    [
        ["kill:find.0@30%", "kill:find.3@30%", "kill:read.1@60%"],
        pytest.param(["kill:split.0@30%", "kill:count.1@50%", "kill:find.2@70%"], marks=pytest.mark.long),
        pytest.param(["kill:find.0@30%", "kill:find.1@30%", "kill:find.2@30%"], marks=pytest.mark.long),
        ["kill:find.1@20%", "kill:split.0@40%", "kill:split.1@60%"],
    ],
    ids=["two and an encoder", "a decoder, a count, one", "beyond r", "decoders"],
)
def test_a_coded_stage_inside_a_graph_loses_nothing(job: Job, searched: dict[str, Any], faults: list[str]) -> None:
    summary = job("coded.yaml", [], faults)
    assert models_of(summary) == models_of(searched)
    assert summary["items"] == searched["items"] == LINES * 20


@pytest.mark.long
def test_a_replicated_stage_inside_a_graph_loses_nothing(job: Job, searched: dict[str, Any]) -> None:
    """One of a group, then the whole group, then both ends of what they stand between."""
    faults = ["kill:find.0@20%", "kill:find.2@40%", "kill:find.3@40%", "kill:split.1@60%", "kill:read.0@80%"]
    summary = job("coded.yaml", ["stages.find.fault_tolerance={scheme: replication, copies: 2}"], faults)
    assert models_of(summary) == models_of(searched)


def models_of(summary: dict[str, Any]) -> dict[str, str]:
    return {name: model["sha256"] for name, model in summary["model"]["all"].items()}
