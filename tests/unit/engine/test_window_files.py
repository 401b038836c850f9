"""Files of windows: written once, whole, by whichever life of a task comes first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from riprap.configs.sections import Output
from riprap.engine.flow.window_files import WindowFiles
from riprap.operators.dataflow import DataflowOperator

ROWS = "value\n{}\n"


def files(folder: Path, output: Output | None = None, task: int = 1) -> WindowFiles:
    """Those of a life of a task."""
    return WindowFiles(folder, task, DataflowOperator, output)


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(str(tmp_path / "rows" / "{window}" / "{name}-{task}.csv"), "csv")


def values(*numbers: int) -> dict[str, np.ndarray]:
    return {"value": np.array(numbers)}


def test_rows_are_where_the_path_says(tmp_path: Path, output: Output) -> None:
    files(tmp_path, output).write("found", 7, values(1, 2))
    assert (tmp_path / "rows/7/found-1.csv").read_text() == "value\n1\n2\n"
    files(tmp_path, Output(str(tmp_path / "plain"), "jsonl"), task=0).write("found", 7, values(3))
    assert (tmp_path / "plain/found.0.7.jsonl").read_text() == '{"value": 3}\n'
    assert sorted(path.name for path in (tmp_path / "output").iterdir()) == ["found.0.7.npz", "found.1.7.npz"]


def test_a_later_life_writes_no_second_time(tmp_path: Path, output: Output) -> None:
    files(tmp_path, output).write("found", 1, values(1))
    (tmp_path / "rows/1/found-1.csv").write_text("read already")
    files(tmp_path, output).write("found", 1, values(9))
    assert (tmp_path / "rows/1/found-1.csv").read_text() == "read already"


def test_what_a_life_had_no_time_to_write_comes_from_its_arrays(tmp_path: Path, output: Output) -> None:
    """It died between the two files: the rows are those of what was kept."""
    files(tmp_path).write("found", 1, values(1))
    files(tmp_path, output).write("found", 1, values(9))
    assert (tmp_path / "rows/1/found-1.csv").read_text() == ROWS.format(1)


def test_a_file_that_was_cut_short_is_not_left_behind(tmp_path: Path, output: Output) -> None:
    folder = tmp_path / "rows" / "1"
    folder.mkdir(parents=True)
    for name in (".found-1.csv.77.part", ".found-2.csv.77.part"):
        (folder / name).write_text("val")
    files(tmp_path, output).write("found", 1, values(1))
    assert sorted(path.name for path in folder.iterdir()) == [".found-2.csv.77.part", "found-1.csv"], "another task's"


def test_one_life_may_close_a_window_again(tmp_path: Path, output: Output) -> None:
    life = files(tmp_path, output)
    for value in (1, 2):
        life.write("found", 1, values(value))
    assert (tmp_path / "rows/1/found-1.csv").read_text() == ROWS.format(2)


@pytest.mark.parametrize("name", ["file", "allow_pickle"])
def test_an_array_may_have_any_name(tmp_path: Path, output: Output, name: str) -> None:
    files(tmp_path, output).write("found", 1, {name: np.array([1])})
    with np.load(tmp_path / "output/found.1.1.npz") as kept:
        assert kept.files == [name]
    assert (tmp_path / "rows/1/found-1.csv").read_text() == f"{name}\n1\n"


def test_braces_in_values_are_left_alone() -> None:
    assert Output("/a/{name}.{task}.{window}", "csv").file("{task}", 1, 2) == Path("/a/{task}.1.2")
