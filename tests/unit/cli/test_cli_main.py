"""What becomes of errors that no command expects: one message, and an exit code."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from riprap.engine.cli import main as cli


def ended(monkeypatch: pytest.MonkeyPatch, error: Exception) -> object:
    def raising(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cli, "riprap", SimpleNamespace(main=raising))
    with pytest.raises(SystemExit) as end:
        cli.main([])
    return end.value.code


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied", "a/b"), IsADirectoryError(21, "Is", b"a/b")]
)
def test_a_file_that_is_not_ours_to_use_is_named(
    error: OSError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, error) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: a/b: {error.strerror}\n  remedy: ") and "should not happen" not in said


def test_the_traceback_of_an_error_of_ours_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(cli.tempfile, "gettempdir", lambda: str(tmp_path))
    assert ended(monkeypatch, FileNotFoundError(2, "No such file", "ours")) == 1
    assert "this should not happen; report it with" in capsys.readouterr().err
    (kept,) = tmp_path.iterdir()
    assert "FileNotFoundError" in kept.read_text()


def test_a_command_and_its_workers_may_open_as_many_files_as_the_system_allows() -> None:
    """Every shard of an input is one, and the usual limit is 1024."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    command = "riprap.main(['operators', '--help'], standalone_mode=False)"
    limits = "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    code = f"import resource; from riprap.engine.cli.main import riprap; {command}; {limits}"
    done = subprocess.run(
        ["sh", "-c", 'ulimit -Sn 256; exec "$0" -c "$1"', sys.executable, code],
        stdout=subprocess.PIPE, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.endswith(f"\n({hard}, {hard})\n")
