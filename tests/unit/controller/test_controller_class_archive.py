"""The archive of a JVM's classes: when it is written, when it is mapped, and when a JVM does without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from riprap.controller.class_archive import KEPT_MAX, OPTIONS, ClassArchive

MAPS, WRITES = "-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit="


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """That of a JVM of two jars, which nobody runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("java", "a.jar", "b.jar"):
        (tmp_path / name).write_text(name)
    return [str(tmp_path / "java"), "-Xmx128m", "-cp", f"{tmp_path / 'a.jar'}:{tmp_path / 'b.jar'}", "Main"]


def written(archive: ClassArchive, content: bytes = b"classes") -> Path:
    """What the JVM of an archive has written; then it ended."""
    partial = Path(archive.options()[-1].removeprefix(WRITES))
    partial.write_bytes(content)
    return partial


def kept(command: list[str], content: bytes = b"classes") -> Path:
    archive = ClassArchive(command)
    written(archive, content)
    archive.keep()
    return Path(ClassArchive(command).options()[-1].removeprefix(MAPS))


def test_the_first_jvm_writes_what_the_next_ones_map(command: list[str], tmp_path: Path) -> None:
    first = ClassArchive(command)
    partial = written(first)
    assert first.is_wanted()
    first.keep()
    later = ClassArchive(command)
    *others, option = later.options()
    assert (tuple(others), option[: len(MAPS)], later.is_wanted()) == (OPTIONS, MAPS, False)
    assert Path(option.removeprefix(MAPS)).read_bytes() == b"classes"
    assert [*(tmp_path / "cache" / "riprap").iterdir()] == [Path(option.removeprefix(MAPS))] != [partial]
    assert (tmp_path / "cache" / "riprap").stat().st_mode & 0o777 == 0o700


def test_of_two_at_once_one_writes(command: list[str]) -> None:
    first, second = ClassArchive(command), ClassArchive(command)
    second.options()
    written(first)
    assert second.is_wanted()
    first.keep()
    assert not second.is_wanted()


@pytest.mark.parametrize("spoilt", [b"", b"class", b"clasSes"])
def test_a_torn_archive_is_removed_and_written_again(command: list[str], spoilt: bytes) -> None:
    archive = kept(command)
    archive.write_bytes(spoilt)
    assert ClassArchive(command).options()[-1].startswith(WRITES)
    assert not archive.exists()
    assert kept(command) == archive and archive.read_bytes() == b"classes"


@pytest.mark.parametrize("change", ["flag", "jar", "java"])
def test_another_jvm_has_another_archive(command: list[str], tmp_path: Path, change: str) -> None:
    archive = kept(command)
    if change == "flag":
        command[1] = "-Xmx64m"
    else:
        os.utime(tmp_path / ("java" if change == "java" else "b.jar"), (1, 1))
    assert ClassArchive(command).options()[-1].startswith(WRITES)
    assert kept(command) != archive and archive.exists()


def test_few_are_kept(command: list[str]) -> None:
    archives = []
    for age in range(KEPT_MAX + 2):
        command[1] = f"-Xmx{age}m"
        archives.append(kept(command))
        os.utime(archives[-1], (age, age))
    assert [archive.exists() for archive in archives] == [False, False] + [True] * KEPT_MAX


def test_a_jvm_that_wrote_nothing(command: list[str], tmp_path: Path) -> None:
    archive = ClassArchive(command)
    archive.options()
    archive.keep()
    assert not [*(tmp_path / "cache" / "riprap").iterdir()]


@pytest.mark.parametrize("cache", ["java/in a file", "a:b"])
def test_a_folder_that_cannot_be_used(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
    archive = ClassArchive(command)
    assert archive.options() == [] and not archive.is_wanted()


def test_jars_that_are_not_files(command: list[str], tmp_path: Path) -> None:
    command[3] = f"{tmp_path}/*"
    assert ClassArchive(command).options() == []


def test_a_user_without_a_home(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("could not determine home directory")

    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setattr(Path, "home", homeless)
    assert ClassArchive(command).options() == []
