"""Plans beside real processes: rates come from what ran, and a budget of replicas is what starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_harness import Cli, await_that
from ordered_jobs import ROWS, write_keyed_shards
from shared_cluster import SharedCluster
from test_partially_active import JOB, MODULE

from riprap.engine.run_directory.attempts import ATTEMPTS

BUDGET = ("--set", "fault_tolerance.budget=2")


@pytest.fixture(scope="module")
def chains(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """read 2 -> chain 2 -> link 2 -> total 1, which adds a row to each block on its way: seldom twice as many."""
    directory = tmp_path_factory.mktemp("planned")
    write_keyed_shards(directory)
    for folder in (directory, cluster.directory):
        (folder / "chained.py").write_text(MODULE)
    (directory / "chains.yaml").write_text(JOB % 1)
    return directory / "chains.yaml"


def plan(cluster: SharedCluster, chains: Path, *words: str) -> dict[str, object]:
    cluster.ask("plan", str(chains), "--out", str(chains.parent / "plan"), *words)
    found: dict[str, object] = json.loads((chains.parent / "plan/plan.json").read_text())
    return found


def test_a_run_tells_the_planner_what_its_links_carried(cluster: SharedCluster, chains: Path, tmp_path: Path) -> None:
    """With replicas, whose copies carry the same once more."""
    cluster.job(chains, tmp_path / "out", "--set", "fault_tolerance.replicate=[link.1]")
    links = json.loads((tmp_path / "out/rates.json").read_text())["links"]
    assert links["read->chain"] == [[ROWS // 2] * 2] * 2, "each task reads half, and sends it to both"
    assert sum(map(sum, links["chain->link"])) > ROWS and links.keys() == {"read->chain", "chain->link", "link->total"}
    assert not (tmp_path / "out/carried").exists()
    found = plan(cluster, chains, "--budget", "4", "--from", str(tmp_path / "out"))
    total = sum(sum(map(sum, matrix)) for matrix in links.values())
    assert f"the rates are those of {tmp_path / 'out'}, whose links carried {total:,} items in all" in found["notes"]  # type: ignore[operator]
    assert found["output_fidelity"] == pytest.approx(1 / 8)


def test_a_budget_is_what_starts_and_changes_nothing(cluster: SharedCluster, chains: Path, tmp_path: Path) -> None:
    """Two replicas, and then as many as it takes to go on writing when the destination dies."""
    undisturbed = cluster.job(chains, tmp_path / "undisturbed")
    assert "replicas" not in undisturbed
    summary = cluster.job(chains, tmp_path / "out", *BUDGET)
    planned = json.loads((tmp_path / "out/plan.json").read_text())
    assert len(planned["tasks"]) == 2 == planned["budget"] and planned["rates"] == "assumed"
    assert summary["replicas"]["planned"] == [f"{task}~1" for task in planned["tasks"]]
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"]
    longer, tree = ("--set", "input.repeat=4"), ("--set", "fault_tolerance.budget=4", "--fault", "kill:total.0@30%")
    killed = cluster.job(chains, tmp_path / "killed", *longer, *tree)
    assert killed["replicas"]["planned"][-1] == "total.0~1", "a task of each stage, or nothing comes out"
    assert [one["promoted"] for one in killed["replicas"]["takeovers"]] == ["total.0~1"]
    assert killed["model"]["sha256"] == cluster.job(chains, tmp_path / "calm", *longer)["model"]["sha256"]


def test_a_resumed_job_has_the_replicas_of_its_first_attempt(
    cluster: SharedCluster, chains: Path, tmp_path: Path
) -> None:
    name = cluster.start(chains, tmp_path / "out", *BUDGET)
    cluster.ask("cancel", name)
    await_that((tmp_path / "out/summary.json").exists, 60, lambda: cluster.ask("status", name))
    first = json.loads((tmp_path / "out/plan.json").read_text())
    (tmp_path / "out/summary.json").unlink()
    cluster.ask("submit", "--resume", name)
    summary = cluster.finish(name, tmp_path / "out")
    assert summary["replicas"]["planned"] == [f"{task}~1" for task in first["tasks"]]
    assert json.loads((tmp_path / "out/plan.json").read_text()) == first
    assert len((tmp_path / "out" / ATTEMPTS).read_text().splitlines()) == 2


def test_a_pilot_measures_and_leaves_nothing(chains: Path) -> None:
    cli = Cli(chains.parent)
    ended = cli.answer("plan", str(chains), "--budget", "2", "--pilot-items", "2000", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["rates"] == "a pilot of 2,000 items"
    assert any("the rates are those of a pilot of 2,000 items, whose links" in note for note in found["notes"])
    assert not list(chains.parent.glob("riprap-plan-*")) and not list(chains.parent.glob("runs"))
    cli.await_no_process()
