"""Deletes what backup servers keep of a job that nobody will go on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riprap.backupserver.forget import forget
from riprap.codec.ids import records_of

DEADLINE_S = 5.0


def forget_backups(status: Mapping[str, Any]) -> list[str]:
    """Delete the logs of a job, by what the controller says of it; the servers that did not confirm it in time."""
    servers = status.get("servers") or ()
    return forget(servers, records_of(status["job"], status.get("run", "")), DEADLINE_S) if servers else []
