"""The hidden `riprap controller`: one controller process, leader or standby, with the schemes' plans put in here."""

from __future__ import annotations

import click

from engine.cli.options import die_with_parent_option


@click.command("controller", hidden=True)
@click.option("--zookeeper", required=True, metavar="HOST:PORT", help="The ensemble of the cluster.")
@click.option("--address", default="127.0.0.1", metavar="IP", help="Where agents and clients reach it.")
@die_with_parent_option
def command(zookeeper: str, address: str, die_with_parent: int | None) -> None:
    """Run a controller in the foreground; it leads, or waits until the leader is gone.

    \b
    Example:
      riprap controller --zookeeper 127.0.0.1:2181
    """
    from engine.cli.daemon import begin

    begin(die_with_parent)  # before the imports that take long
    from controller.service import run_controller
    from engine.schemes import plan_for

    run_controller(zookeeper, address, plan_for)
