"""Demands on a topology of a stage with a scheme of its own; above all of one that is coded (LEC III)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from riprap.configs.problems import FieldPath, Problem
from riprap.configs.schemes import CodesProcessors, Erasure, Replication, SchemeOptions
from riprap.configs.shape import Shape

BYTE_CODES = ("gf256", "xor")
"""The codes that take blocks of any type."""
CODED = "a coded stage: one stage sends to it, it sends to one, and nothing is fed back to it or from it"


def stage_scheme_problems(
    shape: Shape, job: SchemeOptions | None, own: Mapping[str, SchemeOptions]
) -> Iterator[Problem]:
    """Faults in the schemes of stages; `job` is the job's scheme."""
    for stage, scheme in own.items():
        at: FieldPath = ("stages", stage, "fault_tolerance")
        if isinstance(job, CodesProcessors):
            yield Problem(
                at,
                f"is given, but the job's scheme {job.model_dump()['scheme']} protects all stages together",
                "no scheme of a stage's own",
                "set fault_tolerance to a scheme that goes by stages, for example approximate or upstream_backup",
            )
        elif whole := next((one for one in (job, scheme) if one is not None and one.together), None):
            yield Problem(
                at,
                f"is given, but {whole.model_dump()['scheme']} {whole.together}",
                "one scheme for the job",
                "leave it out, or set fault_tolerance to a scheme that goes by stages, for example upstream_backup",
            )
        elif isinstance(scheme, Erasure | Replication):
            coded = [name for name in own if isinstance(own[name], Erasure | Replication)]
            yield from _coded_problems(shape, stage, scheme, coded)


def _coded_problems(shape: Shape, stage: str, scheme: Erasure | Replication, coded: list[str]) -> Iterator[Problem]:
    at: FieldPath = ("stages", stage, "fault_tolerance")
    into, out = shape.in_edges(stage), shape.out_edges(stage)
    if len(into) != 1 or len(out) != 1 or into[0].feedback or out[0].feedback:
        yield Problem((*at, "scheme"), f"is {scheme.scheme}, but {len(into)} edges enter and {len(out)} leave", CODED)
        return
    first, last = into[0].upstream, out[0].downstream
    tasks = shape.parallelism
    if tasks[first] != tasks[last]:
        yield Problem(
            ("stages", last, "parallelism"),
            f"is {tasks[last]}",
            f"{tasks[first]}, as {first} has: each task before the coded {stage} has one behind it",
        )
    for name in (first, last):
        if name in coded:
            yield Problem((*at, "scheme"), f"is coded, as {name} is", "a stage between two coded ones")
    if any(edge.downstream == last for edge in shape.out_edges(first)):
        yield Problem((*at, "scheme"), f"is {scheme.scheme}, but {first} sends to {last} too", CODED)
    if into[0].partitioning != "stripe":
        wrong = f"is {into[0].partitioning}"
        yield Problem(("edges", into[0].index, "partitioning"), wrong, f"stripe, into the coded {stage}")
    if isinstance(scheme, Replication):
        yield from scheme.group_problems(stage, tasks[stage])
    else:
        yield from _code_problems(at, stage, tasks[stage], scheme)


def _code_problems(at: FieldPath, stage: str, tasks: int, scheme: Erasure) -> Iterator[Problem]:
    yield from scheme.code_problems(at, *scheme.counts_of(tasks))
    yield from scheme.width_problems(stage, tasks, *scheme.counts_of(tasks))
    if scheme.code not in BYTE_CODES:
        yield Problem((*at, "code"), f"is {scheme.code}", f"{' or '.join(BYTE_CODES)} inside a graph")
    if scheme.attachment != "lazy":
        yield Problem((*at, "attachment"), f"is {scheme.attachment}", "lazy inside a graph")
