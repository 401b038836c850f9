"""`riprap plan`: chooses the tasks that get an active replica, for the output that is kept when the others die."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from riprap.codec.json_text import to_json
from riprap.engine.cli.options import json_option, set_option

if TYPE_CHECKING:
    from riprap.configs.topology import Topology
    from riprap.engine.plan.document import PlanReport
    from riprap.engine.plan.rates_file import RatesFile

ALGORITHMS = ("auto", "exact", "dp", "greedy", "structure_aware")
DOCUMENT, PAGE = "plan.json", "plan.html"


@click.command("plan")
@click.argument("topology", type=click.Path())
@click.option(
    "--budget", required=True, metavar="N|N%", help="The tasks that may have a replica: a number, or a share."
)
@click.option("--from", "run", metavar="RUNDIR", help="Take the rates that this run of the job has had.")
@click.option(
    "--pilot-items", type=click.IntRange(min=1), metavar="N", help="Run the job on N items first, for its rates."
)
@click.option("--rates", metavar="FILE", help="Items per second of sources and links; assumed equal without any.")
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default="auto", show_default=True, help="The planner.")
@click.option(
    "--objective", type=click.Choice(("worst", "expected")), default="worst", show_default=True,
    help="Output kept if all tasks without a replica die, or in the mean if one failure domain does.",
)  # fmt: skip
@click.option("--domains", metavar="FILE", help="The tasks that fail together; without it, each task alone.")
@click.option("--curve", is_flag=True, help="Print what other budgets would keep, too.")
@click.option("--out", metavar="DIR", help="Where plan.json and plan.html go (default: JOB-plan).")
@set_option
@json_option
def command(
    topology: str, budget: str, run: str | None, pilot_items: int | None, rates: str | None, algorithm: str,
    objective: str, domains: str | None, curve: bool, out: str | None, sets: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Choose the tasks of TOPOLOGY that get an active replica, by the output that they keep.

    The share of the final output that is still put out while tasks without a replica are down is the output fidelity
    of a plan. Nothing is run but the pilot of --pilot-items, and without it the input need not be there.

    \b
    Example:
      riprap plan configs/heavy_hitters_staged.yaml --budget 3
      riprap plan configs/heavy_hitters_staged.yaml --budget 3 --from runs/heavy_hitters_staged-20260101-120000
      riprap plan configs/pagerank.yaml --budget 40% --curve
    """
    from riprap.configs.budget import replaceable
    from riprap.engine.plan.document import document
    from riprap.engine.plan.words import text

    loaded = _topology(topology, sets)
    _check_one({"--from": run, "--pilot-items": pilot_items, "--rates": rates})
    number = replicas_of(budget, replaceable(loaded.shape, loaded.fault_tolerance))
    given = _given(loaded, run, rates) if pilot_items is None else _of_pilot(topology, sets, pilot_items)
    report = _report(loaded, number, given, algorithm, objective, domains)
    folder = _write(report, out)
    if as_json:
        click.echo(to_json(document(report), indent=2))
    else:
        click.echo(text(report, curve))
        click.echo(f"wrote {folder / DOCUMENT} and {folder / PAGE}")


def _topology(file: str, sets: tuple[str, ...]) -> Topology:
    from riprap.configs.loading import load
    from riprap.engine.run.operator_checks import operator_problems

    return load(file, sets, [operator_problems], with_input=False)


class Given(NamedTuple):
    """Rates with their origin: the file, and where they were measured the name of the run or pilot."""

    file: RatesFile
    path: str | None = None
    measured_on: str = ""


def _check_one(sources: Mapping[str, object]) -> None:
    """ConfigError when several options name the rates."""
    from riprap.codec.errors import ConfigError

    if len(told := [option for option, value in sources.items() if value is not None]) > 1:
        raise ConfigError(f"{' and '.join(told)} each name the rates", f"give one of {', '.join(sources)}")


def _of_pilot(file: str, sets: tuple[str, ...], items: int) -> Given:
    from riprap.engine.tune.rate_pilot import pilot_rates

    click.echo(f"pilot of {items:,} items", err=True)
    rates, ran = pilot_rates(file, sets, items)
    return Given(rates, f"a pilot of {ran:,} items", f"a pilot of {ran:,} items")


def _given(topology: Topology, run: str | None, rates: str | None) -> Given:
    """The rates that the options name; ConfigError when they are none."""
    from riprap.engine.plan.rates_file import RatesFile, read_rates
    from riprap.engine.plan.run_rates import rates_of_run
    from riprap.engine.run_directory.rates import RATES

    if run is not None:
        return Given(rates_of_run(Path(run), topology.shape), str(Path(run, RATES)), run)
    if rates is not None:
        return Given(read_rates(rates, topology.shape), rates)
    return Given(RatesFile())


def _report(
    topology: Topology, budget: int, given: Given, algorithm: str, objective: str, domains: str | None
) -> PlanReport:
    from riprap.engine.plan.domains_file import read_domains
    from riprap.engine.plan.make import budgets, make_plan
    from riprap.engine.plan.premises import graph_of, notes_of

    shape, (file, path, measured_on) = topology.shape, given
    graph = graph_of(topology, file.rates, file.joins)
    apart = read_domains(domains, graph) if domains else ()
    notes = notes_of(shape, file.rates, graph, measured_on)
    wanted = budgets(graph.replaceable, budget)
    return make_plan(topology, graph, budget, cast(Any, algorithm), objective, apart, path, notes, wanted)


def replicas_of(text: str, tasks: int) -> int:
    """The number of replicas that a --budget allows; ConfigError when it is none."""
    from riprap.codec.errors import ConfigError
    from riprap.configs.budget import replicas_allowed

    try:
        return replicas_allowed(text, tasks)
    except ConfigError as error:
        raise ConfigError(f"--budget {text}: {error.args[0]}", error.remedy) from error


def _write(report: PlanReport, out: str | None) -> Path:
    """Write both files; ConfigError when the directory cannot be written."""
    from riprap.codec.errors import ConfigError
    from riprap.codec.files import no_space, replace
    from riprap.engine.plan.document import document
    from riprap.engine.plan.page import page

    folder = Path(out or f"{report.topology.job}-plan")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace(folder / DOCUMENT, to_json(document(report), indent=2) + "\n")
        replace(folder / PAGE, page(report))
    except OSError as error:
        if full := no_space(error):
            raise full from error
        raise ConfigError(f"--out {folder}: {error.strerror}", "name a directory that you may write to") from error
    return folder
