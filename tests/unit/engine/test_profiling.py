"""What is wrapped to be timed does what it did, and leaves a span."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_port import items, processor, sink
from task_parts import (
    ERASURE,
    Doubling,
    SinkBench,
    emit,
    feed,
    give,
    piece,
    pieces,
    processor_task,
    results,
    source_task,
)
from test_dataflow_threads import Doubler
from test_dataflow_threads import source as dataflow_source
from test_trace import kinds_in, spans_in

from riprap.codec.blocks import Kind
from riprap.codec.ids import WorkerId
from riprap.engine.flow.threads import ComputeThreads
from riprap.engine.wire.network import Network
from riprap.engine.wire.trace import Trace
from riprap.engine.worker.persistence import NoStore
from riprap.engine.worker.profile_folder import PROFILE
from riprap.engine.worker.profiling import TracedNetwork, instrument
from riprap.operators.base import Sink

Traced = Callable[[Any, Any], Path]


@pytest.fixture
def traced(tmp_path: Path) -> Traced:
    """Instruments a task before a port; the file of its compute thread."""

    def instrumented(task: Any, port: Any) -> Path:
        network = Network(1 << 20)
        port.network, port.store, port.lender = network, NoStore(), SimpleNamespace(copy=np.array)
        me = task.layout.me
        instrument(SimpleNamespace(run_dir=tmp_path, me=me, incarnation=1, network=network, port=port, task=task))  # type: ignore[arg-type]
        return tmp_path / PROFILE / f"{me}#1" / "compute.spans"

    return instrumented


def emitted(task: Any, port: Any) -> list[tuple[WorkerId, Any, list[list[float]]]]:
    sent = port.sent_on(task.segment.layout.data)
    return [(to, block.key, block.arrays[0].tolist()) for to, block in sent]


def test_a_source_emits_the_same_and_its_reading_and_coding_are_seen(traced: Traced) -> None:
    (task, port), (plain, plain_port) = source_task(ERASURE, window=9), source_task(ERASURE, window=9)
    path = traced(task, port)
    for one in (task, plain):
        one.start()
        emit(one)
    assert emitted(task, port) == emitted(plain, plain_port) != []
    seen = Counter(kinds_in(path))
    assert seen["copy"] == len(pieces(port, task)), "each piece is read by itself"
    assert seen["code"] == len(pieces(port, task, Kind.PARITY)) // ERASURE["r"]


def test_a_processors_results_are_the_same_and_its_work_is_of_its_epoch(traced: Traced) -> None:
    task, port = processor_task()
    path = traced(task, port)
    for block in (piece(1, 1), piece(2, 2), piece(2, 3)):
        give(task, block)
    feed(task, 1, 10.0, whole=1)
    assert results(port, task) == [(1, 0, 6.0), (2, 0, 60.0), (3, 0, 60.0)]
    assert [(kind, epoch) for _, _, kind, epoch in spans_in(path)] == [
        ("compute", 1), ("compute", 2), ("compute", 2), ("compute", 2),
    ], "a model and three pieces"  # fmt: skip


def test_an_operator_that_is_made_anew_is_timed_too(traced: Traced) -> None:
    task, port = processor_task()
    path = traced(task, port)
    feed(task, 3, 2.0)
    before = len(kinds_in(path))
    task.on_worker_failed(sink())
    feed(task, 0)
    give(task, piece(1, 1))
    assert results(port, task)[-1] == (1, 0, 6.0) and len(kinds_in(path)) == before + 1


def test_what_an_operator_raises_comes_through(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Doubling, items: np.ndarray) -> list[np.ndarray]:
        raise ZeroDivisionError("a user's mistake")

    monkeypatch.setattr(Doubling, "process_data", fail)
    task, port = processor_task()
    path = traced(task, port)
    with pytest.raises(ZeroDivisionError, match="a user's mistake") as raised:
        give(task, piece(1, 1))
    assert raised.traceback[-1].name == "fail", "the innermost line is still the user's"
    assert kinds_in(path) == ["compute"]


class Adding(Sink):
    """Adds results up."""

    total = 0.0

    def aggregate(self, result: Any) -> None:
        self.total += float(result[0][0])

    def commit(self, epoch: int) -> list[np.ndarray]:
        return [np.array([self.total])]

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"total": np.array([self.total])}

    def restore(self, snapshot: Any) -> None:
        self.total = float(snapshot["total"][0])


def test_a_sink_commits_the_same_and_its_work_is_seen(traced: Traced) -> None:
    operator = Adding()
    operator.processor = Doubling()
    bench = SinkBench(operator=operator)
    path = traced(bench.task, bench.port)
    bench.begin()
    bench.window(1, 1, 3.0, last=True)
    assert operator.total == 3.0 and operator.processor.factor == 3.0
    assert all(bench.models(processor(i))[-1] == (1, 3.0) for i in range(3))
    assert [(kind, epoch) for _, _, kind, epoch in spans_in(path)] == [
        ("compute", 1), ("compute", 1), ("compute", 1), ("copy", 1), ("copy", 1),
    ], "the result aggregated, the commit, the state to recompute with, the outputs and the backup"  # fmt: skip


def test_decoding_is_seen_in_each_life_of_the_encoder(traced: Traced) -> None:
    bench = SinkBench(ERASURE, processors=6)
    path = traced(bench.task, bench.port)
    for life in (1, 2):
        bench.begin(life=life)
        code = bench.decoder.half.pieces.code
        blocks = [items(2, first) for first in range(4)]
        parity = code.encode(blocks)
        decoded = code.decode({1: blocks[1], 2: blocks[2], 4: parity[0], 5: parity[1]})
        assert all(np.array_equal(a, b) for a, b in zip(decoded, blocks))
        assert kinds_in(path) == ["code", "code"] * life


@pytest.mark.parametrize("threads", [1, 3])
def test_each_thread_that_prepares_has_a_trace_of_its_own(traced: Traced, threads: int) -> None:
    operator = Doubler()
    compute = ComputeThreads(operator, threads)
    task = dataflow_source(operator, compute)
    path = traced(task, task.port)
    while task.work():
        pass
    task.close()
    assert [number for _, block in operator.seen for number in block] == [2 * number for number in range(40)]
    traces = {one.stem: Counter(kinds_in(one)) for one in path.parent.glob("*.spans")}
    helpers = {name: seen for name, seen in traces.items() if name.startswith("prepare")}
    assert len(helpers) <= threads - 1
    prepared = sum(seen["compute"] for seen in helpers.values())
    assert all(seen["wait"] == seen["compute"] - 1 for seen in helpers.values())
    punctuations, blocks = 2, 10
    assert traces["compute"]["compute"] + prepared == 2 * blocks + punctuations
    assert traces["compute"]["copy"] == blocks
    assert (path.parent / "unrecorded.json").exists()


def test_a_receive_that_finds_something_did_not_wait(tmp_path: Path) -> None:
    waiting: list[list[str]] = [["first"], [], ["second"], []]
    asked: list[float] = []

    class Inner:
        send = reply = None

        def receive(self, timeout_ms: float = 0.0) -> list[str]:
            asked.append(timeout_ms)
            return waiting.pop(0)

        def connect(self, endpoint: str) -> str:
            return f"to {endpoint}"

    network: Any = TracedNetwork(Inner(), Trace(tmp_path / "a.spans", 8))  # type: ignore[arg-type]
    assert network.receive(50.0) == ["first"]
    assert network.receive(50.0) == ["second"]
    assert network.receive(0.0) == []
    assert asked == [0.0, 0.0, 50.0, 0.0]
    assert kinds_in(tmp_path / "a.spans") == ["receive", "receive", "wait", "receive"]
    assert network.connect("there") == "to there"
