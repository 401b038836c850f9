"""Descriptions of operators as people read them: a list, a sheet for one, a page of documentation for all."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from riprap.engine.schemes.registry import names_for
from riprap.operators.catalogue import Description, option_row

WIDTH = 110
Families = Mapping[str, Sequence[Description]]
HEAD = """\
# Operators and their options

Generated from the code by `riprap operators --markdown`; `riprap operators NAME` prints a part of it, also of your own
operators. Options stand under `options` of a [stage](guide.md#2-write-a-topology). A metric of several tasks becomes
the job's as the last column says.
"""


def schemes_of(one: Description) -> list[str]:
    """The fault-tolerance schemes that can protect a job of such operators."""
    return names_for(one.kind == "dataflow", one.needs_order)


def listing(families: Families) -> str:
    """All names by family, a line each."""
    width = max(len(one.name) for described in families.values() for one in described)
    lines = []
    for family, described in families.items():
        lines += [family, *(f"  {one.name:<{width}}  {one.kind:<9}  {one.summary}" for one in described)]
        lines += [f"  schemes: {', '.join(schemes_of(described[0]))}", ""]
    return "\n".join([*lines, "`riprap operators NAME` shows the options, metrics and results of one."])


def sheet(one: Description) -> str:
    """All about one operator."""
    text = [f"{one.name}  ({one.kind})", _wrapped(one.summary + "."), *map(_wrapped, one.more.splitlines())]
    text += ["", _field("schemes", ", ".join(schemes_of(one)) + _extra(one))]
    text += [_field("results", one.results)] if one.results else []
    text += ["", "options" if one.options else "options: none"]
    for option in one.options:
        row = option_row(option)
        limits = ", ".join(part for part in (row["range"], row["unit"]) if part)
        text += [f"  {option.signature}" + (f"  ({limits})" if limits else "")]
        text += [_wrapped(row["meaning"] + ".", "      ")] if row["meaning"] else []
    if one.metrics:
        text += ["", "metrics"]
        text += [_wrapped(f"{m.name}: {m.says} ({_combined(m.combines)})", "  ", "      ") for m in one.metrics]
    return "\n".join([*text, "", "stage", f"  {one.example}"])


def page(families: Families) -> str:
    """The page of documentation."""
    parts = [HEAD]
    for family, described in families.items():
        parts += [f"## {family}\n" if family else ""]
        parts += ["\n".join(_section(one)) + "\n" for one in described]
    return "\n".join(part for part in parts if part)


def _section(one: Description) -> Iterator[str]:
    yield f"### `{one.name}`\n"
    yield f"*{one.kind}.* {_escaped(one.summary)}. {_escaped(' '.join(one.more.split()))}".rstrip() + "\n"
    yield f"Schemes: {', '.join(f'`{name}`' for name in schemes_of(one))}{_extra(one)}." + (
        f" Results: {_escaped(one.results)}" if one.results else ""
    )
    if one.options:
        yield "\n| option | type | default | range | unit | meaning |\n|---|---|---|---|---|---|"
        for option in one.options:
            row = option_row(option)
            cells = [
                f"`{row['option']}`",
                row["type"],
                f"`{row['default']}`",
                row["range"],
                row["unit"],
                row["meaning"],
            ]
            yield f"| {' | '.join(_escaped(cell) for cell in cells)} |"
    if one.metrics:
        yield "\n| metric | meaning | of several tasks |\n|---|---|---|"
        for metric in one.metrics:
            yield f"| `{metric.name}` | {_escaped(metric.says)} | {metric.combines} |"
    yield f"\n```yaml\n{one.example}\n```"


def _extra(one: Description) -> str:
    split = "; splits its work, for the attachment hybrid" if one.splits else ""
    return split + ("; may have several threads" if one.prepares else "")


def _combined(way: str) -> str:
    return f"of several tasks: the {way}" if way in ("sum", "mean") else f"of several tasks: {way}"


def _escaped(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*").replace("<-", r"\<-")


def _field(name: str, text: str) -> str:
    return _wrapped(f"{name}: {text}", "", "  ")


def _wrapped(text: str, first: str = "", later: str | None = None) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=first if later is None else later)
