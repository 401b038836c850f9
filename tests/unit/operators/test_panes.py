"""Panes beside a dictionary: whatever comes in whichever order, early, late and too late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from dataflow_harness import Outbox
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.panes import rows
from riprap.operators.panes.panes import Panes
from riprap.operators.panes.rows import EARLY, LATE, ON_TIME, RETRACTION
from riprap.operators.panes.timed_lines import TimedLines
from riprap.operators.returns import FOREVER
from riprap.operators.states import pack_keys

REDUCE: dict[str, Any] = {"count": len, "sum": sum, "min": min, "max": max, "mean": lambda v: sum(v) / len(v)}
SHAPES = [
    {"panes": "fixed", "size": 10}, {"panes": "fixed", "size": 7, "offset": 3},
    {"panes": "sliding", "size": 10, "slide": 2}, {"panes": "sliding", "size": 9, "slide": 6, "offset": 1},
    {"panes": "sliding", "size": 3, "slide": 5}, {"panes": "sessions", "gap": 5},
]  # fmt: skip


class Row(NamedTuple):
    key: int
    start: int
    end: int
    value: float
    kind: int


class Item(NamedTuple):
    time: int
    key: int
    value: float


class Window(NamedTuple):
    """Items of a window, and the event time at its end."""

    items: list[Item]
    time: int | None


class Run:
    """An opened operator at a destination, whose rows are kept."""

    def __init__(self, blocks: int = 2, **options: Any) -> None:
        self.operator, self.blocks, self.epoch = Panes(**options), blocks, 0
        self.operator.open(Context())
        self.rows: list[Row] = []
        self.late: list[Item] = []

    def window(self, items: Sequence[Item], time: int | None) -> list[Row]:
        self.epoch += 1
        for part in np.array_split(np.arange(len(items)), self.blocks):
            self.give([items[i] for i in part], self.epoch)
        return self.close(time)

    def give(self, items: Sequence[Item], epoch: int, task: int = 0) -> None:
        times, keys, values = np.array(items, float).reshape(-1, 3).T
        arrays = (keys.astype(np.int64), times.astype(np.int64), values)
        assert self.operator.process_data(Items(epoch, "s", task, len(items), arrays), 0, Outbox()) == len(items)

    def close(self, time: int | None) -> list[Row]:
        out = Outbox(event_time=time)
        self.operator.process_punctuation(self.epoch, out)
        new: list[Row] = []
        for name, arrays in out.written:
            columns = list(zip(*(arrays[column].tolist() for column in arrays), strict=True))
            if name == "panes":
                new += [Row(*row) for row in columns]
            else:
                self.late += [Item(*item) for item in columns]
        self.rows += new
        return new


def panes_of(item: Item, shape: dict[str, Any]) -> Iterator[tuple[int, int]]:
    size, slide = shape["size"], shape.get("slide", shape["size"])
    offset = shape.get("offset", 0)
    start = (item.time - offset) // slide * slide + offset
    while start + size > item.time:
        yield start, start + size
        start -= slide


def sessions_of(times: Sequence[int], gap: int) -> Iterator[tuple[int, int]]:
    start = last = None
    for time in sorted(times):
        if start is None or time - last >= gap:
            if start is not None:
                yield start, last + gap
            start = time
        last = time
    if start is not None:
        yield start, last + gap


def truth(items: Sequence[Item], shape: dict[str, Any], aggregate: str) -> dict[tuple[int, int, int], float]:
    """By (key, start, end): the value of each pane of all items."""
    found: defaultdict[tuple[int, int, int], list[float]] = defaultdict(list)
    if shape["panes"] == "sessions":
        for key in {item.key for item in items}:
            own = [item for item in items if item.key == key]
            for start, end in sessions_of([item.time for item in own], shape["gap"]):
                found[key, start, end] = [item.value for item in own if start <= item.time < end]
    else:
        for item in items:
            for start, end in panes_of(item, shape):
                found[item.key, start, end].append(item.value)
    return {which: REDUCE[aggregate](values) for which, values in found.items()}


item = st.builds(Item, st.integers(-30, 30), st.integers(-2, 2), st.integers(-9, 9).map(float))
windows = st.lists(st.tuples(st.lists(item, max_size=12), st.none() | st.integers(-40, 40)), max_size=6)
shapes = st.sampled_from(SHAPES)


def rising(found: Sequence[tuple[list[Item], int | None]]) -> list[Window]:
    """Windows whose event times do not go back."""
    times: list[int | None] = []
    for _, time in found:
        known = [before for before in (*times, time) if before is not None]
        times.append(max(known, default=None))
    return [Window(items, time) for (items, _), time in zip(found, times, strict=True)]


def standing(rows: Sequence[Row]) -> dict[tuple[int, int, int], float]:
    """What is left of rows of which later ones replace earlier ones, and retractions take back."""
    found: dict[tuple[int, int, int], float] = {}
    for row in rows:
        if row.kind == RETRACTION:
            assert found.pop(row[:3]) == row.value
        else:
            found[row[:3]] = row.value
    return found


@given(windows, shapes, st.sampled_from(sorted(REDUCE)), st.integers(0, 3))
def test_with_lateness_enough_all_panes_are_right_at_the_end(
    found: list[tuple[list[Item], int | None]], shape: dict[str, Any], aggregate: str, early: int
) -> None:
    run = Run(aggregate=aggregate, mode="retracting", lateness=1000, early_items=early, **shape)
    for items, time in rising(found):
        run.window(items, time)
    run.window([], FOREVER)
    assert standing(run.rows) == pytest.approx(truth([i for items, _ in found for i in items], shape, aggregate))
    assert not run.late and not len(run.operator.state.rows.keys)


@given(windows, shapes, st.integers(0, 3))
def test_discarded_parts_and_retracted_sums_add_up(
    found: list[tuple[list[Item], int | None]], shape: dict[str, Any], early: int
) -> None:
    items = [i for window, _ in found for i in window]
    whole = sum(truth(items, shape, "sum").values())
    for mode in ("discarding", "retracting"):
        run = Run(aggregate="sum", mode=mode, lateness=1000, early_items=early, **shape)
        for window, time in rising(found):
            run.window(window, time)
        run.window([], FOREVER)
        assert sum(-row.value if row.kind == RETRACTION else row.value for row in run.rows) == whole


@given(windows, shapes, st.integers(0, 20))
def test_what_is_too_late_is_put_aside_and_nothing_else(
    found: list[tuple[list[Item], int | None]], shape: dict[str, Any], lateness: int
) -> None:
    """Item by item: an item counts in the panes that are not over at the end of the window before its own."""
    if shape["panes"] == "sessions":
        return
    run = Run(aggregate="count", lateness=lateness, **shape)
    counts: defaultdict[tuple[int, int, int], int] = defaultdict(int)
    before, late = -1000, []
    for window, time in rising(found):
        run.window(window, time)
        for one in window:
            size, slide = shape["size"], shape.get("slide", shape["size"])
            offset = shape.get("offset", 0)
            last = (one.time - offset) // slide * slide + offset + size
            if last + lateness <= before:
                late.append(one)
            for start, end in panes_of(one, shape):
                if end + lateness > before:
                    counts[one.key, start, end] += 1
        before = time if time is not None else before
    run.window([], FOREVER)
    assert sorted(run.late) == sorted(late)
    last_rows = {row[:3]: row.value for row in run.rows}
    assert last_rows == counts


def on(time: int, key: int = 0, value: float = 1.0) -> Item:
    return Item(time, key, value)


def test_early_then_on_time_then_late_then_too_late() -> None:
    run = Run(panes="fixed", size=10, lateness=5, early_items=2)
    assert run.window([on(1), on(2)], 0) == [(0, 0, 10, 2, EARLY)]
    assert run.window([on(3)], 9) == []
    assert run.window([on(4)], 10) == [(0, 0, 10, 4, ON_TIME)]
    assert run.window([on(5), on(11)], 12) == [(0, 0, 10, 5, LATE)]
    assert run.window([on(6)], 15) == [(0, 0, 10, 6, LATE)]
    assert run.window([on(7)], 19) == [] and run.late == [on(7)]
    assert run.window([], FOREVER) == [(0, 10, 20, 1, ON_TIME)]
    assert run.operator.metrics() == {"fired": 5, "late": 1}


def test_late_items_wait_until_there_are_so_many_or_the_pane_is_over() -> None:
    run = Run(panes="fixed", size=10, lateness=9, late_items=3)
    run.window([on(1)], 10)
    assert run.window([on(2)], 11) == [] == run.window([on(2)], 12)
    assert run.window([on(2)], 13) == [(0, 0, 10, 4, LATE)]
    assert run.window([on(2)], 19) == [(0, 0, 10, 5, LATE)]


def test_processing_time_puts_open_panes_out_at_the_end_of_a_window() -> None:
    run = Run(panes="fixed", size=10, early_ms=1000)
    now = [run.operator.clock()]
    run.operator.clock = lambda: now[0]
    assert run.window([on(1)], 0) == []
    now[0] += 1.1
    assert run.window([on(2)], 0) == [(0, 0, 10, 2, EARLY)] and run.window([on(2)], 0) == []
    now[0] += 1.1
    assert run.window([], 0) == [(0, 0, 10, 3, EARLY)]


def test_sessions_merge_across_windows_and_blocks_and_retract_what_they_were() -> None:
    run = Run(panes="sessions", gap=5, mode="retracting", lateness=100)
    assert run.window([on(0), on(20), on(4)], 9) == [(0, 0, 9, 2, ON_TIME)]
    assert run.window([on(9)], 10) == []
    assert run.window([on(7)], 12) == [(0, 0, 9, 2, RETRACTION)]
    assert run.window([], 14) == [(0, 0, 14, 4, ON_TIME)]
    assert run.window([on(16), on(13)], 30) == [(0, 0, 14, 4, RETRACTION), (0, 0, 25, 7, ON_TIME)]


def test_a_late_item_that_joins_a_live_session_is_not_late() -> None:
    run = Run(panes="sessions", gap=5)
    run.window([on(8)], 9)
    assert run.window([on(2), on(4), on(-3), on(4, key=7)], 10) == [] and run.late == [on(-3), on(4, key=7)]
    assert run.window([], FOREVER) == [(0, 2, 13, 3, ON_TIME)]


def test_results_do_not_depend_on_which_sender_came_first() -> None:
    def play(order: Sequence[int]) -> list[Row]:
        run = Run(panes="fixed", size=10, aggregate="sum")
        run.epoch = 1
        for task in order:
            run.give([on(1, value=[0.1, 1e17, -1e17][task])], 1, task)
        return run.close(FOREVER)

    assert play([0, 1, 2]) == play([2, 1, 0]) == play([1, 2, 0])


def test_items_of_a_window_ahead_do_not_count_before_it_is_closed() -> None:
    run = Run(panes="fixed", size=10)
    run.give([on(3)], 2)
    assert run.window([on(1)], 10) == [(0, 0, 10, 1, ON_TIME)]
    assert run.window([], 11) == [] and run.late == [on(3)]


@given(windows, shapes, st.sampled_from(["accumulating", "discarding", "retracting"]), st.data())
def test_backups_whole_and_of_changes_make_the_same_state(
    found: list[tuple[list[Item], int | None]], shape: dict[str, Any], mode: str, data: st.DataObject
) -> None:
    """A new incarnation after each window, in the midst of the next one, goes on as if nothing had happened."""
    options = {"aggregate": "sum", "mode": mode, "lateness": 10, "early_items": 2, **shape}
    run, other = Run(**options), Run(**options)
    backups = [other.operator.state.backup_all()]
    for items, time in rising(found):
        expected = run.window(items, time)
        other.epoch += 1
        cut = data.draw(st.integers(0, len(items)))
        other.give(items[:cut], other.epoch)
        backup = other.operator.state.backup_state()
        backups = [backup] if backup.full else [*backups, backup]
        other.operator = Panes(**options)
        other.operator.open(Context())
        for one in backups:
            other.operator.state.recover_state(one)
        assert other.operator.state.state_divergence() == 0
        other.give(items[cut:], other.epoch)
        assert other.close(time) == expected
    assert other.late == run.late


def test_a_backup_of_few_changes_is_small_and_needs_the_one_before() -> None:
    run = Run(panes="fixed", size=10, lateness=100)
    run.window([on(time, key) for time in range(50) for key in range(20)], 0)
    state = run.operator.state
    full = state.backup_state()
    run.window([on(3, 5)], 0)
    part = state.backup_state()
    assert full.full and not part.full and len(part.arrays[5]) == 1
    fresh = Run(panes="fixed", size=10, lateness=100).operator.state
    fresh.recover_state(full)
    fresh.recover_state(part)
    assert fresh.rows.pending.sum() == 1001
    fresh._items = 1
    with pytest.raises(ValueError, match="partial"):
        fresh.recover_state(part)
    for wrong in (part.arrays[:-1], (*part.arrays[:3], part.arrays[3][:0], *part.arrays[4:]), ()):
        if len(wrong) == 8 and not len(part.arrays[3]):
            continue
        with pytest.raises(ValueError, match="backup"):
            fresh.recover_state(part._replace(arrays=wrong))


def test_updates_stop_behind_the_item_that_crosses_theta() -> None:
    operator = Panes("fixed", 10)
    operator.open(Context())
    operator.state.theta = 3.0
    times = np.arange(10)
    items = Items(1, "s", 0, 10, (times, times))
    assert operator.process_data(items, 0, Outbox()) == 4 and operator.state.exceeded
    operator.state.backup_state()
    assert operator.process_data(items, 4, Outbox()) == 8


def test_rows_go_on_by_key_and_late_items_where_they_are_wanted() -> None:
    operator, out = Panes("fixed", 10, late_to="aside"), Outbox(tasks=2)
    operator.open(Context(downstream={"aside": 1, "next": 2}))
    for epoch, times in enumerate(([1, 2], [3, 14]), 1):
        array = np.array(times)
        operator.process_data(Items(epoch, "s", 0, 2, (array, array)), 0, out)
        out.event_time = 10
        operator.process_punctuation(epoch, out)
    stages = [stage for *_, stage in out.sent]
    assert set(stages) == {"next", "aside"} and operator.writes == ()
    (late,) = [arrays for arrays, *_, stage in out.sent if stage == "aside"]
    assert [array.tolist() for array in late] == [[3], [3], [1.0]]
    with pytest.raises(ConfigError, match="late_to"):
        operator.open(Context(downstream={"next": 2}))


@pytest.mark.parametrize(
    "options", [{"panes": "fixed"}, {"panes": "sliding", "size": 3}, {"panes": "sessions"}, {"panes": "round"}]
)
def test_options_that_make_no_panes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Panes(**options)


@pytest.mark.parametrize("time", [-(2**61) + 1, 0, 2**61 - 1])
@pytest.mark.parametrize("name", ["size", "slide", "gap", "offset", "lateness", "disorder"])
def test_lengths_up_to_their_bound_are_added_and_others_refused(name: str, time: int) -> None:
    """A lateness of 2**63 - 1 used to wrap around, so that panes were dropped as soon as they were there."""

    def made(most: int) -> Panes | TimedLines:
        if name == "disorder":
            return TimedLines(disorder=most)
        shape = {"slide": "sliding", "gap": "sessions"}.get(name, "fixed")
        lengths = {"gap": 1, "size": most if name == "slide" else 1, name: most}
        return Panes(shape, **lengths)

    operator, out = made(2**61 - 1), Outbox()
    with pytest.raises(ConfigError, match=f"the option .*{name} is {2**61}"):
        made(2**61)
    if isinstance(operator, TimedLines):
        read(operator, out, f"{time},1")
        assert out.promised == time - 2**61 + 1
        return
    operator.open(Context())
    operator.process_data(Items(1, "s", 0, 1, (np.zeros(1, int), np.full(1, time))), 0, out)
    out.event_time = FOREVER
    operator.process_punctuation(1, out)
    ((_, rows),) = out.written
    assert (rows["starts"] <= time) & (time < rows["ends"]) and rows["values"] == 1


@pytest.mark.parametrize(
    "arrays", [(np.zeros(2),), (np.zeros(2), np.zeros(2, int)), (np.zeros(2, int), np.full(2, 2**61))]
)
def test_items_without_times_are_refused(arrays: tuple[np.ndarray, ...]) -> None:
    operator = Panes("fixed", 10)
    with pytest.raises(DataError):
        operator.process_data(Items(1, "s", 0, 2, arrays), 0, Outbox())


def lines(*texts: str) -> Items:
    return Items(1, "", 0, len(texts), pack_keys([text.encode() for text in texts]))


def read(source: TimedLines, out: Outbox, *texts: str) -> None:
    items = source.prepare(lines(*texts))
    assert source.process_data(items, 0, out) == len(texts)


def test_a_source_promises_as_far_as_its_lines_may_be_out_of_order() -> None:
    source, out = TimedLines(value=2, disorder=3), Outbox()
    read(source, out, "10,1,2.5", "8,2,1", "12,1,4")
    assert out.promised == 9
    (keys, times, values), count = out.sent[0][0], out.sent[0][1]
    assert (keys.tolist(), times.tolist(), values.tolist(), count) == ([1, 2, 1], [10, 8, 12], [2.5, 1, 4], 3)
    read(source, out, "5,1,1")
    assert out.promised == 9, "a promise is not taken back"
    source.process_punctuation(1, out)
    assert out.idle_windows == 1


def test_a_perfect_source_refuses_what_comes_later() -> None:
    source, out = TimedLines(disorder=3, perfect=True), Outbox()
    read(source, out, "10,1", "7,1")
    with pytest.raises(DataError, match=r"time 6.*before 7"):
        read(source, out, "6,1")


@pytest.mark.parametrize("time", [2**61, 2**63 - 1, -(2**61), -(2**63)])
def test_a_time_that_no_length_can_be_added_to_is_named(time: int) -> None:
    with pytest.raises(DataError, match=f"a line has the event time {time}"):
        read(TimedLines(), Outbox(), "5,1", f"{time},1")
    with pytest.raises(DataError, match=f"a block of s has the event time {time}"):
        block = Items(1, "s", 0, 2, (np.zeros(2, int), np.array([5, time])))
        Panes("fixed", 10).process_data(block, 0, Outbox())


@pytest.mark.parametrize("text", ["x,1", "3", "3,y", "", f"{2**63},1", f"1,-{10**20}"])
def test_a_line_without_a_time_is_named(text: str) -> None:
    with pytest.raises(DataError, match=f"in the line '{text}'"):
        read(TimedLines(), Outbox(), "1,1", text, "2,2")


def test_kinds_have_the_names_that_tables_show() -> None:
    columns = Panes.window_columns("panes", {**dict.fromkeys(("keys", "starts", "ends", "values"), np.zeros(4)),
                                             "kinds": np.array([EARLY, ON_TIME, LATE, rows.RETRACTION])})  # fmt: skip
    assert columns["kind"].tolist() == ["early", "on_time", "late", "retraction"]


def test_items_between_panes_are_in_none_and_late_once_the_pane_before_is_over() -> None:
    run = Run(panes="sliding", size=3, slide=5)
    run.window([on(1), on(4)], 2)
    assert not run.late
    assert run.window([], 4) == [(0, 0, 3, 1, ON_TIME)]
    assert run.window([on(4)], 5) == [] and run.late == [on(4)]
    assert run.window([], FOREVER) == []
