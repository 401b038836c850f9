"""Promises of links, window by window, become a task's event time, whatever comes first."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest
from dataflow_parts import DataflowPort, chain, layout_of, no_files
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.errors import JobFailed
from riprap.engine.flow.event_time import EventTimes, joined
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.progress import TaskProgress
from riprap.engine.run.cautions import stands
from riprap.engine.run_directory.directory import EVENTS
from riprap.operators.returns import FOREVER

A, B = (0, 0), (0, 1)


def told(*promises: tuple[tuple[int, int], int, dict[str, object]]) -> EventTimes:
    times = EventTimes()
    for link, epoch, meta in promises:
        times.note(link, epoch, meta)
    return times


def test_the_least_promise_counts_and_a_link_that_never_promised_holds_it_up() -> None:
    times = told((A, 1, {"time": 5}), (B, 1, {}), (A, 2, {"time": 9}), (B, 2, {"time": 7}))
    times.close(1, [A, B], False)
    assert times.now is None and times.told() == {}
    times.close(2, [A, B], False)
    assert times.now == 7 and times.told() == {"time": 7}


def test_idle_links_are_not_waited_for_and_time_stands_where_all_are() -> None:
    times = told((A, 1, {"time": 5}), (B, 1, {"time": 3, "idle": True}), (A, 2, {"idle": True}), (B, 2, {"idle": True}))
    times.close(1, [A, B], False)
    assert (times.now, times.idle) == (5, False)
    times.close(2, [A, B], False)
    assert (times.now, times.idle) == (5, True) and times.told() == {"time": 5, "idle": True}


def test_time_does_not_go_back_when_an_idle_link_speaks_again() -> None:
    times = told((A, 1, {"time": 5}), (B, 1, {"idle": True}), (A, 2, {"time": 6}), (B, 2, {"time": 1}))
    for epoch in (1, 2):
        times.close(epoch, [A, B], False)
    assert times.now == 5


def test_behind_the_last_window_nothing_comes() -> None:
    times = told((A, 1, {}))
    times.close(1, [A], True)
    assert times.now == FOREVER


def test_a_link_that_runs_ahead_does_not_count_before_its_window_is_closed() -> None:
    order = [(A, 1, {"time": 1}), (A, 2, {"time": 20}), (B, 1, {"time": 10}), (B, 2, {"time": 20})]
    for mixed in permutations(order):
        if any(mixed.index(order[i]) > mixed.index(order[i + 1]) for i in (0, 2)):
            continue
        times = told(*mixed)
        times.close(1, [A, B], False)
        assert times.now == 1
        times = EventTimes.unpack(times.pack())
        times.close(2, [A, B], False)
        assert times.now == 20 and all(len(promises) == 1 for promises in times.links.values())


@given(st.lists(st.tuples(st.integers(-9, 9), st.booleans()), min_size=1, max_size=9), st.integers(0, 8))
def test_a_restored_task_finds_the_same(spoken: list[tuple[int, bool]], cut: int) -> None:
    def play(restart: int | None) -> list[int | None]:
        times, found = EventTimes(), []
        for epoch, (at, idle) in enumerate(spoken, 1):
            times.note(A, epoch, {"time": at} | ({"idle": True} if idle else {}))
            if restart == epoch:
                times = EventTimes.unpack(times.pack())
            times.close(epoch, [A], False)
            found.append(times.now)
        return found

    assert play(None) == play(cut)


def test_a_source_promises_for_itself_and_is_idle_only_in_a_window_without_a_promise() -> None:
    times = EventTimes()
    times.quiet = True
    assert times.told() == {"idle": True}
    times.promise(4)
    times.quiet = True
    assert times.told() == {"time": 4}
    times.quiet = True
    assert times.told() == {"time": 4, "idle": True}
    times.close(3, [], False)
    assert times.now == 4


def test_an_old_record_knows_no_times() -> None:
    packed = TaskProgress().pack()
    del packed["times"]
    assert TaskProgress.unpack(packed).times == EventTimes()


def test_who_takes_over_from_several_tasks_knows_what_all_of_them_knew() -> None:
    one, two = EventTimes(now=5, promised=9), EventTimes(now=7, promised=8)
    one.note(A, 3, {"time": 6})
    merged = joined([one, two], {B: A})
    assert (merged.now, merged.promised, list(merged.links)) == (5, 8, [B])
    assert joined([one, EventTimes()], {}).now is None


def outlet() -> tuple[Outlet, DataflowPort]:
    layout = layout_of(chain(("a", 1), ("b", 2)), "a.0")
    port = DataflowPort(layout)
    return Outlet(layout, port, TaskProgress(), no_files()), port


def test_it_is_noted_for_whom_event_time_waits() -> None:
    times = EventTimes()
    for epoch in range(1, 9):
        times.note(A, epoch, {"time": epoch})
        times.note(B, epoch, {"time": 3} if epoch < 8 else {"time": 5})
        times.close(epoch, [A, B], False)
        assert times.stood == (0, 0, 0, 1, 2, 3, 4, 0)[epoch - 1]
        assert times.stood == 0 or times.held_by == B
    silent = EventTimes()
    for epoch in range(1, 9):
        silent.note(A, epoch, {})
        silent.close(epoch, [A], False)
    assert silent.stood == 0, "nobody speaks of event time"


def test_a_run_ends_with_a_caution_that_names_who_held_event_time_up(tmp_path: Path) -> None:
    event = {"event": "event_time_stands", "windows": 100, "waits_for": "read.1", "at": 7}
    log = [event | {"worker": "sums.0"}, {"event": "other"}, event | {"worker": "sums.1"}]
    (tmp_path / EVENTS).write_text("".join(json.dumps(one) + "\n" for one in log))
    (said,) = stands(tmp_path)
    assert "read.1" in said and "100 windows" in said and "out.idle()" in said


class Leaves:
    """A scheme that holds nothing back."""

    waiting_max = 9

    def on_emit(self, link: object, block: object) -> None:
        """Nothing."""

    def may_leave(self, link: object, block: object) -> bool:
        return True


def test_punctuation_carries_the_operators_promise_to_all() -> None:
    out, _ = outlet()
    out.scheme = Leaves()
    out.watermark(12)
    out.punctuate(0, 0.0, False)
    assert [link.waiting[-1].meta["time"] for link in out.links.values()] == [12, 12]
    assert out.promised == 12


@pytest.mark.parametrize("wrong", [11, 1.5, None, True, 2**63])
def test_a_promise_is_a_whole_number_that_is_not_taken_back(wrong: object) -> None:
    out, _ = outlet()
    out.watermark(12)
    with pytest.raises(JobFailed, match="watermark"):
        out.watermark(wrong)  # type: ignore[arg-type]
    assert out.promised == 12
