"""What a kill did to a stream: the three times, and what was lost or repeated, from made-up facts."""

import json
import sys
from pathlib import Path

import pytest

from bench.peers.processes import Processes, find, wait_for
from bench.peers.recovery import row
from bench.peers.recovery_ours import committed
from bench.peers.recovery_times import (
    Output,
    Times,
    flink_noticed,
    lost,
    measure,
    parse_outputs,
    repeated,
    spark_noticed,
)


def every_tenth(first: int, last: int, begin: float) -> list[Output]:
    """Outputs a tenth of a second apart."""
    return [Output(number, begin + (number - first) / 10) for number in range(first, last + 1)]


def test_the_times_of_a_kill_count_from_the_kill() -> None:
    outputs = [*every_tenth(1, 10, 0.0), *every_tenth(11, 20, 3.0)]
    (times,) = measure(outputs, [1.0], [1.25])
    assert times == Times(detected_ms=250.0, first_output_ms=2000.0, caught_up_ms=2000.0)


def test_an_output_that_was_there_before_is_not_the_first_new_one() -> None:
    outputs = [*every_tenth(1, 10, 0.0), *every_tenth(8, 20, 3.0)]
    (times,) = measure(outputs, [1.0], [])
    assert times.first_output_ms == pytest.approx(2300.0)
    assert times.detected_ms is None
    assert repeated(outputs) == 3


def test_a_stream_that_is_slow_at_first_catches_up_later() -> None:
    slow = [Output(11, 2.0), Output(12, 3.0), Output(13, 4.0)]
    outputs = [*every_tenth(1, 10, 0.0), *slow, *every_tenth(14, 20, 5.0)]
    (times,) = measure(outputs, [1.0], [1.1])
    assert (times.first_output_ms, times.caught_up_ms) == (1000.0, 4000.0)


def test_a_stream_that_ends_early_has_not_caught_up() -> None:
    outputs = [*every_tenth(1, 10, 0.0), Output(11, 2.0)]
    assert measure(outputs, [1.0], [1.1])[0].caught_up_ms is None


def test_each_kill_has_what_came_before_the_next() -> None:
    outputs = [*every_tenth(1, 10, 0.0), *every_tenth(11, 20, 2.0), *every_tenth(21, 30, 5.0)]
    first, second = measure(outputs, [1.0, 4.0], [1.5, 4.25])
    assert (first.detected_ms, first.first_output_ms) == (500.0, 1000.0)
    assert (second.detected_ms, second.first_output_ms) == (250.0, 1000.0)
    (only,) = measure(outputs[:10], [1.0], [])
    assert only.first_output_ms is None


def test_numbers_that_never_came_are_lost() -> None:
    assert lost([Output(1, 0.0), Output(2, 1.0), Output(5, 2.0), Output(5, 3.0)]) == 2
    assert lost([]) == 0


def test_a_line_that_was_cut_off_is_left_out() -> None:
    assert parse_outputs("1 1000\n2 2500\n3 26") == [Output(1, 1.0), Output(2, 2.5)]
    assert parse_outputs("1 10") == []


def test_failures_are_read_from_the_answers_of_the_rivals() -> None:
    entries = [{"timestamp": 3000, "exceptionName": "late"}, {"timestamp": 1000, "exceptionName": "early"}]
    assert flink_noticed({"exceptionHistory": {"entries": entries}}) == [1.0, 3.0]
    events = ['{"Event": "SparkListenerExecutorAdded", "Timestamp": 500}']
    events += ['{"Event": "SparkListenerExecutorRemoved", "Timestamp": 1500, "Executor ID": "0"}']
    assert spark_noticed(map(json.loads, events)) == [1.5]


def test_an_epoch_is_committed_when_all_tasks_have() -> None:
    tasks = [[{"epoch": 1.0, "committed_at": 2.0}], [{"epoch": 1.0, "committed_at": 3.0}]]
    tasks[0].append({"epoch": 2.0, "committed_at": 4.0})
    assert committed(tasks) == [Output(1, 3.0)]


def test_a_row_says_what_failed_and_how_many_were_never_measured() -> None:
    assert row("Flink", {"failed": "no javac"})[:2] == ["Flink", "no javac"]
    figures = {"detected_ms": [1.0, None, 3.0], "first_output_ms": [5.0] * 3, "caught_up_ms": [None] * 3}
    cells = row("Flink", {**figures, "output_gap_ms": 7.0, "lost": 0.0, "repeated": 100_000.0})
    assert cells == ["Flink", 3, "2 (1 never)", "5", "- (3 never)", 7.0, "0", "100,000"]


CHILD = "import time; time.sleep(60)"
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{CHILD}', 'a-child']).wait()"


def test_no_process_is_left_of_a_session_with_children(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        leader = processes.start("parent", [sys.executable, "-c", PARENT]).pid
        children = wait_for(lambda: [pid for pid in find(leader, "a-child") if pid != leader], 20, "child")
    assert len(children) == 1
    wait_for(lambda: not any(is_alive(pid) for pid in [leader, *children]), 20, "end of the session")


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
