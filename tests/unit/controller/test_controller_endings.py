"""How a process ended, in words, and where its fault handler saw it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from riprap.controller.endings import crash_place, describe_end, ended_itself

CRASHING = """\
import ctypes, faulthandler, threading
faulthandler.enable()
threading.Thread(target=threading.Event().wait, daemon=True).start()
def process_data():
    ctypes.string_at(0)
process_data()
"""


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, ""),
        (0, ""),
        (3, "exit status 3"),
        (-signal.SIGKILL, ""),
        (-signal.SIGTERM, ""),
        (-signal.SIGSEGV, "signal SIGSEGV"),
        (-signal.SIGABRT, "signal SIGABRT"),
    ],
)
def test_only_what_a_process_did_to_itself_is_described(status: int | None, words: str) -> None:
    assert describe_end(status) == words and ended_itself(status) == bool(words)


def test_the_line_is_the_innermost_of_the_user_s_own(tmp_path: Path) -> None:
    program, log = tmp_path / "mine.py", tmp_path / "log"
    program.write_text(CRASHING)
    with log.open("wb") as stream:
        assert subprocess.run([sys.executable, program], stderr=stream, check=False).returncode == -signal.SIGSEGV
    assert crash_place(log) == f"process_data ({program}:5)", "not ctypes' own line"
    assert describe_end(-signal.SIGSEGV, crash_place(log)) == f"signal SIGSEGV in process_data ({program}:5)"
    assert crash_place(tmp_path / "none") == ""
    log.write_text("nothing of the kind\n")
    assert crash_place(log) == ""
