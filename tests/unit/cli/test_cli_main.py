"""What becomes of errors that no command expects: one message, and an exit code."""

from __future__ import annotations

import resource
import signal
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


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_exit_code_of_an_interrupted_command_stands_while_the_interpreter_shuts_down(signum: int) -> None:
    """The second interrupt comes as the modules are taken apart. Whoever runs the tests may ignore interrupts."""
    code = f"""
import signal, sys
from types import SimpleNamespace
from riprap.engine.cli import main as cli

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

class Last:
    def __del__(self, interrupt=signal.raise_signal):
        interrupt({int(signum)})

def main(arguments, standalone_mode):
    signal.raise_signal({int(signum)})

cli.riprap = SimpleNamespace(main=main)
sys.last = [Last()]
cli.main([])
"""
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_an_interrupt_while_a_command_is_imported_is_no_error_of_ours() -> None:
    code = """
import sys
class Finder:
    def find_spec(self, name, *_):
        if name == "click":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
import riprap.engine.cli.main
"""
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")
