"""`riprap doctor`: checks this machine and says what to install."""

from __future__ import annotations

from dataclasses import asdict

import click

from riprap.codec.json_text import to_json
from riprap.engine.cli.options import json_option

COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "red"}


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """Check Java, compilers, extensions, ports and limits; exit code 1 when something is missing.

    \b
    Example:
      riprap doctor
    """
    from riprap.engine.run.checkup import FAIL, Check, run_checks

    checks: list[Check] = []
    for check in run_checks():
        checks.append(check)
        if not as_json:
            click.echo(f"{click.style(f'{check.level:<5}', fg=COLOURS[check.level])} {check.name:<13} {check.found}")
            if check.remedy:
                click.echo(f"      {'':<13} -> {check.remedy}")
    if as_json:
        click.echo(to_json([asdict(check) for check in checks]))
    if any(check.level == FAIL for check in checks):
        raise SystemExit(1)
