"""The domains file of `riprap plan`: the tasks that fail together, and how likely (docs/planning.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from riprap.configs.document import read_document
from riprap.configs.problems import Problem, config_error, one_of, shown, suggestion
from riprap.controller.planning.domains import FailureDomain
from riprap.controller.planning.graph import TaskGraph
from riprap.engine.plan.numbers import wrong_number

KEYS = ("tasks", "probability")


def read_domains(path: str, graph: TaskGraph) -> tuple[FailureDomain, ...]:
    """Read a file in YAML or JSON; ConfigError lists all that is wrong: line, key and what was expected."""
    document = read_document(path)
    problems = list(_problems(document.values, graph))
    if problems:
        raise config_error(lambda at: f"{path}:{document.line(at)}", path, problems)
    number = {name: task for task, name in enumerate(graph.names)}
    return tuple(
        FailureDomain(str(name), frozenset(number[task] for task in domain["tasks"]), domain.get("probability", 1.0))
        for name, domain in document.values.items()
    )


def _problems(values: Any, graph: TaskGraph) -> Iterator[Problem]:
    if not isinstance(values, dict) or not values:
        yield Problem((), "is not a mapping", "domains by their names, as rack1: {tasks: [read.0, count.1]}")
        return
    seen: dict[str, str] = {}
    for name, domain in values.items():
        if not isinstance(domain, dict) or not isinstance(domain.get("tasks"), list):
            yield Problem((name,), f"is {shown(domain)}", "a mapping with the list tasks, and perhaps probability")
            continue
        for key in set(domain) - set(KEYS):
            yield Problem((name, key), "unknown key", one_of(KEYS), suggestion(str(key), KEYS))
        likely = domain.get("probability", 1.0)
        if expected := wrong_number(likely):
            yield Problem((name, "probability"), f"is {shown(likely)}", expected)
        for place, task in enumerate(domain["tasks"]):
            if task not in graph.names:
                close = suggestion(str(task), graph.names)
                yield Problem((name, "tasks", place), f"is {shown(task)}", "a task, as read.0", close)
            elif task in seen:
                yield Problem((name, "tasks", place), f"{task} is in {seen[task]} already", "each task in one domain")
            else:
                seen[task] = str(name)
    missing = [task for task in graph.names if task not in seen]
    if missing:
        yield Problem((), f"{len(missing)} tasks are in no domain, {missing[0]} among them", "each task in a domain")
