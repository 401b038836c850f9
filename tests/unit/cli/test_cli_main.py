"""What becomes of errors that no command expects: one message, and an exit code."""

from __future__ import annotations

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
