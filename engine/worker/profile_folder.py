"""The folder that the workers of a profiled run leave their records in, for who draws its page."""

from __future__ import annotations

from pathlib import Path

PROFILE = "profile"
"""The folder of the run directory with a folder for each incarnation of a worker, in it a file for each of its
threads."""
ABOUT = "about.json"
UNRECORDED = "unrecorded.json"
SUFFIX = ".spans"

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot() -> str:
    """Names this host since it was started: monotonic times of two processes compare where this is the same."""
    return BOOT_ID.read_text().strip()
