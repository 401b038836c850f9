"""The compute threads of a worker: order, errors, ends and bounds, with threads that finish in any order (AF 3.2)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from dataflow_parts import DataflowPort, chain, data, entry, layout_of, no_files

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import JobFailed
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.pace import Pace
from riprap.engine.flow.progress import INPUT, TaskProgress
from riprap.engine.flow.reader import Reader
from riprap.engine.flow.scheme import Bench, Scheme
from riprap.engine.flow.task import Task
from riprap.engine.flow.threads import ComputeThreads
from riprap.engine.worker.worker import pin
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.states import Vector

LIMIT_S = 120.0
"""No wait of these tests takes so long."""
BLOCK_ITEMS = 4


class Doubler(DataflowOperator):
    """Doubles numbers in `prepare`, where `act` is called with the first of them; keeps what it processes."""

    def __init__(self, act: Callable[[int], object] = lambda number: None) -> None:
        self.act = act
        self.prepared: list[int] = []
        self.seen: list[tuple[int, list[int]]] = []

    def prepare(self, items: Items) -> Items:
        number = int(items.arrays[0][0])
        self.act(number)
        self.prepared.append(number)
        return items._replace(arrays=(2 * items.arrays[0],))

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.seen.append((first, items.arrays[0].tolist()))
        return items.count


class Numbers:
    """An input whose items are their own numbers."""

    item_bytes = 1.0

    def __init__(self, items: int) -> None:
        self.items = items

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        return (np.arange(start, stop),)


@pytest.fixture
def opened() -> Iterator[Callable[..., ComputeThreads]]:
    """Makes compute threads that end with the test."""
    made = []

    def make(operator: DataflowOperator, threads: int) -> ComputeThreads:
        made.append(ComputeThreads(operator, threads))
        return made[-1]

    yield make
    for threads in made:
        threads.close()
    assert not helpers()


def helpers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("prepare")]


def blocks(count: int) -> list[Block]:
    return [data(i + 1, arrays=(np.array([i]),)) for i in range(count)]


def source(operator: DataflowOperator, threads: ComputeThreads, items: int = 40, windows: int = 2) -> Task:
    """A source in front of one task, whose links are wide open."""
    layout = layout_of(chain(("a", 1), ("b", 1)), "a.0")
    port = DataflowPort(layout, 1000)
    outlet = Outlet(layout, port, TaskProgress(), no_files())
    for link in outlet.links.values():
        link.placed = True
    reader = Reader(Numbers(items), windows, BLOCK_ITEMS, 0)
    task = Task(layout, port, operator, outlet, Pace({}), reader, None, True, threads)
    task.use(Scheme(Bench(layout, port, operator, outlet.progress, outlet, task.inbox, items), {}))
    task.start()
    return task


def test_blocks_keep_their_order_when_the_last_is_ready_first(opened: Callable[..., ComputeThreads]) -> None:
    ready = [threading.Event() for _ in range(5)]
    ready[4].set()

    def wait_for_the_next(number: int) -> None:
        assert ready[number + 1].wait(LIMIT_S)
        ready[number].set()

    operator = Doubler(wait_for_the_next)
    threads = opened(operator, 5)
    entries = [entry(i + 1, block) for i, block in enumerate(blocks(4))]
    threads.begin(entries)
    assert [threads.items(one).arrays[0][0] for one in entries] == [0, 2, 4, 6]
    assert operator.prepared == [3, 2, 1, 0]


def test_the_owner_of_the_state_prepares_what_no_helper_has_begun(opened: Callable[..., ComputeThreads]) -> None:
    other_is_ready, where = threading.Event(), {}

    def act(number: int) -> None:
        where[number] = threading.current_thread()
        if where[number] is not threading.main_thread():
            assert other_is_ready.wait(LIMIT_S)
        other_is_ready.set()

    operator = Doubler(act)
    threads = opened(operator, 2)
    entries = [entry(i + 1, block) for i, block in enumerate(blocks(2))]
    threads.begin(entries)
    assert [threads.items(one).arrays[0][0] for one in entries] == [0, 2]
    assert threading.main_thread() in where.values(), "one helper alone would wait for ever"


@pytest.mark.parametrize("count", [1, 3])
def test_each_block_is_prepared_once_however_often_it_is_asked_for(
    opened: Callable[..., ComputeThreads], count: int
) -> None:
    operator = Doubler()
    threads = opened(operator, count)
    (one,) = [entry(1, block) for block in blocks(1)]
    for _ in range(3):
        threads.begin([one])
        assert threads.items(one) is threads.items(one)
    assert operator.prepared == [0]


def test_one_thread_is_no_helper() -> None:
    names = []
    operator = Doubler(lambda number: names.append(threading.current_thread()))
    threads = ComputeThreads(operator)
    entries = [entry(i + 1, block) for i, block in enumerate(blocks(3))]
    threads.begin(entries)
    assert operator.prepared == [] and threads.ahead == 0
    assert threads.items(entries[0]).arrays[0].tolist() == [0] and names == [threading.current_thread()]


def test_an_operator_that_prepares_nothing_has_no_helpers() -> None:
    threads = ComputeThreads(DataflowOperator(), 8)
    one = entry(1, blocks(1)[0])
    threads.begin([one])
    assert threads.ahead == 0 and threads.items(one) == one.items and one.work is None and not helpers()


def test_what_is_no_data_is_not_prepared(opened: Callable[..., ComputeThreads]) -> None:
    operator = Doubler()
    threads = opened(operator, 2)
    end = entry(1, Block(Kind.PUNCTUATION, arrays=(), epoch=1))
    threads.begin([end])
    assert end.work is None


@pytest.mark.parametrize("count", [1, 4])
def test_an_error_comes_in_its_blocks_turn_and_names_the_users_line(
    opened: Callable[..., ComputeThreads], count: int
) -> None:
    def act(number: int) -> None:
        if number == 2 * BLOCK_ITEMS:
            raise ArithmeticError("that block")

    operator = Doubler(act)
    task = source(operator, opened(operator, count))
    with pytest.raises(ArithmeticError, match="that block") as caught:
        for _ in range(3):
            assert task.work()
    assert caught.traceback[-1].name == "act"
    assert [numbers[0] for _, numbers in operator.seen] == [0, 2 * BLOCK_ITEMS], "the two blocks before it"
    assert task.progress.done[INPUT].at.number == 2 * BLOCK_ITEMS


@pytest.mark.parametrize("count", [1, 2])
def test_only_the_arrays_may_be_replaced(opened: Callable[..., ComputeThreads], count: int) -> None:
    class Halver(Doubler):
        def prepare(self, items: Items) -> Items:
            return items._replace(count=items.count // 2)

    operator = Halver()
    with pytest.raises(JobFailed, match=r"Halver.prepare returned .* 2\); expected .* 4\)"):
        source(operator, opened(operator, count)).work()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_reading_ahead_is_bounded_and_no_progress(opened: Callable[..., ComputeThreads], count: int) -> None:
    operator = Doubler()
    threads = opened(operator, count)
    task = source(operator, threads)
    farthest = 0
    while task.work():
        done, reader = task.progress.done[INPUT].at.number, task.reader
        assert reader is not None
        read_ahead = reader.position + (reader.epoch - 1) - done
        farthest = max(farthest, read_ahead)
        assert not task.inbox
        blocks_done = len(operator.seen) + task.epoch
        assert task.progress.received == task.progress.included == blocks_done
        assert len(operator.prepared) <= len(operator.seen) + threads.ahead
    assert farthest <= threads.ahead * BLOCK_ITEMS and bool(farthest) == (count > 1)
    assert [number // 2 for _, numbers in operator.seen for number in numbers] == list(range(40))
    assert task.epoch == 2


def test_prepared_blocks_are_not_kept(opened: Callable[..., ComputeThreads]) -> None:
    operator = Doubler()
    task = source(operator, opened(operator, 3))
    kept = []
    task.scheme.on_processed = kept.append  # type: ignore[method-assign]
    while task.work():
        pass
    assert len(kept) == 12 and all(one.work is one.prepared is None for one in kept)


def test_no_window_is_read_ahead_that_the_feedback_does_not_allow(opened: Callable[..., ComputeThreads]) -> None:
    operator = Doubler()
    task = source(operator, opened(operator, 4))
    task.pace = Pace({(7, 0): 0.0})
    while task.work():
        pass
    assert task.reader is not None and task.reader.epoch == 2 and task.reader.position == 20
    task.progress.feedback[7, 0] = 1
    while task.work():
        pass
    assert task.reader.finished and task.epoch == 2


def test_blocks_that_wait_at_a_task_are_prepared_and_processed_in_parts(
    opened: Callable[..., ComputeThreads],
) -> None:
    class Sum(Doubler):
        def __init__(self) -> None:
            super().__init__()
            self.state = Vector(1)

        def process_data(self, items: Items, first: int, out: Emitter) -> int:
            super().process_data(items, first, out)
            self.state.theta = 1.0
            return first + self.state.add(
                np.zeros(items.count - first, np.int64), items.arrays[0][first:].astype(float)
            )

    operator = Sum()
    layout = layout_of(chain(("a", 1), ("b", 1)), "b.0")
    port = DataflowPort(layout)
    outlet = Outlet(layout, port, TaskProgress(), no_files())
    task = Task(layout, port, operator, outlet, Pace({}), None, None, True, opened(operator, 3))
    task.use(Scheme(Bench(layout, port, operator, outlet.progress, outlet, task.inbox, 9), {}))
    task.scheme.on_crossed = operator.state.backup_state  # type: ignore[method-assign]
    (joint,) = layout.inputs
    for number in range(3):
        task.on_block(joint.edge, joint.workers[0], data(number + 1, 3 * number, 3, cause=(0, 0, number + 1, 0)))
    while task.work():
        pass
    assert operator.state.values.tolist() == [18.0]
    assert operator.prepared == [0, 0, 0] and len(operator.seen) > 3, "parts of a block are prepared together"


@pytest.mark.parametrize(
    ("cpus", "index", "threads", "wanted"),
    [([0, 1, 2], 4, 1, {1}), ([4, 5, 6, 7], 1, 2, {6, 7}), ([4, 5, 6, 7], 1, 3, {7, 4, 5}), ([5, 99], 0, 2, {5})],
)
def test_a_task_is_pinned_to_as_many_cpus_as_it_has_threads(
    monkeypatch: pytest.MonkeyPatch, cpus: list[int], index: int, threads: int, wanted: set[int]
) -> None:
    pinned: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, to: pinned.append(to))
    pin(cpus, index, threads)
    assert pinned == [wanted]


def test_helpers_run_on_the_cpus_of_the_worker() -> None:
    """A pinned task has as many CPUs as compute threads; threads inherit them, as they are started later."""
    found: dict[str, set[int]] = {}

    def pinned() -> None:
        affinity = min(os.sched_getaffinity(0))
        pin([affinity, 4095], 1, 2)  # of a process; here of this thread alone
        operator = Doubler(lambda number: found.update(cpus=os.sched_getaffinity(0)))
        threads = ComputeThreads(operator, 2)
        one = entry(1, blocks(1)[0])
        threads.begin([one])
        assert one.work is not None
        one.work.result(LIMIT_S)
        threads.close()
        found["wanted"] = {affinity}

    with ThreadPoolExecutor(1) as apart:
        apart.submit(pinned).result()
    assert found["cpus"] == found["wanted"]


@pytest.mark.parametrize("returned", [None, -1, BLOCK_ITEMS + 1, 2.0])
def test_an_operator_that_says_wrongly_how_far_it_came_fails_the_job(
    opened: Callable[..., ComputeThreads], returned: object
) -> None:
    class Lost(Doubler):
        def process_data(self, items: Items, first: int, out: Emitter) -> int:
            return returned  # type: ignore[return-value]

    operator = Lost()
    task = source(operator, opened(operator, 1))
    with pytest.raises(
        JobFailed, match=rf"Lost.process_data returned {returned}.*; expected .* from 0 to {BLOCK_ITEMS}"
    ):
        while task.work():
            pass
    assert task.items == 0
