"""The first steps of agents and controllers: die with their launcher, and log to the stderr that it gave them."""

from __future__ import annotations

import logging

from riprap.controller import processes


class OneLine(logging.Formatter):
    """Writes a message in one line: text of others that a message quotes cannot pass for a line of its own.

    Tracebacks, which stand behind messages, keep their lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line of a record, with characters that cannot be printed escaped."""
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def begin(parent: int | None) -> None:
    """Tie this process to `parent` (a pid, None for nobody) and set logging up."""
    if parent:
        processes.die_with_parent(parent)
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)  # in a fork too, whatever its parent logs
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # it repeats each lost connection many times over
