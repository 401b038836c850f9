"""What a stage with a scheme of its own asks of a topology; above all one that is coded (LEC III)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from riprap.configs.problems import FieldPath, Problem
from riprap.configs.schemes import Erasure, SchemeOptions, ThreeStage
from riprap.configs.shape import Shape

BYTE_CODES = ("gf256", "xor")
"""The codes that take blocks of any type."""
CODED = "a coded stage: one stage sends to it, it sends to one, and nothing is fed back to it or from it"


def stage_scheme_problems(
    shape: Shape, job: SchemeOptions | None, own: Mapping[str, SchemeOptions]
) -> Iterator[Problem]:
    """What is wrong with the schemes of stages; `job` is the job's."""
    for stage, scheme in own.items():
        at: FieldPath = ("stages", stage, "fault_tolerance")
        if isinstance(job, ThreeStage):
            yield Problem(
                at,
                f"is given, but the job's scheme {_name(job)} protects all stages together",
                "no scheme of a stage's own",
                "set fault_tolerance to a scheme that goes by stages, for example approximate or upstream_backup",
            )
        elif isinstance(scheme, Erasure):
            yield from _coded_problems(shape, stage, scheme, [name for name in own if isinstance(own[name], Erasure)])
        elif isinstance(scheme, ThreeStage):
            yield Problem(
                (*at, "scheme"),
                f"is {_name(scheme)}, which does not go by stages",
                "erasure for a stage without a state, or a scheme of general topologies",
            )


def _coded_problems(shape: Shape, stage: str, scheme: Erasure, coded: list[str]) -> Iterator[Problem]:
    at: FieldPath = ("stages", stage, "fault_tolerance")
    into, out = shape.in_edges(stage), shape.out_edges(stage)
    if len(into) != 1 or len(out) != 1 or into[0].feedback or out[0].feedback:
        yield Problem((*at, "scheme"), f"is erasure, but {len(into)} edges enter and {len(out)} leave", CODED)
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
            yield Problem((*at, "scheme"), f"is erasure, as that of {name}", "a stage between two coded ones")
    if any(edge.downstream == last for edge in shape.out_edges(first)):
        yield Problem((*at, "scheme"), f"is erasure, but {first} sends to {last} too", CODED)
    if into[0].partitioning != "stripe":
        wrong = f"is {into[0].partitioning}"
        yield Problem(("edges", into[0].index, "partitioning"), wrong, f"stripe, into the coded {stage}")
    yield from scheme.code_problems(at, *scheme.counts_of(tasks[stage]))
    yield from scheme.width_problems(stage, tasks[stage], *scheme.counts_of(tasks[stage]))
    if scheme.code not in BYTE_CODES:
        yield Problem((*at, "code"), f"is {scheme.code}", f"{' or '.join(BYTE_CODES)} inside a graph")
    if scheme.attachment != "lazy":
        yield Problem((*at, "attachment"), f"is {scheme.attachment}", "lazy inside a graph")


def _name(scheme: SchemeOptions) -> str:
    return str(scheme.scheme)  # type: ignore[attr-defined]  # each scheme has its own literal
