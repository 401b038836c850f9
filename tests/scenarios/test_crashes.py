"""An operator that ends its process: the user reads how, who and where, and finds the trace in the log."""

from __future__ import annotations

import json

import pytest
from cli_harness import Cli, write_topology

SHARED_ENSEMBLE = True

CRASHING = """\
import ctypes
import os
import sys

from riprap.operators.learning.logistic_regression import Gradient as Sound


class Gradient(Sound):
    def process_data(self, items):
        BODY
"""
LINE = "mine.py:10"


@pytest.mark.parametrize(
    ("body", "how", "where", "trace"),
    [
        ("sys.exit(3)", "sys.exit(3)", LINE, "SystemExit"),
        pytest.param("os._exit(7)", "exit status 7", "", "", marks=pytest.mark.long),
        pytest.param("os.abort()", "signal SIGABRT", LINE, "Fatal Python error: Aborted", marks=pytest.mark.long),
        ("ctypes.string_at(0)", "signal SIGSEGV", LINE, "Fatal Python error: Segmentation fault"),
    ],
    ids=["sys.exit", "os._exit", "abort", "segfault"],
)
def test_an_operator_that_ends_its_process(cli: Cli, body: str, how: str, where: str, trace: str) -> None:
    (cli.directory / "mine.py").write_text(CRASHING.replace("BODY", body))
    write_topology(cli.directory / "job.yaml", processor="mine:Gradient")
    ended = cli.answer("run", "job.yaml", "--out", "out")
    assert ended.returncode == 1
    (error,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert how in error and where in error and "processor." in error, error
    assert ended.stderr.count("remedy: ") == 1 and "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) < 20, ended.stderr
    assert "0 in 0.00 s" not in ended.stdout, "zeros tell nobody anything"
    worker = next(word for word in error.split() if word.startswith("processor.")).rstrip(":")
    log = (cli.directory / "out" / "logs" / f"{worker}.log").read_text()
    assert trace in log and (not where or 'mine.py", line 10' in log)
    failures = json.loads((cli.directory / "out" / "summary.json").read_text())["failures"]
    assert all(how in failure["ended"] for failure in failures if failure["ended"])
    cli.await_no_process()


def test_a_worker_that_crashes_once_is_replaced(cli: Cli) -> None:
    lines = ["try:", "    os.mkdir('crashed')", "    os.abort()", "except FileExistsError:", "    pass"]
    body = "\n        ".join([*lines, "return super().process_data(items)"])
    (cli.directory / "mine.py").write_text(CRASHING.replace("BODY", body))
    write_topology(cli.directory / "job.yaml", processor="mine:Gradient")
    ended = cli.answer("run", "job.yaml", "--out", "out", "--set", "input.repeat=40", "--json")
    assert ended.returncode == 0, ended.stderr
    (failure,) = json.loads(ended.stdout)["failures"]
    assert failure["ended"].startswith("signal SIGABRT in process_data (") and "mine.py:12" in failure["ended"]
    (line,) = [line for line in ended.stderr.splitlines() if "SIGABRT" in line]
    assert line.startswith(f"{failure['worker']}#1 ended by signal SIGABRT in process_data (")
    cli.await_no_process()
