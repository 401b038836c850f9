"""`--set PATH=VALUE`: values of a topology changed from the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.configs.document import parse_scalar
from riprap.configs.explain import known_keys
from riprap.configs.problems import FieldPath, Problem, dotted, one_of, suggestion
from riprap.configs.schemes import SCHEMES

SCHEME_PATH: FieldPath = ("fault_tolerance", "scheme")
PLACE_DIGITS_MAX = 9
"""More digits are no place in any list, and Python takes thousands of them for no number."""


def parse_set(text: str) -> tuple[FieldPath, Any]:
    """Split `stages.processor.parallelism=6` into path and value; numbers in a path are places in a list.

    `fault_tolerance=NAME` sets the scheme, of the job or of a stage.
    """
    name, equals, value = text.partition("=")
    parts = name.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set {text!r}; expected PATH=VALUE", "write for example --set fault_tolerance.k=5")
    path: FieldPath = tuple(int(part) if part.isdecimal() and len(part) <= PLACE_DIGITS_MAX else part for part in parts)
    found = parse_scalar(value)
    return ((*path, "scheme") if path[-1] == "fault_tolerance" and isinstance(found, str) else path), found


def apply_sets(values: dict[str, Any], sets: Iterable[tuple[FieldPath, Any]]) -> list[Problem]:
    """Change `values` in place; returns what cannot be set as problems. The scheme is set before its options."""
    problems = []
    for path, value in sorted(sets, key=lambda item: item[0][-2:] != SCHEME_PATH):
        if path[-2:] == SCHEME_PATH:
            _forget_other_options(values, path, value)
        problem = _apply(values, path, value)
        if problem:
            problems.append(problem)
    return problems


def _apply(values: dict[str, Any], path: FieldPath, value: Any) -> Problem | None:
    node: Any = values
    for depth, part in enumerate(path):
        if isinstance(node, list):
            if not isinstance(part, int) or part >= len(node):
                return Problem(path, f"there is no {dotted(path[: depth + 1])}", f"a number below {len(node)}")
        elif not isinstance(node, dict):
            return Problem(path, f"{dotted(path[:depth])} is a single value", f"--set {dotted(path[:depth])}=VALUE")
        elif part not in node:
            problem = _unknown(values, node, path, depth)
            if problem:
                return problem
        if depth == len(path) - 1:
            node[part] = value
        elif isinstance(node, dict) and node.get(part) is None:
            node[part] = {}  # a section that the file leaves out, or leaves empty, begins here
        node = node[part]
    return None


def _unknown(values: dict[str, Any], node: dict[str, Any], path: FieldPath, depth: int) -> Problem | None:
    """The reason why a key that does not stand in the file may not be set, if there is one."""
    known = list(node) if path[:depth] in (("stages",), ("edges",)) else known_keys(path[:depth], values)
    if known is None or path[depth] in known:
        return None
    return Problem(path, f"there is no {dotted(path[: depth + 1])}", one_of(known), suggestion(str(path[depth]), known))


def _forget_other_options(values: dict[str, Any], path: FieldPath, scheme: Any) -> None:
    """Drop options that the file gives for its own scheme, at `path`, and the new one does not have.

    So the scheme stays one key: `--set fault_tolerance.scheme=none` needs no second edit for k and r.
    """
    holder: Any = values
    for part in path[:-2]:
        holder = holder.get(part) if isinstance(holder, dict) else None
    section, model = holder.get("fault_tolerance") if isinstance(holder, dict) else None, SCHEMES.get(str(scheme))
    if isinstance(section, dict) and model:
        kept = model.keys()
        holder["fault_tolerance"] = {key: value for key, value in section.items() if key in kept}
