"""Deletes the logs on backup servers of a job that nobody will resume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riprap.backupserver.forget import forget
from riprap.codec.ids import records_of

DEADLINE_S = 5.0


def forget_backups(status: Mapping[str, Any]) -> list[str]:
    """Delete the logs of a job, by the controller's status of it; returns the servers that did not confirm in time."""
    servers = status.get("servers") or ()
    return forget(servers, records_of(status["job"], status.get("run", "")), DEADLINE_S) if servers else []
