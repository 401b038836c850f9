"""The frame of the comparison with peers: what a program's run becomes, and whether its answer is right."""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.peers import drive, ours, setup, workloads
from bench.peers.programs import harness
from bench.peers.report import report
from bench.peers.rows import Measurement, NoMeasurement, Row, code_lines, parse, without_paths

LOGISTIC, HIGGS, WORDS, FLOWS = workloads.WORKLOADS
LINE = {
    "items": 10, "seconds": 2.0, "startup_seconds": 0.5, "peak_rss_mb": 7.0, "result": {"flows": [1]}, "version": "X 1"
}  # fmt: skip


def measurement(items: int = 10, **result: Any) -> Measurement:
    return Measurement(items, 2.0, 0.5, 7.0, result or {"flows": [1]}, "X 1")


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_the_last_line_of_a_program_is_its_measurement() -> None:
    measured = parse(f"some chatter\n{json.dumps(LINE)}\n")
    assert measured == measurement() and measured.rate == 5


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", "nothing"),
        ("Traceback: no\n", "no measurement but: Traceback: no"),
        ("3\n", "no measurement"),
        (json.dumps({**LINE, "seconds": 0}), "are no measurement"),
        (json.dumps({**LINE, "items": 0}), "are no measurement"),
        (json.dumps({**LINE, "seconds": math.nan}), "are no measurement"),
        (json.dumps({name: LINE[name] for name in LINE if name != "version"}), "no measurement"),
    ],
)
def test_anything_else_is_no_measurement(output: str, said: str) -> None:
    with pytest.raises(NoMeasurement, match=said):
        parse(output)


def test_a_program_is_run_to_its_end() -> None:
    assert drive.run_program(script(f"print('''{json.dumps(LINE)}''')"), 30) == measurement()


def test_a_failure_is_told_by_its_last_line() -> None:
    with pytest.raises(NoMeasurement, match="ended with 1: ValueError: no such thing"):
        drive.run_program(script("raise ValueError('no such thing')"), 30)


def test_what_takes_too_long_says_so() -> None:
    with pytest.raises(NoMeasurement, match=r"not done after 0\.2 s"):
        drive.run_program(script("import signal; signal.pause()"), 0.2)


def test_nothing_that_a_program_began_outlives_it(tmp_path: Path) -> None:
    # The child holds the writing end of a pipe for as long as it lives, so that its end can be awaited.
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    child = f"import signal, sys; held = open({str(fifo)!r}, 'w'); print('holds', file=sys.stderr); signal.pause()"
    text = "import subprocess, sys; out = subprocess.DEVNULL; "
    text += f"child = subprocess.Popen([sys.executable, '-uc', {child!r}], stdout=out, stderr=subprocess.PIPE); "
    text += f"assert child.stderr.readline() == b'holds\\n'; print({json.dumps(LINE)!r})"
    assert drive.run_program(script(text), 60) == measurement()
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b"", "nobody holds the other end"
    os.close(reader)


class Clock:
    """Each measurement takes ten seconds."""

    def __init__(self, answers: dict[str, list[Measurement | str]]) -> None:
        self.now, self.answers, self.asked = 0.0, answers, []  # type: ignore[var-annotated]

    def measure(self, workload: workloads.Workload, contender: str) -> Measurement:
        self.now += 10
        self.asked.append(contender)
        answer = self.answers[contender].pop(0)
        if isinstance(answer, str):
            raise NoMeasurement(answer)
        return answer

    def rounds(self, count: int, budget_s: float) -> dict[tuple[str, str], Row]:
        return drive.rounds([(FLOWS, name) for name in self.answers], count, budget_s, self.measure, lambda: self.now)


def test_contenders_take_turns_and_whoever_failed_is_left_out() -> None:
    clock = Clock(
        {"a": [measurement(10), measurement(30), measurement(20)], "b": [measurement(), "not done after 9 s"]}
    )
    rows = clock.rounds(3, 1e9)
    assert clock.asked == ["a", "b", "a", "b", "a"]
    assert rows[FLOWS.name, "a"].measured and rows[FLOWS.name, "a"].rate == 10
    assert not rows[FLOWS.name, "b"].measured and rows[FLOWS.name, "b"].why == "not done after 9 s"


@pytest.mark.parametrize(("budget_s", "runs"), [(0, 1), (39, 1), (40, 2), (60, 3)])
def test_no_round_begins_that_would_end_too_late(budget_s: float, runs: int) -> None:
    clock = Clock({name: [measurement()] * 3 for name in "ab"})
    rows = clock.rounds(3, budget_s)
    assert [len(row.runs) for row in rows.values()] == [runs, runs]


def test_a_table_has_the_fastest_first_and_reasons_last() -> None:
    rows = {
        "bad": Row([measurement(1000)], "wrong answer: recall 0"),
        "riprap approximate": Row([measurement(4_000_000)]),
        "numpy": Row([measurement(8_000_000)]),
    }
    lines = report(FLOWS, rows, dict.fromkeys(rows, 7)).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[0] for row in cells] == ["numpy", "riprap approximate", "bad"]
    assert cells[0][2:6] == ["4", "1", "0.5", "1"] and cells[1][2:6] == ["2", "0.5", "1", ""]
    assert cells[2][-1] == "wrong answer: recall 0" and cells[2][2] == "-"


@pytest.mark.parametrize(
    ("workload", "name", "asked"),
    [
        (LOGISTIC, "numpy", "0.5"), (LOGISTIC, "flink_item", "3"), (LOGISTIC, "flink_py_batch", "30"),
        (LOGISTIC, "river_item", "1"), (HIGGS, "numpy", ""), (HIGGS, "spark", "50"), (FLOWS, "spark", "1"),
    ],
)  # fmt: skip
def test_a_table_says_what_was_asked(workload: workloads.Workload, name: str, asked: str) -> None:
    row = Row([measurement(log_loss=0.5, accuracy=0.9)])
    cells = report(workload, {name: row}, {name: 7}).splitlines()[2].split("|")
    assert cells[6].strip() == asked
    assert cells[5].strip() == "-", "the yardstick was not measured"


def test_lines_of_code_are_neither_blank_nor_comments_nor_docstrings() -> None:
    python = '"""What it\n\nis for."""\n\nimport x  # why\n# note\n\n\ndef f():\n    """Say."""\n    return x\n'
    java = "/** Says.\n * @x\n */\nclass X { // y\n  // z\n}\n"
    assert code_lines([python]) == 3 and code_lines([java]) == 2 and code_lines([python, java]) == 5


def test_every_program_has_an_environment_and_is_counted() -> None:
    names = {path.name for path in drive.PROGRAMS.glob("*.py")}
    found = [(one, name) for one in workloads.WORKLOADS for name in drive.contenders(one) if "riprap" not in name]
    assert len(found) >= 20
    for workload, name in found:
        assert drive.environment(name) in setup.PEERS
        program, *_ = drive.sources(workload, name)
        assert program.name in names and code_lines([program.read_text()]) > 0
    with pytest.raises(KeyError, match="no peer for river2"):
        drive.environment("river2")


def test_ours_is_counted_by_its_topology() -> None:
    assert [str(path) for path in drive.sources(LOGISTIC, "riprap none")] == [ours.config(LOGISTIC)]


def test_a_failed_run_of_ours_is_told_by_its_error() -> None:
    message = "run x ended with 1:\nchatter\nerror: JobError: no sink\n  remedy: look\n"
    assert ours.reason(message) == "error: JobError: no sink"
    assert ours.reason("timed out after 600 seconds\n") == "timed out after 600 seconds"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("Command '['/a/b/.venv/bin/python', '-m', 'x']' timed out", "Command '['python', '-m', 'x']' timed out"),
        ("no wheel in file:///srv/simple/x/ for x", "no wheel in  for x"),
        ("3 items/s, and/or 4/5", "3 items/s, and/or 4/5"),
    ],
)
def test_reasons_name_no_folders_of_the_machine(reason: str, said: str) -> None:
    assert without_paths(reason) == said


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(setup, "HOME", tmp_path)
    return tmp_path


def test_a_peer_that_does_not_install_is_a_row_that_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(setup.PEERS, "numpy", setup.Peer([], apt=["no-such-command: no-such-package"]))
    monkeypatch.setattr(drive, "arguments", lambda workload, size: [])
    with pytest.raises(NoMeasurement, match=r"not set up: python -m bench.peers.setup numpy"):
        drive.measure(FLOWS, "numpy")
    assert setup.install("numpy") == "no no-such-command on the path: apt install no-such-package"
    with pytest.raises(NoMeasurement, match="not installed: no no-such-command on the path"):
        drive.measure(FLOWS, "numpy")


def test_an_environment_is_made_again_when_its_table_changes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(setup, "_make", lambda name, peer: made.append(name))
    assert setup.install("numpy") == setup.install("numpy") == "" and made == ["numpy"]
    assert setup.interpreter("numpy") == home / "numpy/venv/bin/python"
    monkeypatch.setitem(setup.PEERS, "numpy", setup.Peer(["numpy==0"]))
    with pytest.raises(setup.NotInstalled, match="not set up"):
        setup.interpreter("numpy")
    setup.install("numpy")
    assert made == ["numpy", "numpy"]


@pytest.mark.parametrize(
    ("found", "said"),
    [({1, 2}, ""), ({1}, "recall 0.500"), ({1, 2, 3}, "precision 0.667"), (set(), "recall 0.000")],
)
def test_heavy_hitters_are_all_there_and_few_others(tmp_path: Path, found: set[int], said: str) -> None:
    records = np.zeros(4, np.dtype([("flow", "<u8"), ("payload", "<u4")]))
    records["flow"], records["payload"] = [1, 2, 2, 3], [50, 20, 30, 40]
    np.save(tmp_path / "part-00000.npy", records)
    words = ["--data", str(tmp_path), "--threshold", "40"]
    assert said in (wrong := workloads.wrong(FLOWS, "x", words, {"flows": sorted(found)})) and bool(wrong) == bool(said)


def test_counts_of_words_are_exact(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("A river, ein Fluß.\nThe RIVER'S\n".encode())
    right = Counter(["a", "river", "ein", "flu", "the", "river", "s"])
    words = ["--data", str(tmp_path)]
    twice = {word: 2 * count for word, count in right.items()}
    assert workloads.wrong(WORDS, "x", words, harness.count_result(twice, passes=2)) == ""
    encoded = {word.encode(): count for word, count in right.items()}
    assert workloads.count_result(encoded) == harness.count_result(right, passes=1)
    moved = {**right, "a": 2, "river": 1}
    assert "7 words, 6 different: not 7, 6" in workloads.wrong(WORDS, "x", words, harness.count_result(moved, 1))


def shards(folder: Path, rows: int, seed: int) -> Path:
    """Two shards of rows whose first feature says most of the label."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 3))
    y = rng.random(rows) < 1 / (1 + np.exp(-2 * x[:, 0]))
    data = np.column_stack([y, x])
    np.save(folder / "part-00000.npy", data[: rows // 3])
    np.save(folder / "part-00001.npy", data[rows // 3 :])
    return folder


def test_micro_batches_go_on_from_shard_to_shard_and_start_over(tmp_path: Path) -> None:
    folder = shards(tmp_path / "train", 10, 1)
    stream = np.concatenate([np.concatenate(harness.shards(folder))] * 3)
    blocks = list(harness.micro_batches(folder, 25, 4))
    assert [len(block) for block in blocks] == [4, 4, 4, 4, 4, 4, 1]
    assert np.array_equal(np.concatenate(blocks), stream[:25])


def test_models_are_as_good_as_gradient_descent_in_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "MICRO_BATCH", 500)
    train, test = shards(tmp_path / "train", 3000, 1), shards(tmp_path / "test", 1000, 2)
    words = ["--data", str(train), "--test", str(test), "--items", "6000", "--learning-rate", "2.0"]
    loss = workloads.true_loss(str(train), str(test), 6000, 2.0)
    assert 0.4 < loss < 0.6
    off = workloads.LOSS_TOLERANCE
    cases = [("bytewax_batch", loss + part * off, abs(part) < 1) for part in (0.0, 0.9, -0.9, 1.1, -1.1, math.nan)]
    for contender, found, right in [*cases, ("sklearn", loss, False), ("sklearn", 0.2, True)]:
        assert (workloads.wrong(LOGISTIC, contender, words, {"log_loss": found}) == "") == right, (contender, found)


def test_scores_are_those_of_the_definition() -> None:
    found = harness.score(np.array([0.9, 0.2, 0.6]), np.array([1.0, 0.0, 0.0]))
    assert found["log_loss"] == pytest.approx(-(math.log(0.9) + math.log(0.8) + math.log(0.4)) / 3)
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert math.isfinite(harness.score(np.array([0.0]), np.array([1.0]))["log_loss"])


def test_the_clock_starts_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([100.0, 103.0, 104.0, 109.0])
    monkeypatch.setattr(harness, "_clock", {})
    monkeypatch.setattr(harness, "_process_started", lambda: 97.0)
    monkeypatch.setattr(harness, "time", SimpleNamespace(time=lambda: next(moments)))
    harness.begin()
    harness.begin()
    harness.end()
    harness.report(8, {"flows": [3]}, "X 2")
    measured = parse(capsys.readouterr().out)
    assert (measured.seconds, measured.startup_seconds, measured.rate) == (4.0, 3.0, 2.0)
    assert measured.result == {"flows": [3]} and measured.version == "X 2" and measured.peak_rss_mb > 1
