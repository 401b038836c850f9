"""`riprap adapt`: gives the replicas of a running job to the tasks that need them by the rates of now."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from riprap.engine.cli.options import FiniteRange, zookeeper_option

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
    "--measure-s", type=FiniteRange(0.1, 3600), default=MEASURE_S, show_default=True, metavar="S",
    help="Count what the links carry for so long.",
)  # fmt: skip
@click.option("--plan", metavar="FILE", help="Take the tasks of this plan.json, and count nothing.")
@click.option(
    "--gain", type=FiniteRange(0, 1), default=GAIN, show_default=True,
    help="Change nothing for less output fidelity than this.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.option(
    "--every", type=FiniteRange(0.1, 86_400), metavar="S",
    help="Go on until the job ends, and look again so many seconds after the last look.",
)  # fmt: skip
@zookeeper_option
def command(
    job: str, budget: str | None, measure_s: float, plan: str | None, gain: float, dry_run: bool, every: float | None,
    zookeeper: str | None,
) -> None:  # fmt: skip
    """Give the active replicas of JOB to the tasks that keep most of its output by the rates that it has now.

    Its topology must have `fault_tolerance.adapt: true`. New replicas begin before others end, two at a time; the
    output goes on, and stays exact.

    \b
    Example:
      riprap adapt road_incidents
      riprap adapt road_incidents --budget 8 --dry-run
      riprap adapt road_incidents --every 60
    """
    from riprap.codec.errors import ConfigError
    from riprap.engine.services.cluster import open_client

    if plan is not None and budget is not None:
        raise ConfigError("--plan and --budget each say which replicas run", "give one of them")
    if plan is not None and every is not None:
        raise ConfigError("--every looks at the rates again and again, and --plan names the tasks", "give one of them")
    with open_client(zookeeper) as client:
        topology = _topology(job, client)
        looks = _Looks(client, job, topology, budget, measure_s, gain, dry_run)
        if plan is not None:
            looks.change(_planned(plan, topology))
        elif every is None:
            looks.once()
        else:
            looks.go_on(every)


@dataclass(frozen=True)
class _Looks:
    """Looks at the rates of a job, each with the change that is worth it."""

    client: Client
    job: str
    topology: Topology
    budget: str | None
    measure_s: float
    gain: float
    dry_run: bool

    def once(self) -> None:
        """Count, plan, and change. ConfigError where there is nothing to go by."""
        found = _measured(self.client, self.job, self.topology, self.budget, self.measure_s)
        click.echo(found.words)
        if found.gain < self.gain and len(found.running) == found.report.budget:
            click.echo(f"nothing changes for less than {self.gain:g} of output fidelity (--gain)")
        else:
            self.change(found.report.tasks)

    def change(self, tasks: Sequence[str]) -> None:
        """Have these tasks have a replica."""
        if not self.dry_run:
            self.client.adapt(self.job, tasks)
            click.echo(f"the replicas of {self.job} change; watch it with `riprap status {self.job}`")

    def go_on(self, every_s: float) -> None:
        """Look again and again, until the job has ended. Of a look that comes to nothing it is told why."""
        from riprap.codec.errors import ConfigError, RiprapError

        while not self._has_ended:
            try:
                self.once()
            except ConfigError as error:
                if not self._has_ended:
                    click.echo(f"note: {error}", err=True)
            with suppress(RiprapError):  # the time is over, and the job goes on
                self.client.wait(self.job, every_s, until=_is_over)
        click.echo(f"{self.job} has ended")

    @property
    def _has_ended(self) -> bool:
        return _is_over(self.client.status(self.job))


def _is_over(status: Mapping[str, Any]) -> bool:
    from riprap.controller.phases import TERMINAL

    return status["phase"] in TERMINAL


def _topology(job: str, client: Client) -> Topology:
    """ConfigError for a job whose replicas are fixed."""
    from riprap.configs.loading import load
    from riprap.controller.replicas import replicas_are_fixed
    from riprap.engine.run.cluster_start import find_run_directory
    from riprap.engine.run_directory.directory import TOPOLOGY

    topology = load(find_run_directory(job, client) / TOPOLOGY, with_input=False)
    if not topology.fault_tolerance.get("adapt"):
        raise replicas_are_fixed(job)
    return topology


def _measured(client: Client, job: str, topology: Topology, budget: str | None, measure_s: float) -> Adaptation:
    from riprap.codec.errors import ConfigError
    from riprap.codec.ids import WorkerId
    from riprap.configs.budget import replaceable
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
    able = replaceable(topology.shape, topology.fault_tolerance)
    number = len(names) if budget is None else replicas_of(budget, able)
    return adaptation(topology, rates, names, number)


def _planned(path: str, topology: Topology) -> list[str]:
    """The tasks of a plan.json; ConfigError for one of another topology."""
    from riprap.codec.errors import ConfigError
    from riprap.configs.plan_file import PlanFile

    file = PlanFile(path)
    if differences := list(file.differences(topology.shape)):
        raise ConfigError(f"--plan {path} is of another topology: {'; '.join(differences)}", "plan for this one")
    return file.tasks
