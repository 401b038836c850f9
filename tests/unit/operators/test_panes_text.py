"""Panes by text: as panes by numbers, whatever becomes of the numbers that stand for texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from dataflow_harness import Outbox
from hypothesis import given
from test_panes import Item, Row, Run, on, rising, shapes, windows

from riprap.codec.errors import DataError
from riprap.codec.key_groups import GROUPS
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.panes import key_names
from riprap.operators.panes.panes import Panes
from riprap.operators.panes.timed_lines import TimedLines
from riprap.operators.returns import FOREVER
from riprap.operators.states import pack_keys
from riprap.operators.tables import lines_of


def text_of(key: int) -> bytes:
    """In the order of the numbers."""
    return b"key %04d" % (key + 100)


class TextRun(Run):
    """The same run with texts for keys; rows come with the numbers again."""

    def __init__(self, **options: object) -> None:
        self.options = {"key": "bytes", **options}
        super().__init__(**self.options)

    def give(self, items: Sequence[Item], epoch: int, task: int = 0) -> None:
        texts = pack_keys([text_of(item.key) for item in items])
        times = np.array([item.time for item in items], np.int64)
        values = np.array([item.value for item in items], float)
        block = Items(epoch, "s", task, len(items), (*texts, times, values))
        assert self.operator.process_data(block, 0, Outbox()) == len(items)

    def close(self, time: int | None) -> list[Row]:
        out = Outbox(event_time=time)
        self.operator.process_punctuation(self.epoch, out)
        new: list[Row] = []
        for name, arrays in out.written:
            keys = [int(text[4:]) - 100 for text in lines_of(arrays["keys"], arrays["offsets"])]
            rest = [array.tolist() for column, array in arrays.items() if column not in ("keys", "offsets")]
            if name == "panes":
                new += [Row(*row) for row in zip(keys, *rest, strict=True)]
            else:
                self.late += [Item(at, key, value) for key, at, value in zip(keys, *rest, strict=True)]
        self.rows += new
        return new

    def live_anew(self, backups: Sequence[object]) -> None:
        """A new incarnation takes over."""
        self.operator = Panes(**self.options)
        self.operator.open(Context())
        for one in backups:
            self.operator.state.recover_state(one)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are forgotten as soon as most are not needed."""
    monkeypatch.setattr(key_names, "SPARE", 0)


@given(windows, shapes)
def test_texts_are_as_good_as_numbers_in_each_life(found, shape) -> None:  # type: ignore[no-untyped-def]
    options = {"aggregate": "sum", "mode": "retracting", "lateness": 10, "early_items": 2, **shape}
    run, other = Run(**options), TextRun(**options)
    backups = [other.operator.state.backup_all()]
    for items, time in rising(found):
        other.epoch += 1
        items = [item._replace(key=item.key + 5 * other.epoch) for item in items]  # others in each window
        expected = run.window(items, time)
        other.give(items, other.epoch)
        backup = other.operator.state.backup_state()
        backups = [backup] if backup.full else [*backups, backup]
        other.live_anew(backups)
        assert other.close(time) == expected
    assert other.late == run.late


def test_names_of_panes_that_are_over_are_forgotten() -> None:
    run = TextRun(panes="fixed", size=10)
    for window in range(20):
        run.window([on(10 * window, key) for key in range(window, window + 5)], 10 * window)
    names = run.operator.state.names
    assert names is not None and len(names) <= 10
    assert {row.key for row in run.window([], FOREVER)} == set(range(19, 24))


def test_sums_are_the_same_whichever_text_came_first() -> None:
    """The numbers of texts, near each other or not, decide how sums are found, and not how they are rounded."""
    values = np.random.default_rng(1).random(200)

    def play(order: Sequence[int]) -> list[Row]:
        run = TextRun(panes="fixed", size=10, aggregate="sum")
        run.epoch = 1
        for task in order:
            run.give([on(1, key) for key in (range(900), (900, 901))[task]], 1, task)
        run.close(0)
        return run.window([on(11, 900 * (place % 2), value) for place, value in enumerate(values)], FOREVER)

    assert play([0, 1]) == play([1, 0])


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_other_tasks_take_over_the_texts_of_their_groups(tasks: int) -> None:
    items = [on(time, key, time + key) for time in range(12) for key in range(30)]
    former = []
    for part in (items[::2], items[1::2][::-1]):  # the same names have other numbers in them
        run = TextRun(panes="fixed", size=5, aggregate="sum")
        run.window(part[:100], 3)
        run.give(part[100:], 2)
        former.append(run.operator.state.backup_all())
    whole = Run(panes="fixed", size=5, aggregate="sum")
    whole.window([*items[::2][:100], *items[1::2][::-1][:100]], 3)
    expected = whole.window([*items[::2][100:], *items[1::2][::-1][100:]], FOREVER)
    found: list[Row] = []
    for task in range(tasks):
        run, run.epoch = TextRun(panes="fixed", size=5, aggregate="sum"), 2
        run.operator.state.recover_groups(former, range(-(-task * GROUPS // tasks), -(-(task + 1) * GROUPS // tasks)))
        rows = run.close(FOREVER)
        merged: dict[tuple[int, int], float] = {}
        for row in rows:
            merged[row.key, row.start] = merged.get((row.key, row.start), 0.0) + row.value
        found += [Row(key, start, start + 5, value, 2) for (key, start), value in merged.items()]
    assert sorted(found) == sorted(expected)


def test_what_is_no_text_is_refused() -> None:
    operator = Panes("fixed", 10, key="bytes")
    operator.open(Context())
    bad = (np.zeros(3, np.uint8), np.array([0, 5, 2]), np.zeros(2, np.int64))
    for arrays, message in ((bad, "no keys of bytes"), (bad[1:], "has 2 arrays")):
        with pytest.raises(DataError, match=message):
            operator.process_data(Items(1, "s", 0, 2, arrays), 0, Outbox())


def test_lines_with_text_keys() -> None:
    source, out = TimedLines(text=True, value=2), Outbox()
    items = source.prepare(Items(1, "", 0, 3, pack_keys([b"1,to be,0.5", b"2,or,1", b"3,,2"])))
    assert source.process_data(items, 0, out) == 3
    (data, offsets, times, values), count = out.sent[0][:2]
    found = dict(zip(lines_of(data, offsets).tolist(), zip(times.tolist(), values.tolist(), strict=True), strict=True))
    assert found == {"to be": (1, 0.5), "or": (2, 1.0), "": (3, 2.0)} and count == 3
    with pytest.raises(DataError, match="no column 1 in the line '7'"):
        TimedLines(text=True).prepare(Items(1, "", 0, 1, pack_keys([b"7"])))
