"""Logs are handed out line by line, each once, while they grow."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from riprap.codec.errors import ConfigError
from riprap.codec.files import bound_log
from riprap.engine.cli.logs import LogTail
from riprap.engine.cli.main import riprap


def test_a_line_counts_once_its_end_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntw")
    tail = LogTail(path)
    assert list(tail.lines(final=False)) == ["one"]
    with path.open("a") as stream:
        stream.write("o\nthree")
    assert list(tail.lines(final=False)) == ["two"]
    assert list(tail.lines(final=True)) == ["three"]
    assert list(tail.lines(final=True)) == []


def test_a_log_that_its_agent_bounds_is_followed_on(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\n")
    tail = LogTail(path)
    assert list(tail.lines(final=False)) == ["one", "two"]
    for first, last in (("1", "three"), ("", "two")):
        with path.open("a") as stream:
            stream.write(f"{last}\n")
        assert bound_log(path, bytes_max=1)
        path.write_text(f"{first}\n")
        assert list(tail.lines(final=False)) == [last, first]


def test_all_workers_or_one(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "processor.0.log").write_text("from zero\n")
    (logs / "sink.0.log").write_bytes(b"from the \xff sink\n")
    everything = CliRunner().invoke(riprap, ["logs", str(tmp_path)]).output.splitlines()
    assert everything == ["processor.0    from zero", "sink.0         from the \N{REPLACEMENT CHARACTER} sink"]
    assert CliRunner().invoke(riprap, ["logs", str(tmp_path), "processor.0"]).output == "from zero\n"


def test_a_worker_without_a_log_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "processor.0.log").write_text("")
    error = CliRunner().invoke(riprap, ["logs", str(tmp_path), "procesor.0"]).exception
    assert "did you mean processor.0?" in str(error)


@pytest.mark.parametrize("name", ["/processor.0", "processor", "*", "../events"])
def test_what_names_no_worker_is_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "processor.0.log").write_text("")
    error = CliRunner().invoke(riprap, ["logs", str(tmp_path), name, "--follow"]).exception
    assert isinstance(error, ConfigError) and f"has no log of {name}" in str(error)
