"""The join of panes by key and time beside loops of plain Python, with tasks that die and stages of other sizes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from riprap.codec.errors import ConfigError, DataError
from riprap.codec.key_groups import GROUPS
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.joins.interval_join import IntervalJoin, WaitingRows
from riprap.operators.panes.rows import RETRACTION
from riprap.operators.states.base import Backup
from tests.unit.operators.dataflow_harness import Outbox, Task

WITHIN, BELOW = 20, 5.0
CONTEXT = Context(upstream={"causes": 1, "effects": 1}, downstream={"recent": 1})


class Pane(NamedTuple):
    key: int
    start: int
    end: int
    value: float


def join(theta: float = np.inf) -> Task:
    return Task(lambda: IntervalJoin(causes="causes", within=WITHIN, below=BELOW), CONTEXT, theta)


def block(epoch: int, stage: str, panes: list[Pane]) -> Items:
    keys, starts, ends, values = zip(*panes, strict=True)
    whole = [np.array(column, np.int64) for column in (keys, starts, ends)]
    return Items(epoch, stage, 0, len(panes), (*whole, np.array(values, float), np.ones(len(panes), np.int8)))


def sent(task: Task) -> list[tuple[int, int, float]]:
    """(key, end, least value) of the causes that were put out since the last time."""
    found, task.out.sent = task.out.sent, []
    return [row for arrays, *_ in found for row in zip(*(array.tolist() for array in arrays), strict=True)]


def streams(seed: int) -> list[tuple[int, list[Pane], list[Pane]]]:
    """By window, the event time at its end and the panes that came in it; each has ended by then."""
    rng, found = np.random.default_rng(seed), []
    for now in range(10, 110, 10):
        causes = [Pane(int(rng.integers(4)), end - int(rng.integers(1, 15)), end, 1.0) for end in _ends(rng, now)]
        effects = [Pane(int(rng.integers(4)), end - 5, end, float(rng.integers(10))) for end in _ends(rng, now)]
        found.append((now, list(dict.fromkeys(causes)), effects))
    return found


def _ends(rng: np.random.Generator, now: int) -> list[int]:
    return (now - rng.integers(0, 10, rng.integers(0, 4))).tolist()


def expected(windows: list[tuple[int, list[Pane], list[Pane]]]) -> list[list[tuple[int, int, float]]]:
    """By window, what each cause that has its first partner then finds among all effects so far."""
    waiting: list[Pane] = []
    effects: list[Pane] = []
    found = []
    for _, causes, others in windows:
        waiting, effects = waiting + causes, effects + others
        rows = []
        for cause in sorted(waiting, key=lambda pane: (pane.key, pane.end, pane.start)):
            near = [
                pane.value
                for pane in effects
                if pane.key == cause.key and 0 < pane.end - cause.start <= WITHIN and pane.value < BELOW
            ]
            if near:
                waiting.remove(cause)
                rows.append((cause.key, cause.end, min(near)))
        found.append(rows)
    return found


@pytest.mark.parametrize("theta", [np.inf, 0.0])
@pytest.mark.parametrize("seed", range(20))
def test_causes_find_the_least_value_that_ends_soon_after(seed: int, theta: float) -> None:
    task, windows = join(theta), streams(seed)
    for epoch, ((now, causes, effects), rows) in enumerate(zip(windows, expected(windows), strict=True), 1):
        parts = [("causes", causes), ("effects", effects)]
        for stage, panes in parts if seed % 2 else parts[::-1]:
            if panes:
                task.process(block(epoch, stage, panes))
        if theta == 0:
            task.fail()
        task.out.event_time = now
        task.operator.process_punctuation(epoch, task.out)
        task.back_up()
        assert sent(task) == rows and task.out.promised == now - WITHIN
    assert task.operator.metrics()["matched"] == sum(map(len, expected(windows)))


def test_there_are_matches_to_be_found_and_to_be_missed() -> None:
    windows = [window for seed in range(20) for window in streams(seed)]
    matched = sum(len(rows) for seed in range(20) for rows in expected(streams(seed)))
    assert 50 < matched < sum(len(causes) for _, causes, _ in windows) - 50


def test_a_value_below_all_others_is_one_too() -> None:
    task = join()
    for stage, value in (("causes", 1.0), ("effects", -np.inf)):
        task.process(block(1, stage, [Pane(1, 0, 5, value)]))
    task.operator.process_punctuation(1, task.out)
    assert sent(task) == [(1, 5, -np.inf)]


def test_what_can_have_no_partner_any_more_is_forgotten() -> None:
    task = join()
    state = task.operator.state
    assert isinstance(state, WaitingRows)
    task.process(block(1, "causes", [Pane(1, 0, 5, 1.0)]))
    task.process(block(1, "effects", [Pane(2, 0, 5, 1.0), Pane(2, 0, 5, BELOW)]))
    task.process(block(2, "effects", [Pane(1, 3, 8, 1.0)]))
    for epoch, now, rows in ((1, None, 3), (2, 24, 2), (3, 25, 1), (4, 28, 0)):
        task.out.event_time = now
        task.operator.process_punctuation(epoch, task.out)
        assert len(state.values) == rows, "a row of a later window, and one of an effect that was not below"
        assert sent(task) == ([(1, 5, 1.0)] if epoch == 2 else [])


def test_tasks_of_another_number_go_on_with_all_rows() -> None:
    panes = [Pane(key, 0, 5, 1.0) for key in range(50)]
    tasks = [join(), join()]
    for task, some in zip(tasks, (panes[:20], panes[20:]), strict=True):
        task.process(block(1, "causes", some))
    backups = [task.operator.state.backup_all() for task in tasks if task.operator.state is not None]
    rows = 0
    for groups in (range(GROUPS // 3), range(GROUPS // 3, GROUPS)):
        state = WaitingRows()
        state.recover_groups(backups, groups)
        rows += len(state.values)
        assert 0 < len(state.values) < 50
    assert rows == 50


@pytest.mark.parametrize(
    "arrays",
    [
        (),
        (np.zeros(1), np.zeros((0, 5), np.int64), np.zeros(0)),
        (np.zeros(1, np.int64), np.zeros((2, 5), np.int64), np.zeros(1)),
        (np.zeros(2, np.int64), np.zeros((0, 5), np.int64), np.zeros(0)),
    ],
)
def test_other_backups_are_refused(arrays: tuple[np.ndarray, ...]) -> None:
    with pytest.raises(ValueError, match="backup"):
        WaitingRows().recover_state(Backup(True, arrays))


def test_two_streams_of_panes_are_needed() -> None:
    for upstream in ({"causes": 1}, {"a": 1, "b": 1}, {"causes": 1, "a": 1, "b": 1}):
        with pytest.raises(ConfigError, match="name one of them as causes"):
            IntervalJoin(causes="causes", within=1).open(Context(upstream=upstream))
    *columns, kinds = block(1, "causes", [Pane(1, 0, 5, 1.0)]).arrays
    with pytest.raises(DataError, match="takes another one back"):
        join().operator.process_data(Items(1, "causes", 0, 1, (*columns, kinds * RETRACTION)), 0, Outbox())
    with pytest.raises(DataError, match="no panes"):
        join().operator.process_data(Items(1, "causes", 0, 1, (np.zeros(1, np.int64),)), 0, Outbox())
    for within in (0, 2**61):
        with pytest.raises(ConfigError):
            IntervalJoin(causes="causes", within=within)
