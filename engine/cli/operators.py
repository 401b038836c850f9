"""`riprap operators`: the operators, and the options that each of them takes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import to_json
from riprap.engine.cli.options import json_option

if TYPE_CHECKING:
    from riprap.operators.catalogue import Description


@click.command("operators")
@click.argument("name", required=False)
@json_option
@click.option("--markdown", is_flag=True, help="Print a page of documentation: docs/operators_reference.md.")
def command(name: str | None, as_json: bool, markdown: bool) -> None:
    """List the operators that come with Riprap, or show the options, metrics and results of one.

    NAME is MODULE:CLASS, shipped or your own, or a shipped MODULE for all of its classes.

    \b
    Example:
      riprap operators
      riprap operators svm:Model
      riprap operators my_module:MyOperator
    """
    from riprap.engine.cli.operators_text import listing, page, sheet

    found = _families(name)
    if as_json:
        every = [_plain(one) for described in found.values() for one in described]
        click.echo(to_json(every if name is None or len(every) != 1 else every[0], indent=2))
    elif markdown:
        click.echo(page(found), nl=False)
    elif name is None:
        click.echo(listing(found))
    else:
        click.echo("\n\n".join(sheet(one) for described in found.values() for one in described))


def _families(name: str | None) -> dict[str, list[Description]]:
    """The operators that are asked for, by family. ConfigError suggests the right name for one that is nearly right."""
    from riprap.operators.catalogue import describe, named
    from riprap.operators.shipped import SHIPPED, near

    if name is None:
        return {family: [describe(path) for path in paths] for family, paths in SHIPPED.items()}
    paths = named(name)
    if ":" not in paths[0]:
        close = near(name)
        hint = f"did you mean {close}? " if close else ""
        raise ConfigError(
            f"there is no operator {name!r}",
            f"{hint}Write MODULE:CLASS; `riprap operators` lists those that are shipped.",
        )
    return {"": [describe(path) for path in paths]}


def _plain(one: Description) -> dict[str, object]:
    from riprap.engine.cli.operators_text import schemes_of
    from riprap.operators.catalogue import option_row

    options = [
        {
            **option_row(option),
            "required": option.is_required,
            "default": None if option.is_required else option.default,
        }
        for option in one.options
    ]
    metrics = [asdict(metric) for metric in one.metrics]
    facts = {"name": one.name, "kind": one.kind, "summary": one.summary, "more": one.more, "results": one.results}
    return {**facts, "schemes": schemes_of(one), "options": options, "metrics": metrics, "example": one.example}
