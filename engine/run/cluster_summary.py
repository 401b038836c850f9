"""Sums up a job of a cluster when it has ended, as `riprap run` does for its own; called by the controller."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from riprap.configs.topology import Topology
from riprap.controller.faults import read_faults
from riprap.engine.run.environment import describe
from riprap.engine.run.holdout import holdout_metrics
from riprap.engine.run.summary import Facts, Injected, compose, left_out, shortfall
from riprap.engine.run_directory.checkpoints import read_checkpoints
from riprap.engine.run_directory.directory import read_events, read_summary, write_summary
from riprap.engine.run_directory.epochs import Committed
from riprap.engine.run_directory.rates import gather_rates


def sum_up(submitted: Mapping[str, Any], run_dir: Path, status: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write summary.json of a job that has ended, and return it; None when nothing was to be done.

    That is so when this attempt is summed up already, or when there is no run directory.
    """
    before = submitted["before"]
    if not run_dir.is_dir() or read_summary(run_dir).get("attempts") == len(before):
        return None
    topology = Topology.from_dict(submitted)
    committed = Committed(run_dir, len(submitted["sinks"]))
    committed.refresh()
    *earlier, epochs = committed.by_attempt(before)
    summary = compose(
        Facts(
            job=topology.job,
            scheme=topology.scheme,
            status=status,
            epochs=epochs,
            before=committed.before,
            earlier=earlier,
            injected=[injected(order) for order in status.get("injected") or ()],
            not_injected=not_injected(submitted, status),
            started_at=status.get("started_at"),
            checkpoints=read_checkpoints(run_dir),
            events=read_events(run_dir),
            environment=describe(),
            shortfall=shortfall(submitted, committed, status),
            left_out=left_out(submitted, committed, status),
            one_host=False,
        )
    )
    if summary["completed"]:
        summary["metrics"] |= holdout_metrics(summary["model"].get("path"), topology)
    with suppress(OSError):  # of use to the next plan alone
        gather_rates(run_dir, topology)
    write_summary(run_dir, summary)
    return summary


def not_injected(submitted: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, str]:
    """The faults that were never ordered, and the reasons."""
    given = {order["number"] for order in status.get("injected") or ()}
    why = "the job ended before that moment, or its target was not running from then on"
    return {str(fault): why for number, fault in enumerate(read_faults(submitted)) if number not in given}


def injected(order: Mapping[str, Any]) -> Injected:
    """A fault as the controller ordered it."""
    return Injected(order["worker"], order["incarnation"], order["action"], order["at"], order["clock"])
