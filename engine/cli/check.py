"""`riprap check`: tries a topology's operators in this process, on its own input, before it is run."""

from __future__ import annotations

from bdb import BdbQuit
from typing import TYPE_CHECKING

import click

from riprap.engine.cli.options import json_option, no_verify_option, set_option

if TYPE_CHECKING:
    from riprap.engine.run.trial import Trial
    from riprap.operators.trial.law import Outcome


@click.command("check")
@click.argument("topology", type=click.Path())
@click.option("--items", type=click.IntRange(1), default=10_000, show_default=True, help="Items of the input to try.")
@set_option
@no_verify_option
@json_option
def command(topology: str, items: int, sets: tuple[str, ...], no_verify: bool, as_json: bool) -> None:
    """Try the operators of TOPOLOGY in this process, on its own input.

    Checks shapes, dtypes, finite numbers, that the same items give the same bits, linearity where it is claimed, and
    that what is saved restores an operator. No other process is started, so `breakpoint()` works in an operator.

    Exit code 0 when nothing is complained about, 1 for complaints, 2 when the topology itself is wrong.

    \b
    Example:
      riprap check configs/logistic_regression_higgs.yaml --items 1000
    """
    from riprap.engine.run.trial import Trial

    try:
        complaints = _check(Trial.of(topology, sets, items, verify=not no_verify), as_json)
    except BdbQuit as left:
        raise click.Abort from left
    if complaints:
        raise SystemExit(1)


def _check(trial: Trial, as_json: bool) -> int:
    """Try everything, and report it; returns the number of complaints."""
    from riprap.codec.json_text import to_json
    from riprap.engine.run.trial import unchecked

    name, items = trial.job.topology.job, trial.job.items
    if not as_json:
        of = f"of {items:,} items" if items is not None else "items of a stream without end"
        click.echo(f"{name}: trying {trial.tried_items:,} {of}")
    outcomes = []
    for outcome in trial.outcomes():
        outcomes.append(outcome)
        if not as_json and not outcome.not_tried:
            click.echo(_line(outcome))
    complaints = [outcome for outcome in outcomes if outcome.complaint]
    left_out = unchecked(outcomes)
    if as_json:
        fields = [outcome.fields() for outcome in outcomes]
        said = {"job": name, "items": trial.tried_items, "complaints": len(complaints), "checks": fields}
        click.echo(to_json({**said, "not_checked": left_out}, indent=2))
        return len(complaints)
    click.echo(f"{len(complaints)} complaint{'' if len(complaints) == 1 else 's'}, {_count_ok(outcomes)} ok")
    click.echo("not checked: " + "\n             ".join(left_out))
    return len(complaints)


def _count_ok(outcomes: list[Outcome]) -> int:
    return sum(outcome.ok for outcome in outcomes)


def _line(outcome: Outcome) -> str:
    said = f"{'ok' if outcome.ok else 'COMPLAINT':<10} {outcome.subject}: {outcome.law}"
    return said if outcome.complaint is None else f"{said}\n  {outcome.complaint}"
