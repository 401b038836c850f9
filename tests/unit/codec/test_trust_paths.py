"""Paths that others name: refused before they are used, and never followed to what is somebody else's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from riprap.codec.events import EventLog
from riprap.codec.trust.paths import check_folder, is_under, open_to_append, problem_with_path


@pytest.mark.parametrize("path", ["/runs/job-1", "/", "/tmp/a b", "/läufe/x"])
def test_plain_absolute_paths_are_fine(path: str) -> None:
    assert problem_with_path(path) == ""


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("runs/a", "absolute"),
        ("", "absolute"),
        ("/runs/../etc", "without"),
        ("/runs/./a", "without"),
        ("/runs//a", "without"),
        ("/runs/a\0b", "printed"),
        ("/runs/a\nfake line", "printed"),
        ("/runs/\x1b[31m", "printed"),
        ("/" + "a" * 4000, "longer than"),
    ],
)
def test_odd_paths_are_refused_with_the_reason(path: str, why: str) -> None:
    assert why in problem_with_path(path)


def test_links_are_followed_before_a_path_counts_as_below(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/out").symlink_to(tmp_path)
    assert is_under(str(tmp_path / "root/a/b"), str(tmp_path / "root"))
    assert is_under("/anything", "/")
    assert not is_under(str(tmp_path / "root/out/a"), str(tmp_path / "root"))
    assert not is_under(str(tmp_path / "rooted"), str(tmp_path / "root"))


def test_a_link_and_another_users_folder_are_no_place_for_a_run(tmp_path: Path) -> None:
    check_folder(tmp_path / "not there")
    check_folder(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="a link or a file"):
        check_folder(tmp_path / "link")
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 65534, -1)
    with pytest.raises(OSError, match="belongs to user 65534"):
        check_folder(tmp_path / "theirs")


def test_logs_are_appended_to_plain_files_of_ours_alone(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "theirs").write_text("")
    os.chown(tmp_path / "theirs", 65534, -1)
    for name in ("link", "pipe", "theirs"):
        with pytest.raises(OSError):
            open_to_append(tmp_path / name)
        with pytest.raises(OSError):
            EventLog(tmp_path / name)
    descriptor = open_to_append(tmp_path / "new")
    os.write(descriptor, b"a line\n")
    os.close(descriptor)
    assert (tmp_path / "new").read_text() == "a line\n" and (tmp_path / "target").read_text() == ""
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
