"""The doctor finds what is missing, and says what to do about it."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from riprap.engine.cli.main import riprap
from riprap.engine.run import checkup

JAVA_17 = 'openjdk version "17.0.13" 2024-10-15\nOpenJDK Runtime Environment\n'


@pytest.mark.parametrize(
    ("output", "major"),
    [
        (JAVA_17, 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("Unable to locate a Java Runtime", 0),
    ],
)
def test_the_version_of_java(output: str, major: int) -> None:
    assert checkup.java_major(output) == major


@pytest.mark.parametrize(("version", "level"), [("17.0.1", "ok"), ("11.0.2", "FAIL"), ("1.8.0", "FAIL")])
def test_java_that_is_too_old_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, level: str) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = checkup.java()
    assert found.level == level and str(java) in found.found
    assert bool(found.remedy) == (level == "FAIL")


def test_a_machine_with_nothing_on_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("JAVA_HOME", "CC"):
        monkeypatch.delenv(name, raising=False)
    for check in (checkup.java(), checkup.compiler()):
        assert check.level == "FAIL" and "apt-get install" in check.remedy


def test_low_limits_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, 100))
    assert (checkup.open_files().level, checkup.processes().level) == ("warn", "warn")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert (checkup.open_files().found, checkup.processes().level) == ("unlimited", "ok")


def test_a_check_that_breaks_is_a_warning_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> checkup.Check:
        raise LookupError("no such file")

    monkeypatch.setattr(checkup, "CHECKS", (broken, checkup.python))
    assert [(check.name, check.level) for check in checkup.run_checks()] == [("broken", "warn"), ("Python", "ok")]


@pytest.mark.parametrize(("level", "code"), [("ok", 0), ("warn", 0), ("FAIL", 1)])
def test_only_what_is_missing_makes_it_fail(monkeypatch: pytest.MonkeyPatch, level: str, code: int) -> None:
    monkeypatch.setattr(checkup, "CHECKS", (lambda: checkup.Check("Java", level, "9", "install it"),))
    result = CliRunner().invoke(riprap, ["doctor", "--json"])
    assert result.exit_code == code
    assert json.loads(result.output) == [{"name": "Java", "level": level, "found": "9", "remedy": "install it"}]
    assert "-> install it" in CliRunner().invoke(riprap, ["doctor"]).output


def test_this_machine_is_looked_at_in_full() -> None:
    names = [check.name for check in checkup.run_checks()]
    assert {"Python", "C compiler", "Java", "ZooKeeper", "extensions", "loopback", "unix sockets"} <= set(names)
    assert {"/dev/shm", "open files", "processes", "memory", "namespaces"} <= set(names)


def test_the_extensions_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(Path(__file__).parents[3]))])
    (found,) = checkup.extensions()
    assert found.level != "FAIL", found.found
