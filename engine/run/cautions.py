"""The limits of a sound job's promises, told to its user before it starts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from riprap.codec.codes import CODES, make_code
from riprap.codec.codes.patterns import worst_condition
from riprap.configs.topology import Topology
from riprap.engine.run_directory.directory import read_events
from riprap.operators.names import newer_name

CONDITION_MAX = 1e8
"""The condition number beyond which a decoded value has fewer than 8 of its 16 digits."""
DIGITS = 15.95
"""The decimal digits of a float64."""


def cautions(topology: Topology) -> Iterator[str]:
    """A sentence for each, with the remedy, that the topology alone gives reason for."""
    if topology.scheme == "erasure":
        yield from _code_cautions(topology.fault_tolerance)


def old_names(topology: Topology) -> Iterator[str]:
    """Operators that are named as before all was imported as `riprap`."""
    for name, stage in topology.stages.items():
        newer = newer_name(stage.operator)
        if newer:
            yield f"stages.{name}.operator: {stage.operator} is now {newer}; write that instead"


def stands(run_dir: Path) -> Iterator[str]:
    """A sentence for each worker whose watermark held others up for long, and what to do about it."""
    events = [event for event in read_events(run_dir) if event["event"] == "event_time_stands"]
    for name in sorted({event["waits_for"] for event in events}):
        event = next(event for event in events if event["waits_for"] == name)
        yield (
            f"event time stood at {event['at']} for {event['windows']} windows, as {name} promised nothing newer: let"
            " it call out.watermark as it goes on, or out.idle() when it has nothing (docs/time.md)"
        )


def tell(texts: Iterable[str]) -> None:
    """Print them on stderr."""
    for text in texts:
        click.secho(f"warning: {text}", fg="yellow", err=True)


def _code_cautions(options: Mapping[str, Any]) -> Iterator[str]:
    name, k, r = options["code"], options["k"], options["r"]
    if name not in CODES or not r:
        return
    code = make_code(name, k, r)
    if code.exact:
        return
    condition = worst_condition(code)
    if condition > CONDITION_MAX:
        left = max(0, math.floor(DIGITS - math.log10(condition)))
        yield (
            f"the code {name} with k={k} and r={r} decodes badly: its condition number reaches {condition:.1g}, so "
            f"as few as {left} of the 16 digits of a decoded value may be right; {_better(k, r)}"
        )


def _better(k: int, r: int) -> str:
    stable = worst_condition(make_code("stable", k, r))
    return f"gf256 decodes bit for bit, and stable reaches {stable:.1g} with these k and r"
