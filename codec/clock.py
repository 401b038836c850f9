"""The monotonic clock that a process reads: moments of two clocks are never subtracted from one another."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Mapping
from typing import Any


def clock_id() -> str:
    """Names the clock behind time.monotonic(): equal for two processes exactly if they read the same one.

    Each boot of a machine has its own, and so has each time namespace (time_namespaces(7)).
    """
    with open("/proc/sys/kernel/random/boot_id") as stream:
        boot = stream.read().strip()
    namespace = ""
    with contextlib.suppress(OSError):  # kernels before 5.6 have none
        namespace = os.readlink("/proc/self/ns/time")
    return f"{boot} {namespace}".strip()


CLOCK = zlib.crc32(clock_id().encode())
"""This process's clock as a number, short enough for messages."""


def opened(at: float, now: float) -> dict[str, Any]:
    """The moment at which an epoch was opened, as fields of a message that another host may read."""
    return {"opened_at": at, "opened_ago": now - at, "clock": CLOCK}


def opened_here(fields: Mapping[str, Any], now: float) -> float:
    """That moment on our clock, when the message came `now`; between two clocks its time on the way is not counted."""
    if fields.get("clock", CLOCK) == CLOCK:
        return float(fields["opened_at"])
    return now - float(fields["opened_ago"])
