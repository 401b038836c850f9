"""`riprap run`, `up` and what follows them, with real processes: whatever ends them, nothing is left behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import UNTIL_HURRIED, WORD_COUNT, Cli, await_that, change_rows, hurry, paced, write_topology

from riprap.engine.services.state import alone
from riprap.operators.learning.estimators import load_model, to_estimator

SHARED_ENSEMBLE = True
LONG = ("--set", "input.repeat=100000")

FAILING = """\
from riprap.operators.learning.logistic_regression import Gradient as Sound


class Gradient(Sound):
    def process_data(self, items):
        raise ZeroDivisionError("a user's mistake")
"""

SHORT_OF_ONE = """\
from riprap.operators.inputs.shard_source import ShardSource


class Short(ShardSource):
    def read(self, start, stop):
        return super().read(start, max(stop - 1, start + 1))
"""


def start_long_run(cli: Cli) -> subprocess.Popen[str]:
    """A run that would take minutes, with its first epochs committed."""
    process = cli.start("run", "job.yaml", "--out", "out", *LONG, *UNTIL_HURRIED)
    epochs = cli.directory / "out" / "epochs.csv"
    await_that(lambda: lines(epochs) > 3 or process.poll() is not None, 120, lambda: "nothing was committed")
    assert process.poll() is None, process.communicate()[1]
    return process


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def summary_of(out: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((out / "summary.json").read_text())
    return found


def test_a_run_with_a_kill_gives_the_model_of_a_run_without(cli: Cli) -> None:
    slowly = paced(30_000)  # the stream outlasts the recovery
    plain = cli.answer("run", "job.yaml", "--out", "plain", "--set", "input.repeat=16", "--json")
    assert plain.returncode == 0, plain.stderr
    resolved = "plain/topology.yaml"  # what a run leaves can be run again
    killed = cli.run("run", resolved, "--out", "killed", "--json", "--fault", "kill:random:processor@10%", *slowly)
    assert killed.returncode == 0, killed.stderr
    first, second = json.loads(plain.stdout), json.loads(killed.stdout)
    assert first == summary_of(cli.directory / "plain")
    assert first["items"] == second["items"] == 80_000 and first["epochs"] == second["epochs"] == 160
    assert first["model"]["sha256"] == second["model"]["sha256"]
    assert first["failures"] == [] and first["completed"] and second["completed"]
    (failure,) = second["failures"]
    assert failure["action"] == "kill" and failure["worker"].startswith("processor.")
    assert 0 < failure["detected_ms"] < failure["restored_ms"]
    assert "fault injected: kill processor." in killed.stderr
    files = {path.name for path in (cli.directory / "killed").iterdir()}
    assert files == {
        *("topology.yaml", "attempts.jsonl", "summary.json", "epochs.csv", "metrics.csv", "events.jsonl"),
        *("logs", "model.npz", "done.sink.0.json", "schema.json"),
    }
    assert {"processor.0.log", "source.0.log", "sink.0.log"} <= {
        p.name for p in (cli.directory / "killed/logs").iterdir()
    }
    cli.await_no_process()


def test_an_interrupt_ends_it_all(cli: Cli) -> None:
    process = start_long_run(cli)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130 and errors.endswith("interrupted\n")
    cli.await_no_process()
    assert summary_of(cli.directory / "out")["completed"] is False


def test_a_model_of_labels_below_and_above_0_predicts_these(cli: Cli) -> None:
    def relabel(rows: np.ndarray) -> None:
        rows[:, 0] = 2 * rows[:, 0] - 1

    rows = change_rows(cli.directory / "shards", relabel)
    assert cli.answer("run", "job.yaml", "--out", "out").returncode == 0
    estimator = to_estimator(load_model(cli.directory / "out" / "model.npz"))
    assert estimator.classes_.tolist() == [-1.0, 1.0] and estimator.score(rows[:, 1:], rows[:, 0]) > 0.95


def test_several_destinations_are_summed_up_as_one_job(cli: Cli) -> None:
    words = ["".join(pair) for pair in itertools.product("abcdefgh", repeat=2)]
    (cli.directory / "text.txt").write_text("\n".join(" ".join(words) for _ in range(70)))
    (cli.directory / "words.yaml").write_text(WORD_COUNT % (1, 10))
    ended = cli.answer("run", "words.yaml", "--out", "out", "--fault", "kill:count.0@epoch=8")
    assert ended.returncode == 0, ended.stderr
    found = summary_of(cli.directory / "out")
    assert (found["items"], found["epochs"], found["metrics"]) == (70, 7, {"distinct_words": 64.0})
    assert found["faults_not_injected"] == {"kill:count.0@epoch=8": "the job ended before that moment"}
    assert all(name in ended.stdout for name in ("model.0.npz", "model.1.npz", "kill:count.0@epoch=8"))


def test_a_run_under_nohup_outlives_its_terminal(cli: Cli) -> None:
    process = cli.start(
        "run", "job.yaml", "--out", "out", "--set", "input.repeat=10", *UNTIL_HURRIED, wrapper=("nohup",)
    )
    await_that(lambda: lines(cli.directory / "out/epochs.csv") > 3, 120, lambda: "nothing was committed")
    process.send_signal(signal.SIGHUP)
    hurry(cli.directory)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert summary_of(cli.directory / "out")["completed"] is True
    cli.await_no_process()


def test_a_terminal_that_goes_away_ends_a_run_in_it(cli: Cli) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup, and a run would, too
    try:
        process = start_long_run(cli)
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    assert process.wait(120) == 130
    cli.await_no_process()


def test_a_killed_launcher_takes_everything_with_it(cli: Cli) -> None:
    cli.zookeeper = ""  # one of its own, which goes as well
    process = start_long_run(cli)
    assert len(cli.processes()) >= 9
    process.kill()
    process.communicate()
    cli.await_no_process()


def test_backup_servers_of_the_users_keep_jobs_of_one_name_apart(cli: Cli) -> None:
    address = f"ipc://@riprap-{cli.mark}"
    server = cli.start("backup", "--listen", address, "--storage", "kept", "--durability", "always")
    words = ("run", "job.yaml", "--json", "--set", f"backup.servers=[{address}]", "--set", "input.repeat=10")
    await_that((cli.directory / "kept").exists, 120, lambda: "the server did not begin")
    first = cli.answer(*words, "--out", "first", "--fault", "kill:sink.0@epoch=50", *paced(20_000))
    second = cli.answer(*words, "--out", "second", "--set", "seed=2")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    one, two = json.loads(first.stdout), json.loads(second.stdout)
    assert one["epochs"] == two["epochs"] == 100 and one["model"]["sha256"] == two["model"]["sha256"]
    assert [failure["worker"] for failure in one["failures"]] == ["sink.0"] and two["failures"] == []
    events = [(cli.directory / out / "events.jsonl").read_text() for out in ("first", "second")]
    assert ['"restored"' in text for text in events] == [True, False], "the second began anew"
    assert cli.processes() == [server.pid], "it is not the run's to end"
    server.terminate()
    assert server.communicate(timeout=120) and server.returncode == 0
    cli.await_no_process()


def test_an_operator_that_raises_fails_the_job_with_the_users_line(cli: Cli) -> None:
    (cli.directory / "mine.py").write_text(FAILING)
    write_topology(cli.directory / "job.yaml", processor="mine:Gradient")
    ended = cli.answer("run", "job.yaml", "--out", "out", "--set", "backup.servers=0")
    assert ended.returncode == 1
    assert "note: a lost sink would end this job" in ended.stderr and "--resume" not in ended.stderr
    assert "ZeroDivisionError: a user's mistake" in ended.stderr
    assert "mine.py:6" in ended.stderr and "remedy: " in ended.stderr and "Traceback" not in ended.stderr
    logs = cli.answer("logs", "out", "processor.0")
    assert logs.returncode == 0
    cli.await_no_process()


def test_a_source_that_reads_too_few_rows_fails_the_job_at_once(cli: Cli) -> None:
    (cli.directory / "mine.py").write_text(SHORT_OF_ONE)
    write_topology(cli.directory / "job.yaml", sets=[("shard_source:ShardSource", "mine:Short")])
    ended = cli.answer("run", "job.yaml", "--out", "out")
    assert ended.returncode == 1
    assert "source.0: Short.read(0, 250) returned an array of float64 of shape (249, 4); expected" in ended.stderr
    assert "stall_timeout_s" not in ended.stderr and "Traceback" not in ended.stderr
    cli.await_no_process()


def test_a_cluster_from_up_to_down(cli: Cli, capfd: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> str:
        capfd.readouterr()
        assert cli.call(*arguments) == 0, capfd.readouterr().err
        return capfd.readouterr().out

    def worker() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(said("status", "trial", "--json"))["workers"]["processor.1"]
        return found

    assert said("up", "--standby", "0").startswith("up: ZooKeeper 127.0.0.1:")
    assert said("up").startswith("already up: ")
    run_dir = Path(json.loads(said("submit", "job.yaml", "--json", *LONG))["run_dir"])
    await_that(lambda: lines(run_dir / "epochs.csv") > 3, 120, lambda: "nothing was committed")
    assert said("status").split() == ["trial", "RUNNING"]
    before = worker()
    assert before["state"] == "up"
    said("kill", "trial", "processor.1")
    await_that(lambda: worker()["incarnation"] == 2 and worker()["state"] == "up", 120, lambda: "it was not replaced")
    after = worker()
    assert after["pid"] != before["pid"] and after["restarts"] == 1
    threads = map(int, os.listdir(f"/proc/{after['pid']}/task"))
    assert min(os.getpriority(os.PRIO_PROCESS, thread) for thread in threads) >= 0, "it is a worker among others"
    assert "lost processor.1#1" in said("status", "trial")
    assert cli.call("kill", "trial", "processor.7") != 0
    said("cancel", "trial")
    await_that(lambda: "CANCELLED" in said("status"), 120, lambda: "it was not cancelled")
    assert said("down") == "down\n"
    cli.await_no_process()
    assert said("down") == "nothing is up on this host\n"


def test_of_two_who_start_the_services_at_once_one_does_and_nothing_is_lost_sight_of(cli: Cli) -> None:
    both = [cli.start("up", "--standby", "0") for _ in range(2)]
    told = [process.communicate(timeout=120) for process in both]
    assert 0 in [process.returncode for process in both], told
    for process, (out, err) in zip(both, told, strict=True):
        assert "up: " in out if process.returncode == 0 else "being started or stopped by another command" in err
    log = (cli.directory / "runtime" / "riprap" / "up.log").read_text()
    assert "starting it again" not in log and "ZooKeeper ended" not in log, "they were in each other's way"
    cli.ask("down")
    cli.await_no_process()


def test_services_that_are_being_started_are_left_alone(cli: Cli) -> None:
    folder = cli.directory / "runtime" / "riprap"
    (folder / ".zookeeper").mkdir(parents=True)
    with alone(folder):
        for command in (("down",), ("up", "--foreground")):
            ended = cli.answer(*command)
            assert ended.returncode == 2 and "being started or stopped by another command" in ended.stderr
    assert (folder / ".zookeeper").is_dir(), "the jobs of whoever starts them"
    assert cli.ask("down") == "nothing is up on this host\n"
    assert not (folder / ".zookeeper").exists()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP])
def test_services_whose_start_is_interrupted_are_ended(cli: Cli, signum: signal.Signals) -> None:
    starting = cli.start("up")
    await_that(lambda: bool(cli.pids_of("controller")), 60, lambda: f"{cli.commands()}")
    starting.send_signal(signum)
    assert starting.wait(60) == 130
    cli.await_no_process(20)
    assert cli.ask("down") == "nothing is up on this host\n"
