"""epochs.csv is read while it grows: each completed row once, and never half of one."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.files import replace
from riprap.engine.run_directory.epochs import Committed, EpochTail, parse_row
from riprap.engine.worker.epochs_file import Before, EpochsFile

HEADING = "epoch,items,latency_ms,committed_at\n"


def test_a_row_and_what_is_none() -> None:
    row = parse_row("3,100000,4.25,812.5")
    assert row and (row.epoch, row.items, row.latency_ms, row.committed_at) == (3, 100_000, 4.25, 812.5)
    assert [parse_row(text) for text in (HEADING, "", "1,2,3", "1,2,3,4,5", "1,x,3,4")] == [None] * 5


def test_a_file_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    tail = EpochTail(tmp_path / "epochs.csv")
    assert tail.refresh() == [] and tail.epoch == 0
    (tmp_path / "epochs.csv").write_text(HEADING + "1,10,0.5,1.0\n")
    assert [row.epoch for row in tail.refresh()] == [1]


@given(st.lists(st.integers(1, 10**6), max_size=20), st.lists(st.integers(0, 400), max_size=10))
def test_however_it_is_cut_each_row_comes_once(items: list[int], cuts: list[int]) -> None:
    import tempfile

    text = HEADING + "".join(f"{n},{count},1.5,2.5\n" for n, count in enumerate(items, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "epochs.csv"
        tail, rows, done = EpochTail(path), [], 0
        for cut in [*sorted(min(cut, len(text)) for cut in cuts), len(text)]:
            with path.open("a") as stream:
                stream.write(text[done:cut])
            done = cut
            rows += tail.refresh()
            assert tail.items == sum(row.items for row in rows)
        assert [row.items for row in rows] == items
        assert tail.epoch == len(items) and tail.rows() == rows


def test_a_file_that_was_begun_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "epochs.csv"
    path.write_text(HEADING + "1,10,0.5,1.0\n2,10,0.5,2.0\n")
    tail = EpochTail(path)
    tail.refresh()
    path.write_text(HEADING + "1,7,0.5,3.0\n")
    tail.refresh()
    assert (tail.epoch, tail.items, len(tail.rows())) == (1, 7, 1)


def test_a_file_that_is_begun_anew_in_the_midst_of_a_look_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "epochs.csv", Path.open
    path.write_text(HEADING + "1,10,0.5,1.0\n2,10,0.5,2.0\n")
    tail = EpochTail(path)
    rows = tail.refresh()

    def begun_anew_before(self: Path, mode: str) -> Any:
        monkeypatch.undo()
        lines = "".join(f"{epoch},10,0.5,{epoch}.0\n" for epoch in range(3, 20))
        replace(path, f"{HEADING}# before 2 20\n{lines}")
        return real(self, mode)

    with path.open("a") as file:
        file.write("3,10,0.5,3.0\n")
    monkeypatch.setattr(Path, "open", begun_anew_before)
    rows += [*tail.refresh(), *tail.refresh()]
    assert [row.epoch for row in rows] == [*range(1, 20)] and tail.items == 190


def test_an_epoch_is_committed_when_every_sink_has_committed_it(tmp_path: Path) -> None:
    committed = Committed(tmp_path, sinks=2)
    for index, epochs in enumerate((3, 2)):
        rows = "".join(f"{n},10,0.5,1.0\n" for n in range(1, epochs + 1))
        (tmp_path / f"epochs.{index}.csv").write_text(HEADING + rows)
    committed.refresh()
    assert (committed.epoch, committed.items, len(committed.between([]))) == (2, 50, 5)


def test_rows_are_told_apart_by_attempt(tmp_path: Path) -> None:
    committed = Committed(tmp_path, sinks=2)
    for index, epochs in enumerate((3, 2)):
        rows = "".join(f"{n},10,0.5,1.0\n" for n in range(1, epochs + 1))
        (tmp_path / f"epochs.{index}.csv").write_text(HEADING + rows)
    committed.refresh()
    assert committed.epochs == [3, 2]
    assert [row.epoch for row in committed.between([0, 0], [2, 1])] == [1, 2, 1]
    assert [row.epoch for row in committed.between([2, 1])] == [3, 2]
    assert [row.epoch for row in committed.between([], [])] == [1, 2, 3, 1, 2]


def test_each_attempt_has_the_rows_behind_which_the_next_began(tmp_path: Path) -> None:
    committed = Committed(tmp_path, sinks=1)
    (tmp_path / "epochs.csv").write_text(HEADING + "".join(f"{n},10,0.5,1.0\n" for n in range(1, 7)))
    committed.refresh()
    before = [[0], [2], [2], [5]]
    rows = [[row.epoch for row in attempt] for attempt in committed.by_attempt(before)]
    assert rows == [[1, 2], [], [3, 4, 5], [6]]
    assert committed.by_attempt([[]]) == [committed.between([])]


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ([[], [], [4]], [[], [1, 2, 3, 4], [5, 6]]),
        ([[], [2], [], [4]], [[1, 2], [], [3, 4], [5, 6]]),
        ([[], [], [], [4]], [[], [], [1, 2, 3, 4], [5, 6]]),
    ],
)
def test_an_attempt_of_which_the_beginning_is_not_known_counts_no_row_twice(
    tmp_path: Path, before: list[list[int]], wanted: list[list[int]]
) -> None:
    """A crash cut its line in attempts.jsonl short."""
    committed = Committed(tmp_path, sinks=1)
    (tmp_path / "epochs.csv").write_text(HEADING + "".join(f"{n},10,0.5,1.0\n" for n in range(1, 7)))
    committed.refresh()
    assert [[row.epoch for row in attempt] for attempt in committed.by_attempt(before)] == wanted


def test_the_items_of_a_savepoint_are_told_apart_however_long_the_stream_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("riprap.engine.worker.epochs_file.EPOCHS_MAX", 10)
    for index in range(2):
        EpochsFile(tmp_path / f"epochs.{index}.csv").begin(Before(5, 50, 50))
    for epoch in range(6, 40):
        for index in range(2):  # each time by another incarnation
            EpochsFile(tmp_path / f"epochs.{index}.csv").append([(epoch, f"{epoch},10,0.5,1.0\n")])
    committed = Committed(tmp_path, 2)
    committed.refresh()
    assert committed.before.epoch > 5 and committed.before.items_of_others == 100
    assert (committed.epoch, committed.items) == (39, 780)


def test_rows_that_came_since_the_last_look_are_not_told_before_the_next(tmp_path: Path) -> None:
    path, committed = tmp_path / "epochs.csv", Committed(tmp_path, sinks=1)
    path.write_text(HEADING + "1,10,0.5,1.0\n")
    committed.refresh()
    with path.open("a") as stream:
        stream.write("2,10,0.5,2.0\n")
    assert [row.epoch for row in committed.between([])] == [1], "items and rows are of one moment"
    committed.refresh()
    assert [row.epoch for row in committed.between([])] == [1, 2]


def test_who_follows_a_long_file_keeps_totals_and_no_rows(tmp_path: Path) -> None:
    committed = Committed(tmp_path, sinks=1)
    (tmp_path / "epochs.csv").write_text(HEADING + "".join(f"{n},10,0.5,{n}.0\n" for n in range(1, 20_001)))
    tracemalloc.start()
    try:
        committed.refresh()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert (committed.epoch, committed.items) == (20_000, 200_000)
    assert kept < 100_000, "a row takes some 160 bytes"
