"""The summary: every number from what was recorded, and nothing made up where nothing was."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

from riprap.controller.completeness import Account, Expected
from riprap.engine.run.report import report
from riprap.engine.run.summary import Facts, Injected, compose, left_out, match_failures, shortfall
from riprap.engine.run_directory.epochs import Committed, EpochRow
from riprap.engine.worker.epochs_file import HEADING, Before

CONTRACT = {
    "job",
    "scheme",
    "completed",
    "attempts",
    "items",
    "seconds",
    "items_per_second",
    "epochs",
    "epoch_latency_ms",
    "startup_seconds",
    "bytes_sent",
    "bytes_per_item",
    "faults_not_injected",
    "failures",
    "rollbacks",
    "decoded_items",
    "recomputed_items",
    "duplicates_dropped",
    "lost",
    "model",
    "output",
    "metrics",
    "peak_rss_mb",
    "cpu_seconds",
    "environment",
}

ROWS = [EpochRow(n, 1000, float(n), 100.0 + n) for n in range(1, 101)]

STATUS: dict[str, Any] = {
    "job": "trial",
    "phase": "COMPLETED",
    "workers": {
        "source.0": {
            "incarnation": 1,
            "stats": {"first_emit_at": 100.0, "bytes_sent": {"source->processor": 900}, "peak_rss_mb": 50},
        },
        "processor.1": {
            "incarnation": 2,
            "stats": {"bytes_sent": {"processor->sink": 40}, "peak_rss_mb": 70, "cpu_seconds": 1.0},
        },
        "sink.0": {
            "incarnation": 1,
            "stats": {
                "last_commit_at": 200.0,
                "decoded_items": 500,
                "lost_items": 3,
                "model": {"sha256": "ab" * 32, "path": "/runs/x/model.npz"},
                "metrics": {"loss": 0.5},
            },
        },
    },
    "past": {"processor.1#1": {"bytes_sent": {"processor->sink": 60}, "peak_rss_mb": 90, "cpu_seconds": 2.5}},
    "failures": [
        {
            "worker": "processor.1",
            "incarnation": 1,
            "reason": "killed by signal",
            "detected_at": 150.005,
            "respawned_at": 150.006,
            "restored_at": 150.060,
            "caught_up_at": 150.200,
        }
    ],
}


def summary(**changes: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "job": "trial",
        "scheme": "erasure",
        "status": STATUS,
        "epochs": ROWS,
        "injected": [Injected("processor.1", 1, "kill", 150.0)],
        "started_at": 97.5,
        "metrics": {"holdout_accuracy": 0.64},
    }
    return compose(Facts(**(facts | changes)))


def test_it_keeps_the_contract() -> None:
    assert summary().keys() >= CONTRACT
    json.dumps(summary())


def test_items_and_time_are_those_committed() -> None:
    found = summary()
    assert (found["items"], found["epochs"], found["completed"]) == (100_000, 100, True)
    assert found["seconds"] == 100.0
    assert found["items_per_second"] == 1000.0
    assert found["startup_seconds"] == 2.5
    assert found["epoch_latency_ms"] == {"median": 50.5, "p99": 99.0, "max": 100.0}


def test_dead_incarnations_count_too() -> None:
    found = summary()
    assert found["bytes_sent"] == {"source->processor": 900, "processor->sink": 100}
    assert found["bytes_per_item"] == 0.01
    assert found["peak_rss_mb"]["processor.1"] == 90
    assert found["cpu_seconds"]["processor.1"] == 3.5


def test_what_the_sink_says_of_itself() -> None:
    found = summary()
    assert (found["decoded_items"], found["recomputed_items"], found["lost"]["items"]) == (500, 0, 3)
    assert found["model"] == {"sha256": "ab" * 32, "path": "/runs/x/model.npz"}
    assert found["metrics"] == {"loss": 0.5, "holdout_accuracy": 0.64}


def test_a_failure_tells_detection_restoration_and_catching_up_apart() -> None:
    assert summary()["failures"] == [
        {
            "worker": "processor.1",
            "incarnation": 1,
            "action": "kill",
            "ended": "",
            "injected_at": 150.0,
            "detected_ms": 5.0,
            "restored_ms": 60.0,
            "caught_up_ms": 200.0,
        }
    ]


def test_a_failure_of_its_own_accord_counts_from_its_detection() -> None:
    (failure,) = summary(injected=[])["failures"]
    assert (failure["action"], failure["injected_at"], failure["detected_ms"]) == ("killed by signal", None, None)
    assert failure["restored_ms"] == 55.0


def test_a_death_is_of_the_last_fault_before_it() -> None:
    """A slowdown that passed unnoticed did not kill, long after, what the kill did."""
    slow, kill = Injected("processor.1", 1, "slow", 140.0), Injected("processor.1", 1, "kill", 150.0)
    failures = match_failures([kill, slow], STATUS["failures"])
    assert [failure["action"] for failure in failures[:2]] == ["slow", "kill"]
    assert [failure["detected_ms"] for failure in failures[:2]] == [None, 5.0]


def test_a_fault_that_nobody_noticed_has_no_detection() -> None:
    failures = match_failures([Injected("processor.1", 1, "stop", 160.0)], STATUS["failures"])
    assert [(f["action"], f["detected_ms"]) for f in failures] == [("stop", None), ("killed by signal", None)]


def test_each_record_is_used_once_and_only_for_its_incarnation() -> None:
    records = [dict(STATUS["failures"][0], incarnation=n, detected_at=150.0 + n) for n in (1, 2)]
    injected = [Injected("processor.1", 2, "kill", 151.5), Injected("processor.1", 1, "kill", 150.5)]
    failures = match_failures(injected, records)
    assert [(f["incarnation"], f["detected_ms"]) for f in failures] == [(1, 500.0), (2, 500.0)]


def test_nothing_at_all_still_makes_a_summary() -> None:
    found = compose(Facts("trial", "none", {}, []))
    assert found.keys() >= CONTRACT
    assert (found["completed"], found["items"], found["seconds"], found["items_per_second"]) == (False, 0, 0.0, 0.0)
    assert found["startup_seconds"] is None and found["failures"] == [] and found["model"] == {}


def test_epochs_whose_lines_are_not_kept_count_all_the_same() -> None:
    found = summary(epochs=ROWS[60:], before=Before(60, 60_000))
    assert (found["items"], found["epochs"], found["epochs_left_out"]) == (100_000, 100, 60)
    assert found["bytes_per_item"] == summary()["bytes_per_item"]


def test_the_rate_of_a_job_begun_from_a_savepoint_is_its_own(tmp_path: Any) -> None:
    """60 of its epochs were committed by another job, in a time that is not its own."""
    found = summary(epochs=ROWS[60:], before=Before(60, 60_000, 60_000), status={"workers": {}}, started_at=0.0)
    own = summary(epochs=ROWS[60:], status={"workers": {}}, started_at=0.0)
    assert (found["items"], found["items_of_savepoint"], own["items_of_savepoint"]) == (100_000, 60_000, 0)
    for name in ("seconds", "items_per_second", "bytes_per_item"):
        assert found[name] == own[name]
    assert "100,000, 60,000 of them before the savepoint, the others in" in report(found, tmp_path)


def test_bytes_by_item_are_those_of_the_items_that_they_were_sent_for() -> None:
    assert summary(epochs=ROWS[60:], before=Before(60, 60_000, 60_000))["bytes_per_item"] == 1000 / 40_000


def test_bytes_by_item_of_a_long_job_that_was_resumed_are_those_of_the_last_attempt() -> None:
    """Its first 80 epochs are of the attempt before, and the lines of 60 of them are not kept."""
    found = summary(epochs=ROWS[80:], earlier=[ROWS[60:80]], before=Before(60, 60_000), items_earlier=80_000)
    assert found["bytes_per_item"] == 1000 / 20_000
    begun = Before(60, 60_000, 60_000)
    for earlier in (0, 60_000):
        found = summary(epochs=ROWS[60:], before=begun, items_earlier=earlier)
        assert found["bytes_per_item"] == 1000 / 40_000, "another job's items were sent by nobody of this one"


def test_the_rate_of_a_long_job_that_was_resumed_is_of_the_epochs_whose_times_are_kept() -> None:
    """A second an epoch in two attempts, and the lines of the first 60 epochs are not kept."""
    found = summary(epochs=ROWS[80:], earlier=[ROWS[60:80]], before=Before(60, 60_000), status={"workers": {}})
    assert found["items"] == 100_000 and 1000 <= found["items_per_second"] < 1060


def test_who_watched_the_job_knows_of_the_first_item_what_later_lives_do_not() -> None:
    usual, found = summary(), summary(first_item_at=98.0)
    assert found["seconds"] == usual["seconds"] + 2.0 and found["startup_seconds"] == usual["startup_seconds"] - 2.0


def test_when_no_worker_lived_to_say_when_it_began_the_first_epoch_does() -> None:
    found = summary(status={"phase": "FAILED"})
    assert abs(found["seconds"] - (ROWS[-1].committed_at - (ROWS[0].committed_at - 0.001))) < 1e-9
    assert found["startup_seconds"] == ROWS[0].committed_at - 0.001 - 97.5


def test_a_job_that_was_resumed_is_summed_up_whole() -> None:
    """Two attempts on two clocks, as after a restart of the machine: 20 epochs in 20 s, then 80 in 80 s."""
    found = summary(epochs=ROWS[20:], earlier=[[replace(row, committed_at=row.epoch) for row in ROWS[:20]]])
    assert (found["attempts"], found["items"], found["epochs"]) == (2, 100_000, 100)
    earlier = 20 - (1 - 0.001)
    assert abs(found["seconds"] - (earlier + 100.0)) < 1e-9, "the last attempt began at 100, as its source says"
    assert found["epoch_latency_ms"]["max"] == 100.0
    assert found["bytes_per_item"] == 1000 / 80_000, "what was sent in the first attempt, nobody lived to tell"
    assert found["startup_seconds"] == 2.5


def test_what_a_restored_sink_remembers_of_an_earlier_attempt_is_not_counted_twice() -> None:
    sink = {"sink.0": {"stats": {"first_emit_at": 3.0, "last_commit_at": 200.0}}}
    found = summary(status={"workers": sink}, epochs=ROWS[20:], earlier=[ROWS[:20]])
    assert found["startup_seconds"] == ROWS[20].committed_at - 0.021 - 97.5
    assert 0 < found["seconds"] < 100.0


def test_an_attempt_that_had_nothing_left_to_commit() -> None:
    found = summary(status={"phase": "COMPLETED"}, epochs=[], earlier=[ROWS])
    assert (found["completed"], found["items"], found["startup_seconds"]) == (True, 100_000, None)
    assert abs(found["seconds"] - (99.0 + 0.001)) < 1e-9


def test_losses_of_earlier_attempts_are_not_said_to_be_the_last_ones(tmp_path: Any) -> None:
    """A worker that goes on where an attempt ended remembers what that had lost."""
    sink = {"sink.0": {"stats": {"lost_items": 70}}}
    lines = report(summary(status={"workers": sink}, epochs=ROWS[20:], earlier=[ROWS[:20]]), tmp_path).splitlines()
    assert "LOST         70 items" in lines
    assert "attempts     2; bytes, memory, failures and repaired items are those of the last one" in lines


def test_several_sinks_keep_all_their_models() -> None:
    sinks = {f"sink.{n}": {"stats": {"model": {"sha256": str(n)}, "metrics": {"loss": float(n)}}} for n in (0, 1)}
    found = summary(status={"workers": sinks})
    assert found["model"]["sha256"] == "0"
    assert [one["sha256"] for one in found["model"]["all"].values()] == ["0", "1"]
    assert found["metrics"] == {"sink.0.loss": 0.0, "sink.1.loss": 1.0, "holdout_accuracy": 0.64}


def test_tentative_windows_are_those_of_all_destinations() -> None:
    def tentative(windows: int, amended: int) -> dict[str, Any]:
        return {"stats": {"tentative": {"windows": windows, "amended": amended, "completeness": 0.5}}}

    found = summary(status={"workers": {"sink.0": tentative(24, 24), "sink.1": tentative(19, 18), "sink.2": {}}})
    assert (found["tentative"]["windows"], found["tentative"]["amended"]) == (43, 42)
    assert list(found["tentative"]["all"]) == ["sink.0", "sink.1"] and "completeness" not in found["tentative"]
    alone = summary(status={"workers": {"sink.0": tentative(24, 23)}})
    assert alone["tentative"] == {"windows": 24, "amended": 23, "completeness": 0.5}


def test_each_metric_of_several_tasks_becomes_the_job_s_in_its_own_way(tmp_path: Any) -> None:
    words = {"count.0": (100, 17_709.0, 0.5, 1.0), "count.1": (300, 17_644.0, 0.9, 2.0)}
    stats = {
        worker: {
            "items": items,
            "metrics": {"words": count, "rate": rate, "norm": norm},
            "combines": {"words": "sum", "rate": "mean"},
            "model": {"sha256": worker, "path": f"/runs/x/model.{worker[-1]}.npz"},
        }
        for worker, (items, count, rate, norm) in words.items()
    }
    found = summary(status={"workers": {worker: {"stats": one} for worker, one in stats.items()}}, metrics={})
    assert found["metrics"] == {"words": 35_353.0, "rate": 0.8, "count.0.norm": 1.0, "count.1.norm": 2.0}
    text = report(found, tmp_path)
    assert "model.0.npz" in text and "model.1.npz" in text
    alone = summary(status={"workers": {"count.0": {"stats": stats["count.0"]}}}, metrics={})
    assert alone["metrics"] == {"words": 17_709.0, "rate": 0.5, "norm": 1.0}


def test_a_window_that_several_sinks_close_is_one() -> None:
    found = summary(epochs=[*ROWS, *ROWS])
    assert (found["epochs"], found["items"]) == (100, 200_000)


def test_a_start_up_is_never_negative() -> None:
    """A sink that was killed before it announced an epoch does so in its next attempt, with the time of the commit."""
    found = summary(status={"workers": {}}, epochs=ROWS, started_at=150.5)
    assert found["startup_seconds"] == ROWS[50].committed_at - 0.051 - 150.5


def test_a_job_that_failed_before_its_first_epoch_shows_no_zeros(tmp_path: Any) -> None:
    failure = {"worker": "processor.1", "reason": "killed by signal", "ended": "signal SIGSEGV in f (m.py:1)"}
    failures = [{**failure, "incarnation": n, "detected_at": 1.0} for n in range(1, 13)]
    found = summary(status={"phase": "FAILED", "failures": failures}, epochs=[], injected=[], metrics={})
    lines = report(found, tmp_path).splitlines()
    assert lines[0].split() == ["job", "trial", "(erasure),", "NOT", "completed"]
    assert lines[1].split(maxsplit=1)[1].startswith("processor.1#1 ended by signal SIGSEGV in f (m.py:1): ")
    assert lines[11].endswith("and 2 more, see summary.json") and len(lines) == 13


def test_rollbacks_are_counted_and_told(tmp_path: Any) -> None:
    assert summary()["rollbacks"] == 0
    assert not any(line.startswith("rollbacks") for line in report(summary(), tmp_path).splitlines())
    found = compose(Facts("trial", "barrier", STATUS | {"round": 2}, ROWS))
    assert found["rollbacks"] == 2
    assert "rollbacks    2 of all tasks together" in report(found, tmp_path).splitlines()


def test_the_report_says_what_matters(tmp_path: Any) -> None:
    text = report(summary(), tmp_path)
    missed = {"kill:sink.0@epoch=900": "the job ended before that moment"}
    assert "kill:sink.0@epoch=900: the job ended" in report(summary(not_injected=missed), tmp_path)
    for words in ("100,000 in 100.00 s", "processor.1#1 kill: detected after 5.0 ms", "500 items", "LOST", "abababab"):
        assert words in text
    assert "NOT completed" in report(compose(Facts("trial", "none", {}, [])), tmp_path)


def test_the_command_that_shows_the_results_can_be_copied(tmp_path: Any) -> None:
    done = summary() | {"completed": True}
    (line,) = (line for line in report(done, tmp_path / "my runs").splitlines() if line.startswith("results"))
    assert shlex.split(line) == ["results", "riprap", "show", str(tmp_path / "my runs")]


def test_a_job_that_goes_on_in_place_says_what_its_windows_lack(tmp_path: Any) -> None:
    """Of a stream without end, and of a job that is not completed, what came too late is all that is known."""
    (tmp_path / "epochs.csv").write_text(f"{HEADING}1,100,1.0,1.0\n2,50,1.0,2.0\n")
    (committed := Committed(tmp_path, sinks=1)).refresh()
    submitted = {"fault_tolerance": {"reconcile": False}, "schema": {"items": 200, "windows": 2}, "sinks": ["sink.0"]}
    late = {"phase": "COMPLETED", "workers": {"sink.0": {"stats": {"late_items_dropped": 30}}}}
    assert shortfall(submitted, committed, late) == ""
    assert left_out(submitted, committed, late) == 50
    assert left_out(submitted | {"schema": {"items": None}}, committed, late) == 30
    assert left_out(submitted, committed, late | {"phase": "FAILED"}) == 30
    exact = submitted | {"fault_tolerance": {"reconcile": True}}
    assert left_out(exact, committed, late) == 0 and "150 of 200 items" in shortfall(exact, committed, late)
    assert Expected.from_topology(submitted).shortfall([Account(1, 100)]) == "a destination has closed 1 of 2 windows"
    assert compose(Facts("trial", "partially_active", late, ROWS, left_out=50))["lost"]["items"] == 50
