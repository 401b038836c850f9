"""Checks of a topology's `output`, the files for the rows of windows, before anything is started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import escape, glob

from riprap.codec.errors import ConfigError
from riprap.configs.problems import Problem
from riprap.configs.sections import Output
from riprap.configs.topology import Topology

FIELDS = ("{window}", "{task}", "{name}")
PATH = ("output", "path")


def output_problems(topology: Topology, writes: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Destinations that write no rows of windows, names of files that would be the same.

    `writes`: by destination, the names of its rows.
    """
    output = topology.output
    assert output is not None, "asked for where there is one"
    names = {name for found in writes.values() for name in found}
    if not names:
        sinks = ", ".join(topology.stages[stage].operator for stage in topology.sinks)
        fix = "leave output out, or have its class name in `writes` what it gives to out.write (docs/results.md)"
        yield Problem(("output",), f"is given, but {sinks} writes no rows of windows", "a destination that does", fix)
    tasks = sum(topology.stages[stage].parallelism for stage in topology.sinks)
    yield from _path_problems(output, {"{task}": tasks, "{name}": len(names)})


def _path_problems(output: Output, counts: Mapping[str, int]) -> Iterator[Problem]:
    """Unless the path is a directory, it must tell windows, tasks and names apart."""
    fields = re.findall(r"\{[^{}]*\}", output.path)
    if unknown := [field for field in fields if field not in FIELDS]:
        yield Problem(PATH, f"has {', '.join(unknown)}", f"none but {', '.join(FIELDS)}")
    elif fields and not output.is_pattern:
        yield Problem(
            PATH, "has no {window}", "a file for each window", "add {window} to its name, or name a directory"
        )
    elif fields:
        for field, count in counts.items():
            if count > 1 and field not in fields:
                what = "tasks would write" if field == "{task}" else "kinds of rows would go to"
                yield Problem(PATH, f"has no {field}, and {count} {what} the same file", f"{field} in its name")


def check_output_is_free(topology: Topology) -> None:
    """ConfigError when another run's files lie where those of a new one would go: they would be taken for its own."""
    output = topology.output
    if output is None:
        return
    found = sorted(glob(str(replace(output, path=escape(output.path)).file("*", "*", "*"))))
    if found:
        raise ConfigError(
            f"output.path: {found[0]} is there already, and {len(found) - 1} more like it",
            "name another path, or remove the files of the former run",
        )
