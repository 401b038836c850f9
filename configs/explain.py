"""pydantic's findings in the user's words: the value in the file, the value expected, the value perhaps meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from riprap.configs import topology
from riprap.configs.declared import TopologySection
from riprap.configs.problems import FieldPath, Problem, one_of, shown, suggestion
from riprap.configs.schemes import CODES, SCHEMES
from riprap.configs.sections import Input, StageOptions
from riprap.configs.shape import EdgeSection
from riprap.configs.topology import Topology

SECTIONS: dict[FieldPath, type[TopologySection]] = {
    (): Topology,
    **{(name,): section for name, section in topology.SECTIONS.items()},
    ("stages", "*"): StageOptions,
    ("stages", "*", "input"): Input,
    ("edges", "*"): EdgeSection,
}
"""The section class that describes the mapping at a path; `*` stands for a stage's name or an edge's number."""

PATHS: list[FieldPath] = [
    ("input", "path"),
    ("stages", "*", "input", "path"),
    ("backup", "storage"),
    ("output", "path"),
    ("start_from",),
]

PATTERNS_EXPLAINED: dict[FieldPath, str] = {
    ("job",): "a name of letters, digits, _ and -, at most 64, a letter or digit first",
    ("stages", "*"): "a name of lower-case letters, digits and _, at most 32, a letter first",
    ("stages", "*", "operator"): "an import path MODULE:CLASS, for example logistic_regression:Gradient",
    ("fault_tolerance", "code"): "one of vandermonde, stable, xor, gf256, or MODULE:CLASS, a code of your own",
    ("edges", "*", "from"): "the name of a stage",
    ("edges", "*", "to"): "the name of a stage",
    ("placement", "spread", "*"): "the key of a label, for example rack or host",
    **dict.fromkeys(PATHS, "a path without a zero byte"),
}
"""Sentences that people read in place of a regular expression."""

FINDINGS_MAX = 500
"""A bound above the number shown; explaining each of a hundred thousand would hold a controller up."""

TYPES = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
    "model_attributes_type": "a mapping",
    "invalid-json-value": "numbers, text, true, false, null, lists or mappings of them",
}

BOUNDS = {"greater_than_equal": "at least {ge}", "less_than_equal": "at most {le}"}
BOUNDS |= {"greater_than": "more than {gt}", "less_than": "less than {lt}"}

LENGTHS = {"too_long": "at most {max_length} of them", "too_short": "at least {min_length} of them"}
LENGTHS |= {"string_too_short": "text that is not empty"}


def general(path: FieldPath) -> FieldPath:
    """`path` with names of stages, and numbers, replaced by `*`."""
    plain = tuple("*" if isinstance(part, int) else part for part in path)
    return (plain[0], "*", *plain[2:]) if len(plain) > 1 and plain[0] == "stages" else plain


def known_keys(path: FieldPath, values: Mapping[str, Any]) -> list[str] | None:
    """The keys that a mapping at `path` may have, or None when any may stand there."""
    if path[-1:] == ("fault_tolerance",):
        section = _at(values, path)
        model = SCHEMES.get(str(section.get("scheme"))) if isinstance(section, dict) else None
        return model.keys() if model else None
    found = SECTIONS.get(general(path))
    return found.keys() if found else None


def _at(values: Any, path: FieldPath) -> Any:
    """The value at a path; None where there is none."""
    for part in path:
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def explain(error: ValidationError, values: Mapping[str, Any], at: FieldPath = ()) -> Iterator[Problem]:
    """One Problem for each finding of pydantic; `values` is what was validated, where it stands at `at`."""
    for details in error.errors(include_url=False)[:FINDINGS_MAX]:
        yield _problem((*at, *_path(details["loc"])), details, values)


def _path(location: FieldPath) -> FieldPath:
    """Take out what pydantic adds to a path: the tag of a union, and the mark of a mapping's key."""
    tags = (i for i, part in enumerate(location) if i and location[i - 1] == "fault_tolerance" and part in SCHEMES)
    if (tag := next(tags, None)) is not None:
        location = (*location[:tag], *location[tag + 1 :])
    return tuple(part for part in location if part != "[key]")


def _problem(path: FieldPath, details: ErrorDetails, values: Mapping[str, Any]) -> Problem:
    kind = details["type"]
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        known = known_keys(path[:-1], values) or []
        return Problem(path, "unknown key", one_of(known) if known else "no such key", suggestion(str(path[-1]), known))
    if kind == "missing":
        return Problem(path, "missing", "a value", f"add the key {path[-1]}")
    if kind.startswith("union_tag"):
        return _scheme_problem(path, details)
    return Problem(path, f"is {shown(details['input'])}", _expected(path, details), _fix(path, details))


def _expected(path: FieldPath, details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind in BOUNDS:
        return BOUNDS[kind].format(**context)
    if kind == "string_pattern_mismatch":
        return PATTERNS_EXPLAINED.get(general(path), "text of the form {pattern}".format(**context))
    if kind == "literal_error":
        return "one of " + context["expected"].replace("'", "").replace(" or ", ", ")
    if kind in LENGTHS:
        return LENGTHS[kind].format(**context)
    return TYPES.get(kind, details["msg"])


def _fix(path: FieldPath, details: ErrorDetails) -> str:
    kind, value = details["type"], details["input"]
    if path[-2:] == ("fault_tolerance", "code"):
        return suggestion(str(value), CODES)
    if kind == "literal_error" and isinstance(value, str):
        names = details["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return suggestion(value, names)
    if kind in ("int_type", "float_type", "bool_type") and isinstance(value, str):
        return "take off the quotes" if value.replace(".", "", 1).isdigit() or value in ("true", "false") else ""
    return ""


def _scheme_problem(section: FieldPath, details: ErrorDetails) -> Problem:
    path, schemes = (*section, "scheme"), one_of(SCHEMES)
    if details["type"] == "union_tag_not_found":
        return Problem(path, "missing", schemes, "add the key scheme")
    scheme = details["input"]["scheme"]
    return Problem(path, f"is {shown(scheme)}", schemes, suggestion(str(scheme), SCHEMES))
