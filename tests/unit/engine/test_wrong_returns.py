"""What a method returns wrongly ends the task that called it, by the method's name and its line, before it is sent."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from dataflow_parts import DataflowPort, chain, layout_of
from fake_port import items
from task_parts import HYBRID, NONE, Doubling, Listing, SinkBench, give, piece, processor_task

from riprap.codec.errors import RiprapError
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.progress import TaskProgress
from riprap.engine.schemes.parts.recorder import Recorder
from riprap.engine.worker.worker import Worker, _describe
from riprap.operators.adapters.stages import ITEMS, LINEAR
from riprap.operators.base import Sink
from riprap.operators.dataflow import Items
from riprap.operators.returns import WrongReturn
from riprap.operators.states.base import Backup, State

HERE = re.escape(str(Path(__file__)))


class Wrong:
    """Each method returns `found`."""

    found: Any = None


class WrongResult(Wrong, Doubling):
    def process_data(self, items: np.ndarray) -> Any:
        return self.found


class WrongLinear(Wrong, Doubling):
    def process_linear(self, items: np.ndarray) -> Any:
        return self.found


class WrongRest(WrongLinear):
    def process_linear(self, items: np.ndarray) -> Any:
        return items

    def process_nonlinear(self, linear: np.ndarray, items: Any) -> Any:
        return self.found


@pytest.mark.parametrize("found", [None, np.zeros(3), 2.0, [1.0], [np.zeros(2, "f2")], [np.zeros((1,) * 5)]])
@pytest.mark.parametrize(
    ("kind", "method", "scheme"),
    [
        (WrongResult, "process_data", NONE),
        (WrongLinear, "process_linear", HYBRID),
        (WrongRest, "process_nonlinear", HYBRID),
    ],
)
def test_a_processors_result(kind: type[Any], method: str, scheme: dict[str, Any], found: Any) -> None:

    def make() -> Any:
        operator = kind()
        operator.found = found
        return operator

    task, port = processor_task(options=scheme, make=make)  # type: ignore[arg-type]
    with pytest.raises(WrongReturn, match=rf"^{kind.__name__}\.{method} returned .*; expected .* \({HERE}:\d+\)\n"):
        give(task, piece(1, 1))
    assert not port.sent_on(task.layout.result)


class WrongCommit(Wrong, Listing):
    def commit(self, epoch: int) -> Any:
        return self.found


class WrongOutputs(Wrong, Listing):
    def outputs(self) -> Any:
        return [1.0]


class WrongSnapshot(Wrong, Listing):
    def snapshot(self) -> Any:
        return {"seen": self.seen}


class WrongModel(Wrong, Listing):
    def model(self) -> Any:
        return self.found


class WrongMetrics(Wrong, Listing):
    def metrics(self) -> Any:
        return {"loss": self.found}


class WrongRecompute(Wrong, Listing):
    def recompute(self, items: np.ndarray) -> Any:
        return self.found

    def recompute_linear(self, linear: np.ndarray) -> Any:
        return self.found


class Widening(Listing):
    def outputs(self) -> Any:
        return np.zeros((1, len(self.seen)))


def bench_of(kind: type[Sink], scheme: dict[str, Any] = NONE) -> SinkBench:
    bench = SinkBench(scheme, operator=kind())
    bench.begin()
    return bench


@pytest.mark.parametrize(
    ("kind", "method"), [(WrongCommit, "commit"), (WrongOutputs, "outputs"), (WrongSnapshot, "snapshot")]
)
def test_what_a_sink_commits_puts_out_and_saves(kind: type[Sink], method: str) -> None:
    bench = bench_of(kind)
    with pytest.raises(WrongReturn, match=rf"^{kind.__name__}\.{method} returned .*; expected .* \({HERE}:\d+\)\n"):
        bench.window(1, 1, 5.0)


def test_rows_of_another_width_than_before() -> None:
    bench = bench_of(Widening)
    with pytest.raises(WrongReturn, match=r"^Widening.outputs returned .* \(1, 2\); expected 1 columns, as before"):
        for window in (1, 2):
            bench.window(window, window, 5.0)


def test_what_is_asked_of_a_sink() -> None:
    with pytest.raises(WrongReturn, match=r"^WrongModel.model returned None"):
        bench_of(WrongModel).task.model()
    with pytest.raises(WrongReturn, match=r"^WrongMetrics.metrics returned None as 'loss'"):
        bench_of(WrongMetrics).task.metrics()


@pytest.mark.parametrize(("form", "method"), [(ITEMS, "recompute"), (LINEAR, "recompute_linear")])
def test_what_a_sink_recomputes(form: int, method: str) -> None:
    stage = bench_of(WrongRecompute).task.operator
    decoded = Items(1, "processor", 0, 2, (items(2), np.array([[0, form, 1]])))
    with pytest.raises(WrongReturn, match=rf"^WrongRecompute.{method} returned None; expected a list of arrays"):
        stage.process_data(decoded, 0, Outlet.__new__(Outlet))


@pytest.mark.parametrize("call", ["send", "feed_back"])
def test_what_an_operator_sends(call: str) -> None:
    layout = layout_of(chain(("a", 1), ("b", 1)), "a.0")
    outlet = Outlet(layout, DataflowPort(layout), TaskProgress(), Path("/nonexistent"))
    with pytest.raises(WrongReturn, match=rf"^out.{call} was given an array of float64 .*\({HERE}:\d+\)\n"):
        getattr(outlet, call)(np.zeros(3), 3)


class WrongBackup(State):
    def state_divergence(self) -> float:
        return 0.0

    def backup_state(self) -> Any:
        return [np.zeros(3)]


def test_what_a_state_saves() -> None:
    port = DataflowPort(layout_of(chain(("a", 1), ("b", 1)), "a.0"))
    with pytest.raises(WrongReturn, match=r"^WrongBackup.backup_all returned a list of 1; expected a Backup"):
        Recorder(port, TaskProgress(), WrongBackup()).save_state([])
    assert not port.saved


class PartialBackups(State):
    def state_divergence(self) -> float:
        return 0.0

    def backup_state(self) -> Backup:
        return Backup(False, (np.zeros(3),))


def test_what_a_state_saves_as_all_of_it() -> None:
    """Taken for that, changes would be what a savepoint holds, or what a next incarnation begins with."""
    port = DataflowPort(layout_of(chain(("a", 1), ("b", 1)), "a.0"))
    with pytest.raises(WrongReturn, match=r"^PartialBackups.backup_all returned .*; expected Backup\(True, \.\.\.\)"):
        Recorder(port, TaskProgress(), PartialBackups()).save_state([])
    assert not port.saved


def test_metrics_that_a_heartbeat_cannot_get_are_asked_for_by_the_thread_that_changes_them() -> None:
    """An error there is the job's; one that was due to the moment is nobody's."""
    found: list[Exception] = [RuntimeError("dictionary changed size during iteration")]

    def progress() -> dict[str, Any]:
        if found:
            raise found.pop()
        return {}

    woken: list[bool] = []
    network = SimpleNamespace(wake=lambda: woken.append(True))
    worker: Any = SimpleNamespace(turns=9, heartbeats=0, _beaten=(0, 0.0), _calm_s=0, _doubtful=False, network=network)
    worker._beat = partial(Worker._beat, worker)
    worker._watch_call, worker.progress = lambda turns, now: None, progress
    assert Worker.heartbeat(worker) is None and woken and worker._doubtful
    Worker._ask_again(worker)
    assert not worker._doubtful
    worker.turns, found[:] = 20, [WrongReturn("A.metrics", "None", "numbers", "a.py:1"), RuntimeError("at first")]
    assert Worker.heartbeat(worker) is None
    with pytest.raises(RiprapError, match=r"A\.metrics returned None"):
        Worker._ask_again(worker)


class Half(Sink):
    """It lacks what a sink must have."""


def test_a_method_that_is_missing_is_named_by_its_class() -> None:
    line = inspect.getsourcelines(Half)[1]
    with pytest.raises(NotImplementedError) as raised:
        Half().commit(1)
    assert _describe(raised.value) == f"Half.commit is not defined ({Path(__file__)}:{line})"


def test_an_error_of_a_library_is_said_with_the_users_line() -> None:
    with pytest.raises(np.linalg.LinAlgError) as raised:
        np.linalg.inv(np.zeros((2, 2)))
    assert f"{Path(__file__)}:" in _describe(raised.value) and "np.linalg.inv(" in _describe(raised.value)
