"""A loss after which everybody begins anew: survivors reset in their processes, and nothing is counted twice.

Checkpoints go back in this way (test_checkpoints.py); here the controller follows a plan that does under other schemes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import Cli, paced
from shared_cluster import SharedCluster

from riprap.engine.run_directory.directory import read_events

SHARED_ENSEMBLE = True
ROLLING_BACK = """\
import sys

if "controller" in sys.orig_argv:
    from riprap.controller.steps import Rollback
    from riprap.engine.schemes import plans

    usual = plans.plan_for

    def plan_for(submitted):
        plan = usual(submitted)
        return lambda view, lost: [*plan(view, lost), Rollback()]

    plans.plan_for = plan_for
"""
SETS = ("--set", "input.repeat=10", "--set", "stages.processor.parallelism=3")
KILLS = ("--fault", "kill:processor.1@20%", "--fault", "kill:sink.0@40%", "--fault", "kill:source.0@60%")


@pytest.fixture
def rolling_back(tmp_path: Path) -> dict[str, str]:
    """The environment of a launcher whose controllers roll back after each loss."""
    folder = tmp_path / "rolling_back"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(ROLLING_BACK)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    "scheme",
    ["reactive", "{scheme: erasure, code: gf256, k: 2, r: 1}", pytest.param("upstream_backup", marks=pytest.mark.long)],
)
def test_survivors_begin_anew_in_their_processes_and_the_model_is_the_undisturbed(
    cli: Cli, cluster: SharedCluster, rolling_back: dict[str, str], scheme: str
) -> None:
    sets = (*SETS, "--set", f"fault_tolerance={scheme}")
    calm = cluster.job(cli.directory / "job.yaml", cli.directory / "calm", *sets)
    ended = cli.answer(
        "run", "job.yaml", "--out", "out", "--json", *sets, *paced(20_000), *KILLS, environment=rolling_back
    )
    assert ended.returncode == 0, ended.stderr
    summary, out = json.loads(ended.stdout), cli.directory / "out"
    assert summary["model"]["sha256"] == calm["model"]["sha256"]
    lines = (out / "epochs.csv").read_text().splitlines()[1:]
    assert [int(line.partition(",")[0]) for line in lines] == list(range(1, summary["epochs"] + 1))
    events = list(read_events(out))
    assert [event["round"] for event in events if event["event"] == "rollback"] == [1, 2, 3]
    rolled = {(event["worker"], event["round"]): event for event in events if event["event"] == "rolled_back"}
    survivors = {"processor.0", "processor.2"}
    assert {(worker, round_) for worker in survivors for round_ in (1, 2, 3)} <= rolled.keys()
    assert ("processor.1", 1) not in rolled, "who died begins in the round, and is not reset in it"
    for worker in survivors:
        incarnations = {(event["incarnation"], event["pid"]) for (name, _), event in rolled.items() if name == worker}
        assert len(incarnations) == 1, "in the process that it had"
    assert went_on_from_what_was_saved(events, rolled)


def went_on_from_what_was_saved(events: list[dict[str, Any]], rolled: dict[tuple[str, int], dict[str, Any]]) -> bool:
    """Whether the sink, where it survived, went on from an epoch that it had saved, and not from the beginning."""
    epochs = [event["epoch"] for (worker, _), event in rolled.items() if worker == "sink.0"]
    return bool(epochs) and all(epoch > 0 for epoch in epochs) and bool(np.all(np.diff(epochs) >= 0))
