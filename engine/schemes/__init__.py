"""The fault-tolerance schemes, one file each. To add one: write its file, and name it in SCHEMES.

Their interfaces are engine/flow/scheme.py, engine/flow/three_stage/scheme.py and engine/flow/port.py. What several of
them share is in parts/, and in engine/spreads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from riprap.engine.flow.scheme import DataflowScheme
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.flow.three_stage.scheme import Scheme
from riprap.engine.schemes import (
    approximate,
    barrier,
    erasure,
    mini_batch,
    none,
    reactive,
    replication,
    upstream_backup,
)

__all__ = ["DATAFLOW_SCHEMES", "SCHEMES", "STAGED_ONLY", "dataflow_scheme", "make_scheme"]

MakeHalf = Callable[[Layout, Mapping[str, Any]], Scheme]

#: Scheme name in the YAML -> what makes the halves that run at sources, processors and sinks.
SCHEMES: dict[str, tuple[MakeHalf, MakeHalf, MakeHalf]] = {
    "none": (none.NoneSource, none.NoneProcessor, none.NoneSink),
    "erasure": (erasure.ErasureSource, erasure.make_processor, erasure.make_sink),
    "reactive": (reactive.ReactiveSource, reactive.ReactiveProcessor, reactive.ReactiveSink),
    "replication": (replication.ReplicationSource, replication.ReplicationProcessor, replication.ReplicationSink),
}

#: The same for general topologies, where one class is for all tasks.
DATAFLOW_SCHEMES: dict[str, type[DataflowScheme]] = {
    "none": none.NoneDataflow,
    "approximate": approximate.Approximate,
    "barrier": barrier.Barrier,
    "mini_batch": mini_batch.MiniBatch,
    "reactive": mini_batch.MiniBatch,
    "stop_the_world": barrier.StopTheWorld,
    "upstream_backup": upstream_backup.UpstreamBackup,
}

#: Under these, stages that are Source, Processor and Sink run in tasks of the three-stage form.
STAGED_ONLY = frozenset(SCHEMES)


def dataflow_scheme(fault_tolerance: Mapping[str, Any]) -> type[DataflowScheme]:
    """The scheme of a general topology. Thresholds that are all infinite promise nothing, which is `none`."""
    name = fault_tolerance["scheme"]
    if name == "approximate" and all(fault_tolerance[limit] == math.inf for limit in ("theta", "l", "gamma")):
        name = "none"
    return DATAFLOW_SCHEMES[name]


def make_scheme(layout: Layout, fault_tolerance: Mapping[str, Any]) -> Scheme:
    """The scheme object for the worker `layout.me`."""
    source, processor, sink = SCHEMES[fault_tolerance["scheme"]]
    if layout.me in layout.sources:
        return source(layout, fault_tolerance)
    return (sink if layout.me in layout.sinks else processor)(layout, fault_tolerance)
