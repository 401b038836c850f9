"""The fault-tolerance schemes, one file each. To add one: write its file, and name it in SCHEMES.

scheme.py       the interface: Scheme (hooks), Port (all that a scheme may do), Boundary
parts/          what several schemes share
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.layout import Layout
from engine.schemes import erasure, none, reactive, replication
from engine.schemes.plans import plan_for
from engine.schemes.scheme import Scheme

__all__ = ["SCHEMES", "make_scheme", "plan_for"]

MakeHalf = Callable[[Layout, Mapping[str, Any]], Scheme]

#: Scheme name in the YAML -> what makes the halves that run at sources, processors and sinks.
SCHEMES: dict[str, tuple[MakeHalf, MakeHalf, MakeHalf]] = {
    "none": (none.NoneSource, none.NoneProcessor, none.NoneSink),
    "erasure": (erasure.ErasureSource, erasure.make_processor, erasure.make_sink),
    "reactive": (reactive.ReactiveSource, reactive.ReactiveProcessor, reactive.ReactiveSink),
    "replication": (replication.ReplicationSource, replication.ReplicationProcessor, replication.ReplicationSink),
}


def make_scheme(layout: Layout, fault_tolerance: Mapping[str, Any]) -> Scheme:
    """The scheme object for the worker `layout.me`."""
    source, processor, sink = SCHEMES[fault_tolerance["scheme"]]
    if layout.me in layout.sources:
        return source(layout, fault_tolerance)
    return (sink if layout.me in layout.sinks else processor)(layout, fault_tolerance)
