"""Programs that look after a job while it runs: they kill, cancel and resume it, draw it, and die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import onnxruntime
from cli_harness import Cli, await_that

from riprap.engine.api.local import LocalTraining
from riprap.engine.run_directory.directory import read_events
from riprap.operators.base import Context
from riprap.operators.learning.estimators import load_model, predict
from riprap.operators.learning.logistic_regression import Gradient, Model

OPERATORS = """\
import time
from concurrent.futures import ThreadPoolExecutor

import riprap
from riprap.operators.learning.logistic_regression import Gradient
from riprap.operators.inputs.shard_source import ShardSource

PER_SECOND = 20_000


class Paced(ShardSource):
    def read(self, start, stop):
        time.sleep((stop - start) / PER_SECOND)  # so that a kill meets the job in its middle
        return super().read(start, stop)


class Own(Gradient):
    pass


def compose(repeat):
    job = riprap.Job("trial", input="shards", repeat=repeat, micro_batch=500, scheme=riprap.erasure(k=2, r=1))
    source = job.stage("source", Paced)
    processor = job.stage("processor", Own, parallelism=3)
    sink = job.stage("sink", "logistic_regression:Model", learning_rate=0.5)
    source.to(processor, "stripe").to(sink, "merge").feed_back(processor)
    return job

"""

LOOKS_ON = """
job = compose(8)
with ThreadPoolExecutor(1) as pool:
    run = pool.submit(job.start, out="out").result()
with run:  # the thread that started it has ended
    for epoch in run:
        if epoch.epoch == 5:
            run.kill("processor.1")
        if epoch.epoch == 40:
            break
assert run.progress().phase == "CANCELLED", run
assert not run.wait()["completed"] and run.failures[0]["worker"] == "processor.1"
again = job.resume("out")
found = [epoch.epoch for epoch in again]
assert found == list(range(1, 81)), found
summary = again.wait()
assert again.metrics["accuracy"] > 0.9 and len(again.progress().workers) == 5
assert list(again.model()) == ["coefficients", "intercept", "classes"]
job.plot("run.png")
try:
    riprap.resume("out")
except riprap.ConfigError as error:
    assert "its job has completed" in str(error), error
print(summary["completed"], summary["attempts"])
"""

IS_KILLED = """
import os, sys, time
run = compose(1000).start(out="out")
next(iter(run))
child = os.fork()  # keeps all that the program holds open
if not child:
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
"""


IS_INTERRUPTED = """
compose(1000).run(out="out")
"""


def start(cli: Cli, script: str) -> subprocess.Popen[str]:
    (cli.directory / "job.py").write_text(OPERATORS + script)
    return subprocess.Popen(
        [sys.executable, "job.py"], cwd=cli.directory, env=cli.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


def trained_here(cli: Cli, repeat: int) -> dict[str, np.ndarray]:
    """The model of that job, from its operators alone."""
    rows = np.load(cli.directory / "shards/part-00000.npy")
    training = LocalTraining(
        Gradient(), Model(learning_rate=0.5), Context(("label", "x0", "x1", "x2"), "label"), 500, 2
    )
    training.feed(lambda start, stop: rows[np.arange(start, stop) % len(rows)], repeat * len(rows))
    return training.sink.model()


def test_a_program_kills_cancels_resumes_and_draws_its_job_with_classes_of_its_own(cli: Cli) -> None:
    said, errors = start(cli, LOOKS_ON).communicate(timeout=120)
    assert said.split() == ["True", "2"] and not errors, errors
    cli.await_no_process()
    assert (cli.directory / "run.png").read_bytes().startswith(b"\x89PNG")
    out = cli.directory / "out"
    assert [event["fault"].partition("@")[0] for event in read_events(out) if event["event"] == "fault_injected"] == [
        "kill:processor.1"
    ]
    assert "operator: __main__:Own" in (out / "topology.yaml").read_text()
    model = load_model(out / "model.npz")
    assert all(np.array_equal(model[name], array) for name, array in trained_here(cli, 8).items())
    assert "x0, x1, x2" in cli.ask("export", "out", "model.onnx")
    rows = np.load(cli.directory / "shards/part-00000.npy")[:, 1:]
    session = onnxruntime.InferenceSession(cli.directory / "model.onnx", providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(["label"], {"features": rows})[0], predict(model, rows))
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["columns"]) == ["x0", "x1", "x2"] and (said["job"], said["label"]) == ("trial", "label")


def test_a_program_that_is_killed_leaves_nothing_behind(cli: Cli) -> None:
    program = start(cli, IS_KILLED)
    assert program.stdout is not None
    child = int(program.stdout.readline())
    assert len(cli.processes()) > 5
    program.kill()
    program.wait()
    await_that(lambda: cli.processes() == [child], 120, lambda: f"left behind: {cli._names()}")
    os.kill(child, signal.SIGKILL)
    program.communicate()
    summary: dict[str, Any] = json.loads((cli.directory / "out" / "summary.json").read_text())
    assert not summary["completed"] and summary["items"] > 0, "it ended cleanly, and can be resumed"


def test_an_interrupt_ends_a_job_cleanly(cli: Cli) -> None:
    program = start(cli, IS_INTERRUPTED)
    epochs = cli.directory / "out" / "epochs.csv"
    await_that(lambda: epochs.exists() and epochs.stat().st_size > 100, 120, lambda: "nothing was committed")
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=120)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    cli.await_no_process(1.0)
    events = [event.get("phase") for event in read_events(cli.directory / "out")]
    assert "CANCELLED" in events


def test_a_class_of_a_script_is_refused_by_the_command_line(cli: Cli) -> None:
    script = start(cli, 'compose(1).save("saved.yaml")\n')
    assert script.communicate(timeout=120)[1] == ""
    for command in ("run", "submit"):  # a cluster has other hosts
        ended = cli.run(command, "saved.yaml")
        assert ended.returncode == 2
        assert "operator '__main__:Own': the class of a notebook or script" in ended.stderr
        assert "%%writefile" in ended.stderr
    assert not (cli.directory / "runs").exists()
