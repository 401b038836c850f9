"""`riprap tune`: proposes the thresholds of scheme approximate for an accuracy, from pilots with injected failures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riprap.codec.json_text import to_json
from riprap.engine.cli.options import FiniteRange, json_option, set_option

if TYPE_CHECKING:
    from riprap.configs.topology import Topology
    from riprap.engine.run.preflight import CheckedJob
    from riprap.engine.tune.pilots import PilotOutcome, Pilots, Quantity
    from riprap.engine.tune.report import Tuning
    from riprap.engine.tune.search import Measured, Setting

NONE = {"scheme": "none"}
RESULT = "tune.json"


@click.command("tune")
@click.argument("topology", type=click.Path())
@click.option(
    "--accuracy", type=FiniteRange(0, 1), required=True, metavar="LOSS", help="The loss to stay at or below, 0..1."
)
@click.option("--metric", metavar="NAME", help="What accuracy is measured by (default: all numbers of the results).")
@click.option(
    "--pilot-items", type=click.IntRange(min=1), metavar="N", help="The length of a pilot (default: 20 windows)."
)
@click.option("--failures", type=click.IntRange(1, 10), default=4, show_default=True, help="Kills in each pilot.")
@click.option(
    "--pilots", "most", type=click.IntRange(1, 50), default=8, show_default=True, help="Settings tried at most."
)
@click.option("--out", metavar="DIR", help="Where the pilots' run directories go (default: runs/JOB-tune-TIME).")
@set_option
@json_option
def command(
    topology: str, accuracy: float, metric: str | None, pilot_items: int | None, failures: int, most: int,
    out: str | None, sets: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Propose Theta, L and Gamma for a loss of accuracy.

    Runs short pilots of the job in which workers are killed, under thresholds ten times larger or smaller than those of
    the topology and between, and compares their results with those of a pilot in which nobody is.

    \b
    Example:
      riprap tune configs/word_count.yaml --accuracy 0.01

    Exit code: 0 thresholds are proposed; 1 none of those tried was good enough, or a pilot failed; 2 nothing was
    started.
    """
    from riprap.codec.errors import RiprapError
    from riprap.codec.files import replace
    from riprap.engine.tune.report import document, text

    tuning, folder = _tune(topology, sets, accuracy, metric, (pilot_items, failures, most), out)
    replace(folder / RESULT, to_json(document(tuning), indent=2) + "\n")
    click.echo(to_json(document(tuning), indent=2) if as_json else text(tuning))
    if tuning.proposal is None:
        raise RiprapError(
            f"no thresholds that were measured keep the loss at {accuracy:g} or below",
            "begin with smaller thresholds in the topology, or raise --accuracy or --pilots",
        )


def _tune(
    file: str, sets: tuple[str, ...], target: float, metric: str | None,
    sizes: tuple[int | None, int, int], out: str | None,
) -> tuple[Tuning, Path]:  # fmt: skip
    """Check the job, run the pilots and choose; the folder keeps the traces of all of them."""
    from riprap.engine.run.preflight import check_job
    from riprap.engine.run_directory.directory import TOPOLOGY, make_run_directory
    from riprap.engine.tune.pilots import Pilots, Quantity, kills, pilot_items, stream_items

    asked, failures, most = sizes
    job = check_job(file, sets)
    topology = job.topology
    _check_can_be_tuned(job)
    acting = _acting(topology)
    total = max(stream_items(topology).values())
    items = pilot_items(asked, total, topology.micro_batch, failures)
    folder = make_run_directory(out, f"{topology.job}-tune", topology.to_dict())
    click.echo(f"pilots of {items:,} items in {folder}", err=True)
    faults = kills(topology, -(-items // topology.micro_batch), failures)
    pilots = Pilots(str(folder / TOPOLOGY), topology, folder, faults)
    return _measure(pilots, Quantity(metric), target, (items, total), (most, acting)), folder


def _check_can_be_tuned(job: CheckedJob) -> None:
    from riprap.codec.errors import ConfigError
    from riprap.engine.run.kinds import DATAFLOW

    topology = job.topology
    if topology.scheme != "approximate":
        raise ConfigError(
            f"job {topology.job} has the scheme {topology.scheme}, which has no thresholds to tune",
            "add --set fault_tolerance.scheme=approximate",
        )
    if job.kind is not DATAFLOW:
        raise ConfigError(
            f"job {topology.job} is of {job.kind.name}, and pilots are of {DATAFLOW.name} alone",
            "try thresholds by riprap run: the distance of models that a kill may cost is in `lost` (docs/schemes.md)",
        )


def _acting(topology: Topology) -> tuple[str, ...]:
    """The thresholds that can be tuned; prints a note about the others. ConfigError when there is none."""
    from riprap.codec.errors import ConfigError
    from riprap.engine.run.inert import BEHIND, acting, reaches, said

    found = acting(topology)
    silent = [said(name, reach) for name, reach in reaches(topology).items() if not reach.acts and reach.inert]
    if not found:
        raise ConfigError(f"no threshold acts on job {topology.job}: {'. '.join(silent)}", BEHIND)
    for why in silent:
        click.echo(f"not tuned: {why}", err=True)
    return found


def _measure(
    pilots: Pilots, quantity: Quantity, target: float, items: tuple[int, int], asked: tuple[int, tuple[str, ...]]
) -> Tuning:
    """The pilots: undisturbed, without fault tolerance, then those that the search asks for."""
    from riprap.engine.tune.report import Tuning
    from riprap.engine.tune.search import choose, for_the_whole

    (pilot, total), acting = items, asked[1]
    section = pilots.topology.fault_tolerance
    start = _start_of(section)
    reference = _run(pilots, "undisturbed", NONE, pilot, disturbed=False)
    quantity.sizes(reference)  # says at once if there is no such thing
    unprotected = _run(pilots, "none", NONE, pilot, disturbed=True)
    measured = _search(pilots, quantity, reference, target, pilot, asked)
    chosen = choose(measured, target)
    growth = None
    if chosen is not None and section["window"] == "none" and pilot < total:
        growth = _growth(pilots, quantity, reference, pilot)
    proposal = for_the_whole(chosen.setting, pilot, total, growth or 0.0, acting) if chosen else None
    none = _measured(start, unprotected, quantity.loss(reference, unprotected))
    rate = reference.summary["items_per_second"]
    return Tuning(
        target, pilot, total, rate, none, measured, chosen, proposal, growth, len(pilots.faults), section
    )  # fmt: skip


def _search(
    pilots: Pilots, quantity: Quantity, reference: PilotOutcome, target: float, items: int,
    asked: tuple[int, tuple[str, ...]],
) -> list[Measured]:  # fmt: skip
    from riprap.engine.tune.search import search

    section = pilots.topology.fault_tolerance
    measured: list[Measured] = []
    asking = search(_start_of(section), target, *asked)
    try:
        setting = next(asking)
        while True:
            name = f"pilot-{len(measured) + 1}"
            outcome = _run(pilots, name, {**section, **setting._asdict()}, items, disturbed=True)
            measured.append(_measured(setting, outcome, quantity.loss(reference, outcome)))
            click.echo(f"  loss {measured[-1].loss:.3g}", err=True)
            setting = asking.send(measured[-1])
    except StopIteration:
        return measured


def _growth(pilots: Pilots, quantity: Quantity, reference: PilotOutcome, items: int) -> float:
    """The growth of the results, from an undisturbed pilot of half the length."""
    from riprap.engine.tune.loss import growth

    half = max(1, items // 2)
    shorter = _run(pilots, "half", NONE, half, disturbed=False)
    return growth(quantity.sizes(shorter), quantity.sizes(reference), items / half)


def _run(pilots: Pilots, name: str, section: Any, items: int, disturbed: bool) -> PilotOutcome:
    from riprap.engine.tune.pilots import flow

    click.echo(f"{name}: {flow(section)}", err=True)
    return pilots.run(name, section, items, disturbed)


def _start_of(section: Any) -> Setting:
    from riprap.engine.tune.search import Setting

    return Setting(*(float(section[name]) for name in Setting._fields))


def _measured(setting: Setting, outcome: PilotOutcome, loss: float) -> Measured:
    from riprap.engine.tune.search import Measured

    summary, saved = outcome.summary, outcome.summary["backups"]
    counts = saved["state_backups"], saved["item_backups"], len(summary["failures"])
    return Measured(setting, loss, summary["items_per_second"], *counts)
