"""`riprap agent`: this host's agent, which starts workers; with the worker program put in here."""

from __future__ import annotations

import socket

import click

from riprap.codec.start import importing
from riprap.engine.cli.options import cluster_ensemble_option, die_with_parent_option, label_option

WORKER = "riprap.engine.worker.worker:main"


@click.command("agent")
@cluster_ensemble_option
@click.option("--host", default=socket.gethostname, metavar="NAME", help="The name of this host (default: its own).")
@click.option("--address", metavar="IP", help="Where other hosts reach workers (default: as ZooKeeper is reached).")
@click.option(
    "--run-root", default="/", type=click.Path(exists=True, file_okay=False, resolve_path=True), show_default=True,
    help="The folder under which jobs may write.",
)  # fmt: skip
@label_option
@die_with_parent_option
def command(
    zookeeper: str, host: str, address: str | None, run_root: str, labels: tuple[str, ...], die_with_parent: int | None
) -> None:
    """Run this host's agent in the foreground.

    \b
    Example:
      riprap agent --zookeeper 10.0.0.7:2181
      riprap agent --zookeeper 10.0.0.7:2181 --label rack=r1 --label power=a

    Hosts with the same label may fail together: jobs can be spread over such failure domains (`placement` in a
    topology), and faults aimed at them (docs/domains.md). Every host has the label `host`, its name.
    """
    from riprap.engine.cli.daemon import begin

    begin(die_with_parent)  # before the imports that take long
    with importing():
        from riprap.controller.agent import run_agent
        from riprap.controller.labels import read_labels

    run_agent(zookeeper, host, address, entry=WORKER, root=run_root, labels=read_labels(labels))
