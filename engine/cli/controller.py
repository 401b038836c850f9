"""The hidden `riprap controller`: one controller process, leader or standby, with the schemes' plans put in here."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from riprap.codec.start import importing
from riprap.engine.cli.options import cluster_ensemble_option, die_with_parent_option


@click.command("controller", hidden=True)
@cluster_ensemble_option
@click.option("--address", default="127.0.0.1", metavar="IP", help="Where agents and clients reach it.")
@die_with_parent_option
def command(zookeeper: str, address: str, die_with_parent: int | None) -> None:
    """Run a controller in the foreground; it leads, or waits until the leader is gone.

    \b
    Example:
      riprap controller --zookeeper 127.0.0.1:2181
    """
    from riprap.engine.cli.daemon import begin

    begin(die_with_parent)  # before the imports that take long
    with importing():
        from riprap.configs.submission import check_submission
        from riprap.controller.service import run_controller
        from riprap.engine.schemes.plans import plan_for

    run_controller(zookeeper, address, plan_for, _on_ended, check_submission)


def _on_ended(topology: Mapping[str, Any], run_dir: str, status: Mapping[str, Any]) -> None:
    """Sum a job of a cluster up; one that has completed needs its backups no more. `riprap run` does that itself."""
    if "before" not in topology:  # that of a run; the imports below take longer than a controller's start
        return
    from riprap.engine.run.cluster_summary import sum_up
    from riprap.engine.services.forgetting import forget_backups

    summary = sum_up(topology, Path(run_dir), status)
    if summary is not None and summary["completed"]:
        for server in forget_backups(status):
            logging.warning("backup server %s did not confirm that it forgot job %s", server, status["job"])
