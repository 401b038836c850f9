"""The log of a service: what strangers say stays within its line."""

from __future__ import annotations

import logging

from riprap.engine.cli.daemon import OneLine


def test_a_message_cannot_forge_another_line() -> None:
    record = logging.LogRecord("a.b", logging.WARNING, "", 0, "dropped %s", ("x\n2026 INFO forged\x1b[2J\r",), None)
    line = OneLine("%(levelname)s %(name)s: %(message)s").format(record)
    assert line == r"WARNING a.b: dropped x\n2026 INFO forged\x1b[2J\r"


def test_tracebacks_keep_their_lines() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        record = logging.LogRecord("a", logging.ERROR, "", 0, "failed", (), (ValueError, error, error.__traceback__))
    assert OneLine("%(message)s").format(record).count("\n") >= 3
