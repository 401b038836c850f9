"""The two kinds of operators that users write, and all that a job's checks and trial do differently for them.

kind.py                the interface
roles.py               Source, Processor and Sink: items are rows of named columns, and the stages are these three
role_sources.py        their opened sources: columns, lengths, samples
role_trial.py          their trial
dataflow.py            DataflowOperators, in any graph of stages
dataflow_trial.py      their trial

Here alone a job's kind is chosen. Workers know it from the schema that they are told (engine/run/job_schema.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from riprap.configs.topology import Topology
from riprap.engine.run.kinds.dataflow import DataflowJobs
from riprap.engine.run.kinds.kind import JobKind
from riprap.engine.run.kinds.roles import RoleJobs
from riprap.engine.worker.operators import is_dataflow
from riprap.operators.base import Operator

DATAFLOW, ROLES = DataflowJobs(), RoleJobs()
KINDS: tuple[JobKind, ...] = (DATAFLOW, ROLES)


def kind_of(topology: Topology) -> JobKind:
    """The kind of a job that was checked."""
    return DATAFLOW if is_dataflow(topology) else ROLES


def kind_meant(scheme: str | None, operators: Iterable[type[Operator]]) -> JobKind:
    """The kind that a job is meant to be of: by all its operators; else by its scheme, or by most."""
    found = [kind for operator in operators for kind in KINDS if kind.has(operator)]
    if len(set(found)) == 1:
        return found[0]
    able = [kind for kind in KINDS if scheme in kind.schemes]
    if len(able) == 1:
        return able[0]
    return max(KINDS, key=found.count) if found else ROLES
