"""`riprap agent`: this host's agent, which starts workers; with the worker program put in here."""

from __future__ import annotations

import socket

import click

from engine.cli.options import die_with_parent_option

WORKER = "engine.worker:main"


@click.command("agent")
@click.option("--zookeeper", required=True, metavar="HOST:PORT", help="The ensemble of the cluster.")
@click.option("--host", default=socket.gethostname, metavar="NAME", help="The name of this host (default: its own).")
@click.option("--address", metavar="IP", help="Where other hosts reach workers (default: as ZooKeeper is reached).")
@die_with_parent_option
def command(zookeeper: str, host: str, address: str | None, die_with_parent: int | None) -> None:
    """Run this host's agent in the foreground.

    \b
    Example:
      riprap agent --zookeeper 10.0.0.7:2181
    """
    from engine.cli.daemon import begin

    begin(die_with_parent)  # before the imports that take long
    from controller.agent import run_agent

    run_agent(zookeeper, host, address, entry=WORKER)
