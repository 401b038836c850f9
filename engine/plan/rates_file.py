"""The rates file of `riprap plan`: items per second of sources and links, selectivities, joins (docs/planning.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from riprap.configs.document import read_document
from riprap.configs.problems import FieldPath, Problem, config_error, one_of, shown, suggestion
from riprap.configs.shape import Shape, StageEdge, targets
from riprap.controller.planning.rates import StreamRates
from riprap.engine.plan.numbers import is_rate, wrong_number

KEYS = ("sources", "selectivity", "links", "correlated_inputs")


@dataclass(frozen=True)
class RatesFile:
    """The rates, and the stages that the file says are joins, or are none."""

    rates: StreamRates = field(default_factory=StreamRates)
    joins: Mapping[str, bool] = field(default_factory=dict)


def read_rates(path: str, shape: Shape) -> RatesFile:
    """Read a file in YAML or JSON; ConfigError lists all that is wrong: line, key and what was expected."""
    document = read_document(path)
    return to_rates(document.values, shape, path, lambda at: f"{path}:{document.line(at)}")


def to_rates(values: Any, shape: Shape, path: str, where: Callable[[FieldPath], str]) -> RatesFile:
    """The rates that a file's values are; ConfigError lists all that is wrong, with the place that `where` tells."""
    problems = list(_problems(values, shape))
    if problems:
        raise config_error(where, path, problems)
    sources = {name: _of_each_task(rate, shape.parallelism[name]) for name, rate in _part(values, "sources").items()}
    rates = StreamRates(sources, _part(values, "selectivity"), _part(values, "links"))
    return RatesFile(rates, _part(values, "correlated_inputs"))


def assumed(shape: Shape, rates: StreamRates) -> list[str]:
    """The sources of which no rate was given: neither their own, nor that of all their links."""
    return [
        stage
        for stage in shape.sources
        if stage not in rates.sources
        and not all(edge.name in rates.links for edge in shape.data_edges if edge.upstream == stage)
    ]


def _part(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return values.get(key) or {}


def _of_each_task(rate: float | list[float], tasks: int) -> list[float]:
    return rate if isinstance(rate, list) else [rate / tasks] * tasks


def _problems(values: Any, shape: Shape) -> Iterator[Problem]:
    if not isinstance(values, dict):
        yield Problem((), "is not a mapping", f"a mapping with {one_of(KEYS)}")
        return
    edges = {edge.name: edge for edge in shape.data_edges}
    known: dict[str, tuple[Iterable[str], Callable[[str, Any], str]]] = {
        "sources": (shape.sources, lambda name, value: _wrong_source(value, shape.parallelism[name])),
        "selectivity": (shape.parallelism, lambda name, value: wrong_number(value)),
        "links": (edges, lambda name, value: _wrong_links(value, edges[name], shape)),
        "correlated_inputs": (shape.parallelism, lambda name, value: _wrong_flag(value)),
    }
    for key, section in values.items():
        if key not in known:
            yield Problem((key,), "unknown key", one_of(KEYS), suggestion(str(key), KEYS))
        elif section is not None and not isinstance(section, dict):
            yield Problem((key,), f"is {shown(section)}", "a mapping")
        else:
            yield from _section_problems(key, section or {}, *known[key])


def _section_problems(
    key: str, section: Mapping[str, Any], names: Iterable[str], wrong: Callable[[str, Any], str]
) -> Iterator[Problem]:  # fmt: skip
    names = list(names)
    for name, value in section.items():
        if name not in names:
            kind = {"sources": "source stage", "links": "data edge"}.get(key, "stage")
            yield Problem((key, name), f"there is no such {kind}", one_of(names), suggestion(str(name), names))
        elif expected := wrong(name, value):
            yield Problem((key, name), f"is {shown(value)}", expected)


def _wrong_flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _wrong_source(value: Any, tasks: int) -> str:
    if isinstance(value, list):
        fits = len(value) == tasks and all(map(is_rate, value)) and any(value)
        return "" if fits else f"a rate for each of its {tasks} tasks, none below 0 and not all 0"
    return "" if is_rate(value) and value > 0 else "items per second of all its tasks, or a list with those of each"


def _wrong_links(value: Any, edge: StageEdge, shape: Shape) -> str:
    """The expected form of a matrix of rates, or nothing where it has that."""
    sending, receiving = shape.parallelism[edge.upstream], shape.parallelism[edge.downstream]
    rows = value if isinstance(value, list) else []
    sound = len(rows) == sending and all(isinstance(row, list) and len(row) == receiving for row in rows)
    if not sound or not all(is_rate(rate) for row in rows for rate in row):
        return f"{sending} lists (tasks of {edge.upstream}) of {receiving} rates (tasks of {edge.downstream})"
    for sender, row in enumerate(rows):
        allowed = targets(edge, sending, receiving, sender)
        for receiver, rate in enumerate(row):
            if rate > 0 and receiver not in allowed:
                link = f"{edge.upstream}.{sender} sends nothing to {edge.downstream}.{receiver}"
                return f"0 at [{sender}][{receiver}]: under {edge.partitioning} {link}"
    return ""
