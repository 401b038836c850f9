"""The end of a worker's process in words: its exit status or signal, and the line where the fault handler saw it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from riprap.codec.users_code import is_below_engine, is_installed

LOG_TAIL_BYTES = 16 * 1024
OWN_SIGNALS = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP}
)
"""Signals that a process brings upon itself; others come from outside."""

_CRASHED = re.compile(r"^Current thread .*\n((?:  File .*\n)+)", re.MULTILINE)
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (\S+)')


def ended_itself(status: int | None) -> bool:
    """True of an exit status above 0, or a signal of the process's own making; False while it is not known."""
    return status is not None and (status > 0 or -status in OWN_SIGNALS)


def describe_end(status: int | None, crashed_at: str = "") -> str:
    """`exit status 3`, or `signal SIGSEGV in METHOD (FILE:LINE)`; empty when the process did not end by itself."""
    if status is None or not ended_itself(status):
        return ""
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    return f"{how} in {crashed_at}" if crashed_at else how


def crash_place(log: Path) -> str:
    """The innermost line below the engine in the fault handler's last trace, as `METHOD (FILE:LINE)`, if any."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    traces = _CRASHED.findall(text)
    frames = _FRAME.findall(traces[-1]) if traces else []
    own = [(file, line, name) for file, line, name in frames if is_below_engine(file) and not is_installed(file)]
    return f"{own[0][2]} ({own[0][0]}:{own[0][1]})" if own else ""
