"""Hosts and racks that die: on one machine that acts as several, with everything they ran."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from cli_harness import WORD_COUNT, Cli, await_that, paced
from shared_cluster import SharedCluster

SHARED_ENSEMBLE = True
LINES = 6_000
FOUR = ("--hosts", "4", "--domains", "rack=2")
SPREAD = ("--set", "placement={spread: [rack, host]}")


def write_words(cli: Cli, scheme: str) -> None:
    """Each task counts half of 40 words, which stand in all lines alike."""
    words = [f"word{number}" for number in range(40)]
    lines = (" ".join(words[(line + step) % 40] for step in range(8)) for line in range(LINES))
    (cli.directory / "text.txt").write_text("\n".join(lines) + "\n")
    text = (WORD_COUNT % (3, 500)).replace("none", scheme).replace("limit: null", "limit: null, rate: 6000")
    (cli.directory / "words.yaml").write_text(text.replace("parallelism: 2", "parallelism: 4"))


def summary_of(cli: Cli, *arguments: str) -> dict[str, Any]:
    done = cli.answer("run", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    cli.await_no_process()
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def events_of(run: Path, event: str) -> list[dict[str, Any]]:
    return [
        one for line in (run / "events.jsonl").read_text().splitlines() if (one := json.loads(line))["event"] == event
    ]


def hit(run: Path) -> dict[str, int]:
    """What was killed, and its incarnation."""
    return {one["target"]: one["incarnation"] for one in events_of(run, "fault_injected")}


@pytest.mark.parametrize("scheme", ["upstream_backup", pytest.param("mini_batch", marks=pytest.mark.long)])
def test_a_rack_dies_with_its_agents_and_the_counts_stay_exact(cli: Cli, cluster: SharedCluster, scheme: str) -> None:
    write_words(cli, scheme)
    fault = ("--fault", "kill:domain:rack=rack-1@40%")
    told = summary_of(cli, "words.yaml", *FOUR, *SPREAD, *fault, "--out", "struck")
    calm = cluster.job(cli.directory / "words.yaml", cli.directory / "calm", "--set", "input.rate=null")
    assert told["completed"] and told["items"] == calm["items"] == 3 * LINES
    assert told["lost"]["items"] == 0 and told["metrics"] == calm["metrics"]
    assert told["model"].get("sha256") == calm["model"].get("sha256")
    struck = hit(cli.directory / "struck")
    agents = [target for target in struck if target.startswith("agent")]
    assert sorted(agents) == ["agent", "agent.3"], "of host-1 and host-3"
    assert len(struck) == 2 + 4, "half of the tasks of each stage"
    replaced = {one["worker"] for one in told["failures"] if one["incarnation"] == 1}
    assert struck.keys() - agents <= replaced


def test_a_host_dies_under_erasure_and_its_pieces_are_decoded(cli: Cli, cluster: SharedCluster) -> None:
    """Three processors on three hosts of four: a host has one piece of each row, and the code bears the loss of one."""
    undisturbed = cluster.job(cli.directory / "job.yaml", cli.directory / "calm")
    fault = ("--hosts", "4", "--fault", "kill:host:host-2@30%")
    told = summary_of(cli, "job.yaml", *paced(2_000), *fault, "--out", "struck")
    assert told["completed"] and told["model"]["sha256"] == undisturbed["model"]["sha256"]
    struck = hit(cli.directory / "struck")
    assert "agent.2" in struck and sum(target.startswith("processor") for target in struck) == 1, struck
    assert told["decoded_items"] > 0, "from the rest of the row"


def test_an_interrupt_ends_all_hosts_and_the_job_goes_on_on_as_many(cli: Cli) -> None:
    write_words(cli, "mini_batch")
    process = cli.start("run", "words.yaml", *FOUR, "--fault", "kill:host:host-2@epoch=4", "--out", "out")
    out = cli.directory / "out"
    await_that(lambda: (out / "events.jsonl").exists() and bool(hit(out)), 120, lambda: "nothing was killed")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    cli.await_no_process()
    told = summary_of(cli, "--resume", "out", *FOUR)
    assert told["completed"] and told["attempts"] == 2 and told["items"] == 3 * LINES
    assert told["lost"]["items"] == 0


def test_a_stage_and_all_workers_die_at_once(cli: Cli) -> None:
    write_words(cli, "mini_batch")
    faults = ("--fault", "kill:stage:count@30%", "--fault", "kill:primaries@60%")
    told = summary_of(cli, "words.yaml", "--hosts", "2", *faults, "--out", "struck")
    assert told["completed"] and told["items"] == 3 * LINES and told["lost"]["items"] == 0
    by_fault: dict[str, set[str]] = {}
    for one in events_of(cli.directory / "struck", "fault_injected"):
        by_fault.setdefault(one["fault"].partition("@")[0], set()).add(one["target"])
    count = {f"count.{n}" for n in range(4)}
    assert by_fault["kill:stage:count"] == count
    assert by_fault["kill:primaries"] == count | {f"split.{n}" for n in range(4)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (SPREAD, "stage processor: 3 tasks are to be spread over rack, and none of the hosts"),
        (("--hosts", "2", "--fault", "kill:host:host-3@epoch=1"), "there is no host host-3; there are: host-1, host-2"),
        ((*FOUR, "--fault", "kill:domain:rack=r9@epoch=1"), "rack=rack-1, rack=rack-2"),
        (("--fault", "kill:stage:sin@epoch=1"), "did you mean sink?"),
        (("--hosts", "2", "--domains", "rack=3"), "2 hosts cannot have 3 values"),
        (("--hosts", "0"), "0 is not in the range"),
    ],
)
def test_what_the_hosts_do_not_allow_is_refused_before_anything_starts(
    cli: Cli, arguments: tuple[str, ...], words: str
) -> None:
    refused = cli.answer("run", "job.yaml", *arguments, "--out", "refused")
    assert refused.returncode == 2 and words in refused.stderr, refused.stderr
    assert not (cli.directory / "refused").exists() and not cli.processes()


@pytest.mark.parametrize(("hosts", "level"), [("2", "warn"), ("3", "ok")])
def test_the_doctor_sees_a_job_beside_its_hosts(cli: Cli, hosts: str, level: str) -> None:
    done = cli.answer("doctor", "job.yaml", "--hosts", hosts, "--json")
    (check,) = [one for one in json.loads(done.stdout) if one["name"] == "loss of a host"]
    assert check["level"] == level and bool(check["remedy"]) == (level == "warn"), check


def test_best_effort_starts_and_says_so(cli: Cli) -> None:
    gentle = "placement={spread: [rack], when_unsatisfiable: best_effort}"
    done = cli.answer("run", "job.yaml", "--set", gentle, "--hosts", "2", "--out", "gentle")
    assert done.returncode == 0 and "none of the hosts host-1, host-2 has that label" in done.stderr, done.stderr
    (said,) = events_of(cli.directory / "gentle", "placement_unsatisfied")
    assert "stage processor: 3 tasks" in said["reason"]


def test_all_agents_end_with_a_launcher_that_is_killed(cli: Cli) -> None:
    write_words(cli, "mini_batch")
    launcher = cli.start("run", "words.yaml", *FOUR, "--set", "input.repeat=forever", "--out", "endless")
    epochs = cli.directory / "endless" / "epochs.0.csv"
    await_that(lambda: epochs.exists() and len(epochs.read_text().splitlines()) > 2, 120, lambda: "it did not start")
    assert len(cli.pids_of("agent")) >= 4
    launcher.kill()
    launcher.wait()
    cli.await_no_process()


def all_replaced(cli: Cli) -> bool:
    workers = json.loads(cli.ask("status", "words", "--json"))["workers"].values()
    return all(one["incarnation"] > 1 and one["state"] == "up" for one in workers)


def test_a_cluster_shows_labels_and_kills_by_them(cli: Cli) -> None:
    write_words(cli, "mini_batch")
    try:
        assert cli.run("up", "--label", "rack=r1").returncode == 0
        refused = cli.answer("submit", "words.yaml", *SPREAD, "--out", "refused")
        assert refused.returncode == 2 and "there is only rack=r1" in refused.stderr, refused.stderr
        assert not (cli.directory / "refused").exists()
        unknown = cli.answer("submit", "words.yaml", "--fault", "kill:domain:rack=r2@epoch=1", "--out", "refused")
        assert unknown.returncode == 2 and "rack=r1" in unknown.stderr, unknown.stderr
        cli.ask("submit", "words.yaml", "--out", "words", "--fault", "kill:domain:rack=r1@epoch=4")
        await_that(lambda: bool(hit(cli.directory / "words")), 120, lambda: cli.ask("status", "words"))
        status = json.loads(cli.ask("status", "words", "--json"))
        assert [labels["rack"] for labels in status["hosts"].values()] == ["r1"]
        assert "rack=r1" in cli.ask("status", "words")
        nobody = cli.answer("kill", "words", "domain:rack=r2")
        assert nobody.returncode == 2 and "rack=r1" in nobody.stderr
        await_that(lambda: all_replaced(cli), 120, lambda: cli.ask("status", "words"))
        assert "killed count.0, count.1, count.2, count.3 of words" in cli.ask("kill", "words", "stage:count")
        await_that(lambda: "COMPLETED" in cli.ask("status", "words"), 120, lambda: cli.ask("status", "words"))
        await_that((cli.directory / "words" / "summary.json").exists, 60, lambda: "no summary")
        told = json.loads((cli.directory / "words" / "summary.json").read_text())
        assert told["completed"] and told["items"] == 3 * LINES
    finally:
        cli.call("down")
    cli.await_no_process()
