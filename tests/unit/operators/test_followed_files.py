"""Files that grow: every line once, in its order, whatever is renamed, cut, written over or removed."""

from __future__ import annotations

import functools
import itertools
import operator
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.operators.inputs import followed_file
from riprap.operators.inputs.followed_files import HELD_MAX, FollowedFiles


class Following:
    """A follower, the events that it reported, and the places up to which its lines were taken."""

    def __init__(self, path: Path, places: dict[str, Any] | None = None, index: int = 0, tasks: int = 1) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.places = dict(places or {})
        self.input = FollowedFiles(str(path), index, tasks, lambda name, **fields: self.events.append((name, fields)))
        if places is not None:
            self.input.go_to(places)

    def take(self, lines: int = 1000, nbytes: int = 4096, rest: bool = False) -> list[str]:
        """All that is there."""
        found: list[str] = []
        while (some := self.input.take(lines, nbytes, rest)) is not None:
            assert some.count <= lines
            text, ends = some.text.tobytes(), some.offsets.tolist()
            found += [text[a:b].decode() for a, b in itertools.pairwise(ends)]
            self.places.update(some.places)
        self.places = {name: place for name, place in self.places.items() if place is not None}
        return found


def append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_text("one\ntwo\n")
    return path


def test_what_is_added_is_read_once(log: Path) -> None:
    following = Following(log)
    assert following.take() == ["one", "two"] and following.take() == []
    append(log, "three\r\n\nfour\n")
    assert following.take() == ["three", "four"] and not following.events


def test_a_line_is_not_read_before_it_has_its_newline_or_the_input_ends(log: Path) -> None:
    following = Following(log)
    append(log, "thr")
    assert following.take() == ["one", "two"]
    append(log, "ee\nfo")
    assert following.take() == ["three"]
    assert following.take(rest=True) == ["fo"] and following.take(rest=True) == []


def test_of_a_rotated_file_the_rest_is_read_first(log: Path) -> None:
    following = Following(log)
    assert following.take(lines=1, nbytes=4) == ["one", "two"]
    append(log, "three\n")
    os.rename(log, log.with_name("app.log.1"))
    log.write_text("five\n")
    append(log.with_name("app.log.1"), "four\n")
    assert following.take() == ["three", "four", "five"]


@pytest.mark.parametrize("whole", [True, False])
def test_many_rotations_repeat_nothing(log: Path, whole: bool) -> None:
    """`whole`: the directory is followed, so that what was rotated still stands in it."""
    following = Following(log.parent if whole else log)
    read = following.take()
    for number in range(3 * HELD_MAX):
        os.rename(log, log.with_name(f"app.log.{number}"))
        log.write_text(f"{number}\n")
        read += following.take()
    assert read == ["one", "two", *map(str, range(3 * HELD_MAX))]
    again = Following(log.parent if whole else log, following.places)
    assert not again.take() and not again.events


def test_a_file_that_was_removed_is_read_to_its_end(log: Path) -> None:
    following = Following(log)
    following.take()
    append(log, "three\nunfinished")
    log.unlink()
    log.write_text("new\n")
    assert following.take() == ["three", "unfinished", "new"]
    assert len(following.places) == 1, "the place of what is gone is forgotten"


def test_after_a_truncation_it_is_read_from_its_start_and_that_is_reported(log: Path) -> None:
    following = Following(log)
    following.take()
    log.write_text("new\n")
    assert following.take() == ["new"]
    assert following.events == [("input_truncated", {"file": str(log), "offset": 8})]


def test_a_file_that_was_written_over_with_more_is_not_taken_for_the_old_one(log: Path) -> None:
    following = Following(log)
    following.take()
    log.write_text("three\nfour\nfive\n")
    assert following.take() == ["three", "four", "five"]
    assert [name for name, _ in following.events] == ["input_truncated"]


def test_new_files_of_a_directory_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.log", "a.log", ".hidden", "old.gz"):
        (tmp_path / name).write_text(f"{name}\n")
    following = Following(tmp_path)
    assert following.take() == ["a.log", "b.log"]
    (tmp_path / "d").write_text("d\n")
    (tmp_path / "c").write_text("c\n")
    assert following.take() == ["c", "d"]


def test_a_busy_file_does_not_keep_others_waiting(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n" * 100)
    (tmp_path / "b").write_text("b\n")
    assert Following(tmp_path).take(lines=1).index("b") < 3


def test_tasks_share_the_files_of_a_directory_out_and_renaming_changes_nothing(tmp_path: Path) -> None:
    names = {f"file{i}" for i in range(20)}
    for name in names:
        (tmp_path / name).write_text(f"{name}\n")
    tasks = [Following(tmp_path, index=i, tasks=3) for i in range(3)]
    read = [task.take() for task in tasks]
    assert sorted(functools.reduce(operator.iadd, read, [])) == sorted(names) and all(read)
    for name in names:
        os.rename(tmp_path / name, tmp_path / f"z{name}")
        append(tmp_path / f"z{name}", f"{name} more\n")
    assert [sorted(task.take()) for task in tasks] == [sorted(f"{name} more" for name in part) for part in read]


def test_a_new_life_goes_on_in_what_was_rotated_meanwhile(log: Path) -> None:
    following = Following(log)
    following.take()
    append(log, "three\n")
    os.rename(log, log.with_name("app.log.1"))
    log.write_text("four\n")
    again = Following(log, following.places)
    assert again.take() == ["three", "four"] and not again.events


def test_a_new_life_reads_rotated_files_in_the_order_in_which_they_were_written(log: Path) -> None:
    """Log.1 becomes log.2, and log log.1: the listing has them the other way round."""
    following = Following(log)
    following.take()
    first, second = (log.with_name(f"app.log.{number}") for number in (2, 1))
    os.rename(log, first)
    log.write_text("three\n")
    assert following.take() == ["three"]
    os.rename(log, second)
    log.write_text("")
    following.take()
    for path, line in ((first, "four"), (second, "five"), (log, "six")):
        append(path, f"{line}\n")
    again = Following(log, following.places)
    assert again.take() == ["four", "five", "six"] and not again.events


@pytest.mark.parametrize("name", ["_app", ".app", "app.gz"])
def test_a_new_life_goes_on_in_a_file_of_any_name(tmp_path: Path, name: str) -> None:
    log = tmp_path / name
    log.write_text("one\n")
    following = Following(log)
    assert following.take() == ["one"]
    append(log, "two\n")
    again = Following(log, following.places)
    assert again.take() == ["two"] and not again.events


def test_a_new_life_reports_what_is_gone(log: Path) -> None:
    following = Following(log)
    following.take()
    kept = os.open(log, os.O_RDONLY)  # so that the next file gets another inode
    log.unlink()
    log.write_text("new\n")
    again = Following(log, following.places)
    assert again.take() == ["new"] and len(again.places) == 1
    os.close(kept)
    assert again.events == [("input_gone", {"file": str(log), "offset": 8})]


def test_a_line_that_is_too_long_is_left_out_and_reported(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_file, "LINE_BYTES_MAX", 64)
    following = Following(log)
    append(log, "x" * 100)
    assert following.take(nbytes=16) == ["one", "two"]
    again = Following(log, following.places)
    append(log, "x" * 100 + "\nthree\n")
    assert again.take(nbytes=16) == ["three"]
    assert [name for name, _ in following.events] == ["input_line_dropped"] and not again.events


def test_a_line_may_be_too_long_by_any_factor(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the hole that is left where a file is cut and its writer goes on at the old offset."""
    monkeypatch.setattr(followed_file, "LINE_BYTES_MAX", 64)
    following = Following(log)
    append(log, "\0" * 64 * 2000 + "\nthree\n")
    assert following.take(nbytes=16) == ["one", "two", "three"]


@given(st.lists(st.tuples(st.sampled_from("wwwnrt"), st.integers(1, 9)), max_size=30), st.integers(1, 5), st.data())
def test_every_line_is_read_once_and_in_order_across_lives(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[tuple[str, int]], lines: int, data: st.DataObject
) -> None:
    """w writes lines, n part of one, r rotates a file that was seen, t takes, perhaps in a new incarnation."""
    log = tmp_path_factory.mktemp("files") / "log"
    log.touch()
    written, seen, read = 0, False, []
    following, rotations = Following(log), itertools.count()
    for deed, count in deeds:
        if deed == "w":
            append(log, "\n".join(str(written + i) for i in range(count)) + "\n")
            written += count
        elif deed == "n":
            append(log, "part of ")
        elif deed == "r" and seen and not log.read_text().endswith(" "):
            os.rename(log, log.with_name(f"log.{next(rotations)}"))
            log.touch()
            seen = False
        elif deed == "t":
            read, seen = read + following.take(lines), True
            if data.draw(st.booleans()):
                following = Following(log, following.places)
    read += following.take(lines)
    numbers = [int(line.rpartition(" ")[2]) for line in read]
    assert numbers == list(range(written)) and not following.events
