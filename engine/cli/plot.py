"""`riprap plot`: a run as one picture."""

from __future__ import annotations

from pathlib import Path

import click

from riprap.codec.errors import ConfigError


@click.command("plot")
@click.argument("run_dir", metavar="RUNDIR", type=click.Path(path_type=Path))
@click.option("--out", metavar="FILE", help="A .png or .svg (default: RUNDIR/plot.png).")
def command(run_dir: Path, out: str | None) -> None:
    """Draw a run: loss and accuracy over items, throughput and latency with the failures, bytes by edge.

    \b
    Example:
      riprap plot runs/svm_higgs-20260101-120000 --out svm.svg

    The run may still go on; bytes are known at its end. It needs matplotlib: pip install 'riprap[plot]'.
    """
    from riprap.engine.cli.asked_for import writing
    from riprap.engine.plot.figure import draw

    if not run_dir.is_dir():
        raise ConfigError(f"{run_dir}: there is no such directory", "name the run directory of a job")
    path = Path(out) if out else run_dir / "plot.png"
    with writing(path):
        draw(run_dir, path)
    click.echo(f"wrote {path}")
