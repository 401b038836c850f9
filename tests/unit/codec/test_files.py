"""Files are written whole or an error names them: short writes, full disks, torn tails."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from riprap.codec.errors import RiprapError
from riprap.codec.events import EventLog
from riprap.codec.files import append_whole, bound_log, cut_torn_line, no_space, replace, replacing, write_all

sys.path.append(str(Path(__file__).parents[2]))
from full_disk import small_disk

SHORT = 100


@pytest.fixture
def short_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system takes at most 100 bytes a call, as it may."""
    write, pwrite = os.write, os.pwrite
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:SHORT]))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:SHORT], at))


@pytest.mark.usefixtures("short_writes")
def test_short_writes_are_completed(tmp_path: Path) -> None:
    path, data = tmp_path / "file", os.urandom(1000)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    write_all(fd, data, path, 50)
    write_all(fd, data[:250], path)
    os.close(fd)
    assert path.read_bytes() == data[:250] + data[200:], "the first 50 bytes were overwritten, and what follows them"


def test_what_finds_no_room_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        path = disk.path / "lines"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        append_whole(fd, b"whole\n", path)
        replace(disk.path / "other", b"old")
        disk.fill(leave_bytes=8192)
        with pytest.raises(OSError) as raised:
            append_whole(fd, bytes(1 << 20), path)
        assert path.read_bytes() == b"whole\n"
        with pytest.raises(OSError):
            replace(disk.path / "other", bytes(1 << 20))
        assert sorted(os.listdir(disk.path)) == [".ballast", "lines", "other"]
        assert (disk.path / "other").read_bytes() == b"old"
        said = no_space(raised.value)
        assert said is not None and said.args[0] == f"no space left in {disk.path} (lines)" and said.exit_code == 1
        disk.make_room()
        append_whole(fd, b"again\n", path)
        os.close(fd)
        assert path.read_bytes() == b"whole\nagain\n"


def test_an_event_that_finds_no_room_spoils_no_other(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        log = EventLog(path := disk.path / "events.jsonl")
        log.write("first")
        disk.fill()
        with pytest.raises(OSError) as raised:
            log.write("second", padding="x" * 10_000)
        assert raised.value.filename == str(path)
        assert path.stat().st_size > 1000, "a part of it is in the file"
        disk.make_room()
        log.write("third")
        log.close()
        lines = path.read_text().splitlines()
    assert [json.loads(line)["event"] for line in (lines[0], lines[2])] == ["first", "third"] and len(lines) == 3


def test_a_block_that_fails_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    with replacing(path) as file:
        np.savez(file, a=np.arange(3))
    with pytest.raises(ValueError), replacing(path) as file:
        file.write(b"half of it")
        raise ValueError
    assert np.load(path)["a"].tolist() == [0, 1, 2] and os.listdir(tmp_path) == ["model.npz"]


def test_two_who_replace_one_file_do_not_meet(tmp_path: Path) -> None:
    with replacing(tmp_path / "file") as one:
        one.write(b"one")
        with replacing(tmp_path / "file") as other:
            other.write(b"other")
        assert (tmp_path / "file").read_bytes() == b"other"
    assert (tmp_path / "file").read_bytes() == b"one" and [*tmp_path.iterdir()] == [tmp_path / "file"]


@pytest.mark.parametrize(
    ("content", "kept"),
    [(b"", b""), (b"a\nb\n", b"a\nb\n"), (b"a\nb", b"a\n"), (b"b", b""), (b"a\n" + b"b" * 200_000, b"a\n")],
)
def test_a_torn_line_is_cut_off(tmp_path: Path, content: bytes, kept: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content)
    cut_torn_line(path)
    assert path.read_bytes() == kept
    cut_torn_line(tmp_path / "nothing")


def test_a_full_disk_is_found_behind_other_errors() -> None:
    full = OSError(errno.EDQUOT, "Disk quota exceeded", "/some/where/rows")
    other = RuntimeError("no luck")
    other.__cause__ = full
    assert str(no_space(other)) == "no space left in /some/where (rows)\n  remedy: free some space"
    assert no_space(OSError(errno.EIO, "broken")) is None and no_space(RiprapError("x")) is None
    nameless = no_space(OSError(errno.ENOSPC, "No space left on device"))
    assert nameless is not None and "no space left: " in str(nameless)


def test_a_log_that_is_too_large_is_begun_anew_under_its_writer(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    assert not bound_log(log, 10), "there is none"
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, b"first\n")
    assert not bound_log(log, 10)
    os.write(fd, b"second\n")
    assert bound_log(log, 10)
    os.write(fd, b"third\n")
    os.close(fd)
    assert log.read_bytes() == b"third\n", "who appends goes on, without a gap"
    assert (tmp_path / "worker.log.old").read_bytes() == b"first\nsecond\n"
