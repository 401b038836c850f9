"""Starts a service of this host as a process of its own, with its output in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

COMMAND = (sys.executable, "-P", "-m", "riprap.engine.cli.main")
"""-P: nothing in the current directory replaces ours."""


def spawn(words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """The process of `riprap WORDS`, which appends its output to the log; only for the main thread, with which it ends.

    It has a session of its own: the terminal's Ctrl-C is the launcher's to handle.
    """
    with log.open("ab") as stream:
        return subprocess.Popen(
            [*COMMAND, *words, "--die-with-parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
