"""Checks of an input that is followed or comes from a server, before anything is started."""

from __future__ import annotations

import os
from collections.abc import Iterator

from riprap.configs.problems import FieldPath, Problem
from riprap.configs.sections import Input
from riprap.configs.topology import Topology
from riprap.controller.checkpointing import CHECKPOINTING
from riprap.engine.run.kinds.kind import JobKind
from riprap.engine.schemes.registry import SCHEMES, scheme_class
from riprap.operators.inputs.tcp_lines import addresses_of


def live_problems(topology: Topology, kind: JobKind) -> Iterator[Problem]:
    """Problems of all sources of a whole topology whose operators are of this kind."""
    for stage in topology.sources:
        source = topology.input_of(stage)
        at: FieldPath = ("stages", stage, "input") if topology.stages[stage].input else ("input",)
        if not source.is_live:
            if source.window_seconds is not None:
                fix = "set input.follow, or leave window_seconds out"
                yield Problem((*at, "window_seconds"), "the input has a length", "an input that goes on", fix)
            continue
        yield from _key_problems(topology, source, at)
        yield from _part_problems(source, topology.stages[stage].parallelism, at)
        yield from _protection_problems(topology, stage, kind, at)


def _key_problems(topology: Topology, source: Input, at: FieldPath) -> Iterator[Problem]:
    """Keys that mean nothing where nothing has a length."""
    if source.repeat != 1:
        yield Problem((*at, "repeat"), f"is {source.repeat}", "1 for an input that goes on by itself", "leave it out")
    if source.limit is not None:
        fix = "leave it out; --until items=N drains the job"
        yield Problem((*at, "limit"), f"is {source.limit}", "none for an input that goes on by itself", fix)
    if source.follow and source.is_remote:
        yield Problem((*at, "follow"), "the path is an address", "a file or directory to follow", "leave follow out")
    stall_s = topology.cluster.stall_timeout_s
    if source.window_seconds is not None and source.window_seconds >= stall_s:
        wrong, fix = f"is {source.window_seconds:g}", "make it shorter, or raise cluster.stall_timeout_s"
        yield Problem((*at, "window_seconds"), wrong, f"less than cluster.stall_timeout_s, {stall_s:g}", fix)


def _part_problems(source: Input, tasks: int, at: FieldPath) -> Iterator[Problem]:
    """A path of which the tasks cannot read disjoint parts."""
    path = source.path or ""
    if source.is_remote:
        addresses = addresses_of(path)
        if addresses is None:
            fix = "write tcp://127.0.0.1:9000, for example"
            yield Problem((*at, "path"), f"is {path}", "tcp://HOST:PORT, with commas where there are several", fix)
        elif len(addresses) != tasks:
            wrong, fix = f"{len(addresses)} addresses for {tasks} source tasks", "one for each task of the source"
            yield Problem((*at, "path"), wrong, fix, "name more of them with commas, or change its parallelism")
    elif source.follow and os.path.exists(os.path.join(path, "manifest.json")):
        yield Problem((*at, "follow"), f"{path} holds shards", "text files", "leave follow out")
    elif source.follow and path.endswith(".gz"):
        yield Problem((*at, "follow"), f"{path} is compressed", "plain text", "leave follow out")
    elif source.follow and os.path.isfile(path) and tasks > 1:
        fix = "set its parallelism to 1, or name a directory"
        yield Problem((*at, "path"), f"is one file for {tasks} source tasks", "a directory, or one task", fix)


def _protection_problems(topology: Topology, stage: str, kind: JobKind, at: FieldPath) -> Iterator[Problem]:
    """Stages that cannot read it, and schemes under which its log would be worth nothing."""
    if not kind.reads_live:
        wrong = f"{topology.stages[stage].operator} is a Source, which reads an input of known length"
        fix = "use dataflow operators, as configs/word_count.yaml does"
        yield Problem((*at, "path"), wrong, "DataflowOperators for an input that goes on", fix)
        return
    own = topology.stages[stage].fault_tolerance is not None
    where: FieldPath = ("stages", stage, "fault_tolerance", "scheme") if own else ("fault_tolerance", "scheme")
    options = topology.scheme_of(stage)
    exact = (name for name, scheme in SCHEMES.items() if scheme.exact and not scheme.ordered)
    able = sorted(name for name in exact if name not in CHECKPOINTING)
    if options["scheme"] not in able or not scheme_class(options).exact:
        wrong = f"is {options['scheme']}, which does not go back to where the log of {stage}'s input is"
        yield Problem(where, wrong, f"{', '.join(able[:-1])} or {able[-1]} for it", f"set it to {able[0]}")
    elif topology.backup.servers == 0:
        yield Problem(("backup", "servers"), "is 0", "1 or more: the input is logged there", "set it to 1")
