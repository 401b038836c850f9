"""The machine that a job ran on, as its summary describes it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def describe() -> dict[str, Any]:
    """Versions, processor and memory of this host."""
    return {
        "riprap": _version("riprap"),
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "zmq": _version("pyzmq"),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as stream:
            names = [line.partition(":")[2].strip() for line in stream if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or "unknown"
