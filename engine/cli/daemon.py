"""What agents and controllers do first: die with their launcher, and log to what the launcher gave them as stderr."""

from __future__ import annotations

import logging

from controller import processes


def begin(parent: int | None) -> None:
    """Tie this process to `parent` (a pid, None for nobody) and set logging up."""
    if parent:
        processes.die_with_parent(parent)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # it repeats each lost connection many times over
