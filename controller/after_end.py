"""Work done once a job has ended, on a thread that may wait; the composition root supplies it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

logger = logging.getLogger(__name__)

OnEnded = Callable[[Mapping[str, Any], str, Mapping[str, Any]], None]
"""Called with the topology as submitted, the run directory and the last status; once more after a change of leader."""


def nothing_to_do(topology: Mapping[str, Any], run_dir: str, status: Mapping[str, Any]) -> None:
    """For control planes that sum nothing up."""


class Endings:
    """Runs one ending after another; an error of one is logged, and does not affect the others."""

    def __init__(self, on_ended: OnEnded) -> None:
        self._on_ended = on_ended
        self._thread = ThreadPoolExecutor(1, "endings")

    def begin(self, topology: Mapping[str, Any], run_dir: str, status: Mapping[str, Any]) -> None:
        """Do the work that follows the end of a job."""
        self._thread.submit(self._do, topology, run_dir, status)

    def close(self) -> None:
        """Finish the ending that is under way."""
        self._thread.shutdown(cancel_futures=True)

    def _do(self, topology: Mapping[str, Any], run_dir: str, status: Mapping[str, Any]) -> None:
        try:
            self._on_ended(topology, run_dir, status)
        except Exception:  # the job has ended, whatever becomes of its summary
            logger.exception("job %s could not be summed up", status.get("job"))
