"""The schemes by name, and the choice among them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from riprap.engine.flow.scheme import Scheme
from riprap.engine.schemes import (
    approximate,
    barrier,
    committing,
    local_barrier,
    mini_batch,
    none,
    optimistic,
    partially_active,
    upstream_backup,
)
from riprap.engine.schemes.names import SPREAD

__all__ = ["ENDS", "SCHEMES", "SPREAD", "names_for", "scheme_class"]

#: Scheme name in the YAML -> the class whose objects are for one task each.
SCHEMES: dict[str, type[Scheme]] = {
    "none": none.Nothing,
    "approximate": approximate.Approximate,
    "barrier": barrier.Barrier,
    "erasure": committing.Committing,
    "mini_batch": mini_batch.MiniBatch,
    "optimistic": optimistic.Optimistic,
    "partially_active": partially_active.PartiallyActive,
    "reactive": mini_batch.MiniBatch,
    "replication": committing.Committing,
    "stop_the_world": barrier.StopTheWorld,
    "upstream_backup": upstream_backup.UpstreamBackup,
}

ENDS: Mapping[str, Any] = MappingProxyType({"scheme": "committing"})
"""The scheme of the sources and sinks around a coded stage that all of a job goes through (SPREAD)."""


def scheme_class(fault_tolerance: Mapping[str, Any]) -> type[Scheme]:
    """The scheme of a task, chosen here alone, by name and options: a barrier whose recovery is local is a class of its
    own, and thresholds that are all infinite promise nothing, which is `none`."""
    name = fault_tolerance["scheme"]
    if name == ENDS["scheme"]:
        return committing.Committing
    if name == "approximate" and all(fault_tolerance[limit] == math.inf for limit in ("theta", "l", "gamma")):
        name = "none"
    if fault_tolerance.get("recovery") == "local":
        return local_barrier.LocalBarrier
    return SCHEMES[name]


def names_for(general: bool, needs_order: bool = False) -> list[str]:
    """The schemes that a job may name: of dataflow operators where it is `general`, else one that trains or predicts.

    A stage of a general job may be coded all the same, by a scheme of its own. `needs_order`: one of its loops goes
    without supersteps, so it can neither take blocks in another order nor begin once more from what it had found.
    """
    if not general:
        return [name for name, scheme in SCHEMES.items() if not scheme.for_loops]
    names = [name for name in SCHEMES if name == "none" or name not in SPREAD]
    return [name for name in names if not (needs_order and _begins_loops_anew(SCHEMES[name]))]


def _begins_loops_anew(scheme: type[Scheme]) -> bool:
    """True when it cannot go on with a loop that depends on the order of blocks."""
    return scheme.reorders or scheme.for_loops or scheme.ordered
