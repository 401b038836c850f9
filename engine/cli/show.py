"""`riprap show`: the results of a run as tables with named columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import to_json
from riprap.engine.cli.options import json_option

if TYPE_CHECKING:
    from riprap.operators.tables import Table

TOP = 20


@click.command("show")
@click.argument("run_dir", metavar="RUNDIR", type=click.Path())
@click.argument("what", metavar="[RESULT]", required=False)
@click.option("--top", type=click.IntRange(0), help=f"How many rows (default: {TOP} on the screen, else all).")
@click.option("--csv", "csv_file", metavar="FILE", type=click.Path(), help="Write the rows to a CSV file.")
@click.option("--parquet", "parquet_file", metavar="FILE", type=click.Path(), help="Write them to a Parquet file.")
@json_option
def command(
    run_dir: str, what: str | None, top: int | None, csv_file: str | None, parquet_file: str | None, as_json: bool
) -> None:
    """Show what a run computed: words and counts, lines, heavy hitters, models by the names of columns, and so on.

    Without RESULT it shows the main one, and says what else there is: `epochs`, `failures`, `metrics`, ...

    \b
    Example:
      riprap show runs/words
      riprap show runs/words --top 100 --csv words.csv
      riprap show runs/higgs model
      riprap show runs/higgs failures --json
    """
    from riprap.engine.cli.asked_for import writing
    from riprap.engine.flow.table_files import write_table
    from riprap.engine.show.results import RECORDS, results
    from riprap.engine.show.run import RunFiles
    from riprap.engine.show.screen import print_table
    from riprap.operators.tables import Table

    run = RunFiles(Path(run_dir))
    found = {} if what in RECORDS else results(run)
    for note in run.notes:
        click.echo(f"note: {note}", err=True)
    names = [*found, *RECORDS]
    name = what or names[0]
    if name not in names:
        raise ConfigError(f"{run_dir} has no result {name!r}", f"name one of {', '.join(names)}")
    table = found[name]() if name in found else RECORDS[name](run)
    some = Table({one: column[:top] for one, column in table.columns.items()}, table.note)
    for file, form in ((csv_file, "csv"), (parquet_file, "parquet")):
        if file is not None:
            with writing(file):
                write_table(Path(file), some.columns, form)
            click.echo(f"{name}: {len(some):,} rows written to {file}", err=True)
    if as_json:
        click.echo(_json(name, table, some))
    elif csv_file is None and parquet_file is None:
        print_table(name, table, TOP if top is None else top)
        click.echo(f"there is also: {', '.join(other for other in names if other != name)}")


def _json(name: str, table: Table, some: Table) -> str:
    from riprap.engine.flow.table_files import rows_of

    rows = [dict(zip(some.columns, row, strict=True)) for row in rows_of(some.columns)]
    return to_json({"result": name, "total": len(table), "note": table.note, "rows": rows})
