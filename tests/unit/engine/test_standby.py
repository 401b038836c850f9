"""The files of a destination with a replica: one copy writes, the other holds what is not announced yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from test_outputs import announced, boundary, rows

from riprap.codec.errors import JobFailed
from riprap.codec.ids import Epoch, WorkerId
from riprap.configs.sections import Output
from riprap.engine.flow.window_files import WindowFiles
from riprap.engine.worker.epochs_file import HEADING, OTHER_CLOCK, last_announced
from riprap.engine.worker.outputs import RowsFile, SinkOutputs
from riprap.engine.worker.standby import CopiedFiles, StandbyOutputs
from riprap.operators.dataflow import DataflowOperator


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[], StandbyOutputs]:
    """Makes a copy of the destination."""
    looks = partial(last_announced, tmp_path / "epochs.csv"), RowsFile(tmp_path / "output.npy").read
    return lambda: StandbyOutputs(WorkerId("total", 0, 1), *looks, lambda: SinkOutputs(tmp_path, 0, 1))


def close(outputs: StandbyOutputs, *windows: int) -> None:
    for window in windows:
        outputs.committed(boundary(window), 0.01, rows(window))
        outputs.durable(Epoch(window))


def written(folder: Path) -> tuple[list[int], list[float]]:
    return announced(folder), [float(row[0]) for row in np.load(folder / "output.npy")[::3]]


def all_of(*windows: int) -> tuple[list[int], list[float]]:
    return list(windows), [100.0 * window for window in windows]


Make = Callable[[], StandbyOutputs]


def test_on_standby_nothing_is_opened_and_all_is_held_that_is_not_announced(tmp_path: Path, copy: Make) -> None:
    writer, other = copy(), copy()
    writer.begin_to_write(False)
    close(other, 1, 2)
    assert not [*tmp_path.iterdir()] and other.holds and not other.writes
    close(writer, 1, 2, 3)
    assert not other.holds and not writer.holds
    assert written(tmp_path) == all_of(1, 2, 3)
    assert (writer.accounted, other.accounted) == (9, 0)


@pytest.mark.parametrize("others", [rows(2) + np.eye(3, 2), rows(2)[:2]])
def test_copies_that_put_out_other_rows_end_the_job_and_the_first_is_named(
    tmp_path: Path, copy: Make, others: np.ndarray
) -> None:
    writer, other = copy(), copy()
    writer.begin_to_write(False)
    for outputs in writer, other:
        close(outputs, 1)
    other.committed(boundary(2), 0.01, rows(2))
    assert other.holds
    writer.committed(boundary(2), 0.01, others)
    writer.durable(Epoch(2))
    with pytest.raises(JobFailed, match=r"total\.0 differ: in window 2, total\.0~1 has put out another row [13] than"):
        _ = other.holds


def test_who_takes_over_writes_what_the_other_had_not_announced(tmp_path: Path, copy: Make) -> None:
    writer, other = copy(), copy()
    writer.begin_to_write(False)
    close(other, 1, 2, 3)
    close(writer, 1)
    writer.committed(boundary(2), 0.01, rows(2))  # and dies: its rows are there, and no line
    other.begin_to_write(False)
    assert other.writes and written(tmp_path) == all_of(1, 2, 3)
    close(other, 4)
    assert written(tmp_path) == all_of(1, 2, 3, 4) and other.accounted == 12


def test_who_lags_takes_over_once_it_has_closed_what_is_announced_and_cuts_nothing_of_that(
    tmp_path: Path, copy: Make
) -> None:
    writer, other = copy(), copy()
    writer.begin_to_write(False)
    close(writer, 1, 2, 3)
    close(other, 1)
    other.begin_to_write(False)
    assert not other.stands_by and not other.writes
    close(other, 2)
    assert not other.writes and not other.holds and written(tmp_path) == all_of(1, 2, 3)
    close(other, 3)
    assert other.writes and written(tmp_path) == all_of(1, 2, 3)
    close(other, 4)
    assert written(tmp_path) == all_of(1, 2, 3, 4)


def test_a_later_incarnation_goes_on_behind_what_its_state_includes(tmp_path: Path, copy: Make) -> None:
    writer, later = copy(), copy()
    writer.begin_to_write(False)
    close(writer, 1, 2)
    later.cut(6)
    later.durable(Epoch(2))
    close(later, 3)
    later.begin_to_write(False)
    assert written(tmp_path) == all_of(1, 2, 3)


def test_one_that_begins_from_a_savepoint_says_so_once_it_writes(tmp_path: Path, copy: Make) -> None:
    outputs = copy()
    outputs.begin(5, 60)
    close(outputs, 6)
    assert not (tmp_path / "epochs.csv").exists()
    outputs.begin_to_write(False)
    lines = (tmp_path / "epochs.csv").read_text().splitlines(keepends=True)
    assert lines[:2] == [HEADING, "# before 5 60 60\n"] and lines[2].startswith("6,3,")
    assert outputs.accounted == 63


def test_what_was_held_is_committed_when_it_is_written(tmp_path: Path, copy: Make) -> None:
    """A takeover that takes long is seen in the gap between commits, and in their latencies."""
    other = copy()
    close(other, 1, 2)
    asked = time.monotonic()
    other.begin_to_write(False)
    lines = (line.split(",") for line in (tmp_path / "epochs.csv").read_text().splitlines()[1:])
    for _, _, latency_ms, committed_at in lines:
        assert float(committed_at) >= asked - 1e-6
        assert float(committed_at) - float(latency_ms) / 1000 <= asked - 0.01 + 1e-5, "its first item came before that"


def test_moments_are_told_apart_where_who_takes_over_has_another_clock(tmp_path: Path, copy: Make) -> None:
    writer, other = copy(), copy()
    writer.begin_to_write(False)
    close(writer, 1)
    close(other, 1, 2)
    other.begin_to_write(True)
    assert [line[:2] for line in (tmp_path / "epochs.csv").read_text().splitlines()[1:]] == [
        "1,",
        OTHER_CLOCK[:2],
        "2,",
    ]


def test_who_wrote_and_begins_again_at_another_host_says_so(tmp_path: Path, copy: Make) -> None:
    former = copy()
    former.begin_to_write(False)
    close(former, 1)
    writer = copy()
    writer.change_clock()
    writer.cut(3)
    writer.durable(1)
    writer.begin_to_write(False)
    close(writer, 2)
    lines = (tmp_path / "epochs.csv").read_text().splitlines()[1:]
    assert [line[:2] for line in lines] == ["1,", OTHER_CLOCK[:2], "2,"]


def test_files_of_windows_are_held_too_as_they_were_when_they_were_written(tmp_path: Path, copy: Make) -> None:
    table = Output(str(tmp_path / "rows.{window}.csv"), "csv")
    writer, other = copy(), copy()
    files = [CopiedFiles(WindowFiles(tmp_path, 0, DataflowOperator, table), one) for one in (writer, other)]
    writer.begin_to_write(False)
    values = np.array([1, 2])
    files[1].write("found", 1, {"value": values})
    close(other, 1)
    values[:] = 0
    files[1].write("found", 2, {"value": values})
    close(other, 2)
    files[0].write("found", 1, {"value": np.array([1, 2])})
    close(writer, 1)
    before = (tmp_path / "rows.1.csv").stat().st_mtime_ns
    files[1].write("found", 3, {"value": values + 3})
    assert not (tmp_path / "rows.2.csv").exists()
    other.begin_to_write(False)
    assert [(tmp_path / f"rows.{window}.csv").read_text() for window in (2, 3)] == ["value\n0\n0\n", "value\n3\n3\n"]
    assert (tmp_path / "rows.1.csv").stat().st_mtime_ns == before, "that was announced, and with it written"
    files[1].write("found", 4, {"value": values})
    assert (tmp_path / "output" / "found.0.4.npz").exists()


@pytest.mark.parametrize(
    "others",
    [
        {"value": np.array([1, 3])}, {"value": np.array([1.0, 2.0])}, {"value": np.array([[1, 2]])},
        {"value": np.array([1, 2]), "more": np.array([1])}, {"other": np.array([1, 2])},
    ],
)  # fmt: skip
def test_copies_that_write_other_files_of_a_window_end_the_job(
    tmp_path: Path, copy: Make, others: dict[str, np.ndarray]
) -> None:
    writer, other = copy(), copy()
    theirs, own = (CopiedFiles(WindowFiles(tmp_path, 0, DataflowOperator), one) for one in (writer, other))
    writer.begin_to_write(False)
    for window, arrays in (1, {"value": np.array([1, 2])}), (2, {"value": np.array([1, 2])}), (3, others):
        theirs.write("found", window, arrays)
        close(writer, window)
    (tmp_path / "output/found.0.2.npz").unlink()  # by whoever has read it
    for window in 1, 2:
        own.write("found", window, {"value": np.array([1, 2])})
        close(other, window)
    own.write("found", 3, {"value": np.array([1, 2])})
    close(other, 3)
    with pytest.raises(JobFailed, match=r"in window 3, total\.0~1 has put out another found\.0\.3\.npz than"):
        _ = other.holds


def test_tentative_windows_are_shown_by_who_writes_alone(tmp_path: Path, copy: Make) -> None:
    outputs = copy()
    files = CopiedFiles(WindowFiles(tmp_path, 0, DataflowOperator), outputs).tentative()
    for _ in range(2):
        outputs.tentative(boundary(1), 0.01, ["a.0"], rows(1))
        files.write("found", 1, {"value": np.array([1])})
        assert (tmp_path / "tentative.csv").exists() == outputs.writes
        assert (tmp_path / "tentative").exists() == outputs.writes
        outputs.begin_to_write(False)


def test_who_writes_tells_the_metrics_and_the_model(tmp_path: Path, copy: Make) -> None:
    task: Any = SimpleNamespace(epoch=1, done=True, lost=0, missed=0, combines={}, metrics=lambda: {"found": 1.0})
    outputs = copy()
    close(outputs, 1)
    outputs.note_metrics(task)
    assert outputs.stats(task) == {} and not [*tmp_path.iterdir()]
    outputs.begin_to_write(False)
    outputs.note_metrics(task)
    outputs.save_model({"w": np.zeros(2)})
    assert cast(dict[str, Any], outputs.stats(task))["metrics"] == {"found": 1.0}
    assert {"metrics.csv", "model.npz", "output.npy", "epochs.csv"} <= {path.name for path in tmp_path.iterdir()}
    outputs.close()


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("", 0), (HEADING, 0), (HEADING + "1,2,3,4\n", 1), (HEADING + "1,2,3,4\n2,3", 1),
        (HEADING + "# before 7 70\n", 7), (HEADING + "8,1,1,1\n" + OTHER_CLOCK, 8),
        (HEADING + "".join(f"{epoch},10,0.5,1.0\n" for epoch in range(1, 500)), 499),
    ],
)  # fmt: skip
def test_the_last_epoch_of_a_file_that_another_copy_writes(tmp_path: Path, text: str, last: int) -> None:
    path = tmp_path / "epochs.csv"
    assert last_announced(path) == 0
    path.write_text(text)
    assert last_announced(path) == last
