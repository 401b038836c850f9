"""`riprap adapt`: gives the replicas of a running job to the tasks that need them by the rates of now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from riprap.engine.cli.options import zookeeper_option

if TYPE_CHECKING:
    from riprap.configs.topology import Topology
    from riprap.controller.client import Client
    from riprap.engine.plan.adaptation import Adaptation

MEASURE_S = 10.0
GAIN = 0.01


@click.command("adapt")
@click.argument("job")
@click.option("--budget", metavar="N|N%", help="The tasks that may have a replica (default: as many as have one now).")
@click.option(
    "--measure-s", type=click.FloatRange(0.1, 3600), default=MEASURE_S, show_default=True, metavar="S",
    help="Count what the links carry for so long.",
)  # fmt: skip
@click.option("--plan", metavar="FILE", help="Take the tasks of this plan.json, and count nothing.")
@click.option(
    "--gain", type=click.FloatRange(0, 1), default=GAIN, show_default=True,
    help="Change nothing for less output fidelity than this.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@zookeeper_option
def command(
    job: str, budget: str | None, measure_s: float, plan: str | None, gain: float, dry_run: bool, zookeeper: str | None
) -> None:
    """Give the active replicas of JOB to the tasks that keep most of its output by the rates that it has now.

    Its topology must have `fault_tolerance.adapt: true`. New replicas begin before others end, two at a time; the
    output goes on, and stays exact.

    \b
    Example:
      riprap adapt road_incidents
      riprap adapt road_incidents --budget 8 --dry-run
    """
    from riprap.codec.errors import ConfigError
    from riprap.engine.services.cluster import open_client

    if plan is not None and budget is not None:
        raise ConfigError("--plan and --budget each say which replicas run", "give one of them")
    with open_client(zookeeper) as client:
        topology = _topology(job, client)
        if plan is not None:
            tasks = _planned(plan, topology)
        else:
            found = _measured(client, job, topology, budget, measure_s)
            click.echo(found.words)
            if found.gain < gain and len(found.running) == found.report.budget:
                click.echo(f"nothing changes for less than {gain:g} of output fidelity (--gain)")
                return
            tasks = found.report.tasks
        if dry_run:
            return
        client.adapt(job, tasks)
    click.echo(f"the replicas of {job} change; watch it with `riprap status {job}`")


def _topology(job: str, client: Client) -> Topology:
    """ConfigError for a job whose replicas are fixed."""
    from riprap.codec.errors import ConfigError
    from riprap.configs.loading import load
    from riprap.engine.run.cluster_start import find_run_directory
    from riprap.engine.run_directory.directory import TOPOLOGY

    topology = load(find_run_directory(job, client) / TOPOLOGY, with_input=False)
    if not topology.fault_tolerance.get("adapt"):
        raise ConfigError(
            f"the replicas of job {job} are those that it began with",
            "set fault_tolerance.adapt to true, and run it anew",
        )
    return topology


def _measured(client: Client, job: str, topology: Topology, budget: str | None, measure_s: float) -> Adaptation:
    from riprap.codec.errors import ConfigError
    from riprap.codec.ids import WorkerId
    from riprap.engine.cli.plan import replicas_of
    from riprap.engine.plan.adaptation import adaptation
    from riprap.engine.plan.live_rates import rates_between
    from riprap.engine.run.replicas import running

    before = client.status(job)["workers"]
    click.echo(f"counting items for {measure_s:g} s", err=True)
    time.sleep(measure_s)
    after = client.status(job)["workers"]
    rates = rates_between(before, after, topology)
    if not rates.links:
        raise ConfigError(
            f"no link of {job} has carried an item in {measure_s:g} s", "raise --measure-s, or name --plan"
        )
    names = [str(WorkerId.parse(name).primary) for name in running(after)]
    number = len(names) if budget is None else replicas_of(budget, topology.shape.replaceable)
    return adaptation(topology, rates, names, number)


def _planned(path: str, topology: Topology) -> list[str]:
    """The tasks of a plan.json; ConfigError for one of another topology."""
    from riprap.codec.errors import ConfigError
    from riprap.configs.plan_file import PlanFile

    file = PlanFile(path)
    if differences := list(file.differences(topology.shape)):
        raise ConfigError(f"--plan {path} is of another topology: {'; '.join(differences)}", "plan for this one")
    return [task for task in file.tasks if task.partition(".")[0] not in topology.sinks]
