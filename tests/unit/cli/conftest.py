"""A small topology object for tests that load no file."""

from __future__ import annotations

import pytest

from riprap.configs.topology import Topology

EDGES = (("source", "processor", False), ("processor", "sink", False), ("sink", "processor", True))


@pytest.fixture
def topology() -> Topology:
    """One source, six processors, one sink; erasure 4 + 2; seed 3."""
    stages = {"source": 1, "processor": 6, "sink": 1}
    return Topology.from_dict(
        {
            "job": "trial",
            "input": {"path": "/nowhere", "repeat": 1, "limit": None},
            "micro_batch": 100,
            "seed": 3,
            "stages": {name: {"operator": "m:C", "parallelism": n, "options": {}} for name, n in stages.items()},
            "edges": [{"from": a, "to": b, "partitioning": "full", "feedback": back} for a, b, back in EDGES],
            "fault_tolerance": {"scheme": "erasure", "code": "gf256", "k": 4, "r": 2, "hedge": 100},
            "links": {"block_bytes": 262144, "window_epochs": 2},
            "backup": {"servers": 1, "storage": None, "durability": "interval", "interval_ms": 100},
            "cluster": {
                "heartbeat_timeout_s": 2.0,
                "startup_timeout_s": 30.0,
                "recovery_timeout_s": 60.0,
                "stall_timeout_s": 60.0,
            },
        }
    )
