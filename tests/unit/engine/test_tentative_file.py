"""`tentative.csv`: each window once, amended once, in all incarnations of its destination."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from riprap.engine.worker import tentative_file
from riprap.engine.worker.tentative_file import HEADING, TentativeFile


def opened(directory: Path) -> TentativeFile:
    return TentativeFile(directory / "tentative.csv", directory / "tentative" / "rows")


def lines(directory: Path) -> list[str]:
    return (directory / "tentative.csv").read_text().splitlines()[1:]


def test_a_window_is_shown_once_and_amended_in_its_place(tmp_path: Path) -> None:
    file = opened(tmp_path)
    assert not (tmp_path / "tentative.csv").exists() and not file.stats()
    file.show(3, 50, 100, ["b.0", "c.1"], 0.0125, 7.0)
    file.show(4, 75, 0, [], 0.5, 8.0)
    file.show(3, 99, 100, [], 0.1, 9.0)
    assert lines(tmp_path)[0].rstrip() == "3,50,100,0.5000,b.0 c.1,12.500,7.000000,"
    file.amend(3, 10.0)
    file.amend(3, 20.0)
    file.amend(5, 20.0)
    assert [line.rstrip() for line in lines(tmp_path)] == [
        "3,50,100,0.5000,b.0 c.1,12.500,7.000000,10.000000",
        "4,75,,,,500.000,8.000000,",
    ]
    assert file.stats() == {
        "windows": 2,
        "amended": 1,
        "completeness": 0.5,
        "amended_after_ms": {"median": 3000.0, "max": 3000.0},
    }


def test_the_next_incarnation_goes_on(tmp_path: Path) -> None:
    before = opened(tmp_path)
    before.show(3, 50, 100, ["b.0"], 0.1, 7.0)
    before.show(4, 50, 100, ["b.0"], 0.1, 8.0)
    before.amend(3, 9.0)
    before.close()
    with (tmp_path / "tentative.csv").open("a") as torn:
        torn.write("5,50,1")
    file = opened(tmp_path)
    file.show(4, 60, 100, [], 0.1, 10.0)
    file.show(5, 60, 100, [], 0.1, 11.0)
    file.amend(3, 12.0)
    file.amend(4, 12.0)
    found = [line.rstrip().split(",") for line in lines(tmp_path)]
    assert [(row[0], row[1], row[-1]) for row in found] == [
        ("3", "50", "9.000000"),
        ("4", "50", "12.000000"),
        ("5", "60", ""),
    ]
    assert file.stats()["amended"] == 2
    assert (tmp_path / "tentative.csv").read_text().startswith(HEADING)


def test_moments_of_two_clocks_are_not_compared(tmp_path: Path) -> None:
    """The next incarnation is on another host, and the one after it on that host too."""
    before = opened(tmp_path)
    for window in (3, 4, 5):
        before.show(window, 50, 100, ["b.0"], 0.1, 1_000_000.0 + window)
    before.amend(3, 1_000_004.0)
    before.close()
    moved = opened(tmp_path)
    moved.change_clock()
    moved.amend(4, 50.0)
    moved.close()
    file = opened(tmp_path)
    file.amend(5, 51.0)
    file.show(6, 50, 100, ["b.0"], 0.1, 52.0)
    file.amend(6, 52.5)
    for tells in (file, opened(tmp_path)):
        told = tells.stats()
        assert (told["windows"], told["amended"]) == (4, 4)
        assert told["amended_after_ms"] == {"median": 750.0, "max": 1000.0}
    found = [[field.strip() for field in line.split(",")][-2:] for line in lines(tmp_path)]
    assert found == [
        ["1000003.000000", "1000004.000000"],
        ["nan", "50.000000"],
        ["nan", "51.000000"],
        ["52.000000", "52.500000"],
    ]


def test_rows_of_a_window_have_a_file(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.show(3, 50, 100, ["b.0"], 0.1, 7.0)
    file.write(3, np.ones((2, 2)))
    file.write(4, np.ones((2, 2)))
    assert [path.name for path in (tmp_path / "tentative").iterdir()] == ["rows.3.npy"]
    assert np.load(tmp_path / "tentative" / "rows.3.npy").tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_it_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tentative_file, "SHOWN_MAX", 2)
    file = opened(tmp_path)
    for window in (1, 2, 3):
        file.show(window, 50, 100, [], 0.1, 7.0)
    assert len(lines(tmp_path)) == 2 and file.stats()["windows"] == 2
