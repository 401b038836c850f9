"""Appends to the logs of a job."""

from __future__ import annotations

from riprap.codec.events import EventLog
from riprap.controller.actions import Log


def append(action: Log) -> None:
    """Append an event to a log; OSError when it is not there then, or not on disk though it was to be."""
    log = EventLog(f"{action.run_dir}/{action.file}")  # events are few, and so no job keeps a descriptor
    try:
        log.write(action.event, **action.fields)
        if action.synced:
            log.sync()
    finally:
        log.close()
