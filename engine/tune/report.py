"""Reports the measurements and the proposal of tuning: a table, the line to paste, and all as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from riprap.engine.tune.pilots import flow
from riprap.engine.tune.search import Measured, Setting

HEADINGS = ("theta", "l", "gamma", "items/s", "against none", "loss", "state backups", "item backups", "failures")


@dataclass(frozen=True)
class Tuning:
    """The findings. `none` is the pilot without fault tolerance under the same failures, `undisturbed` its
    items per second without any; `growth` is that of the results (tune_loss.py), None where it does not matter.
    """

    target: float
    pilot_items: int
    items: int
    undisturbed: float
    none: Measured
    measured: Sequence[Measured]
    chosen: Measured | None
    proposal: Setting | None
    growth: float | None
    failures: int
    """Number to be injected in each pilot."""
    section: Mapping[str, Any]
    """The job's `fault_tolerance` as it was."""

    @property
    def line(self) -> str:
        """The proposal as a line of the topology; empty without one."""
        if self.proposal is None:
            return ""
        return f"fault_tolerance: {flow({**self.section, **self.proposal._asdict()})}"


def text(tuning: Tuning) -> str:
    """The report for people."""
    rows = [HEADINGS, _row("none", tuning.none, tuning), *(_measured_row(one, tuning) for one in tuning.measured)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
    lines.append(
        f"pilots of {tuning.pilot_items:,} of {tuning.items:,} items; without failures and fault tolerance"
        f" {tuning.undisturbed:,.0f} items/s"
    )
    return "\n".join([*lines, *_doubts(tuning), *_outcome(tuning)])


def document(tuning: Tuning) -> dict[str, Any]:
    """The report for scripts."""
    return {
        "accuracy": tuning.target,
        "pilot_items": tuning.pilot_items,
        "items": tuning.items,
        "failures": tuning.failures,
        "undisturbed_items_per_second": tuning.undisturbed,
        "none": _fields(tuning.none, tuning) | dict.fromkeys(Setting._fields),
        "measured": [_fields(one, tuning) for one in tuning.measured],
        "chosen": _fields(tuning.chosen, tuning) if tuning.chosen else None,
        "growth": tuning.growth,
        "proposal": tuning.proposal._asdict() if tuning.proposal else None,
        "line": tuning.line,
    }


def _doubts(tuning: Tuning) -> list[str]:
    """A pilot that ended before all of its failures had come says little."""
    fewest = min(one.failures for one in (tuning.none, *tuning.measured))
    missed = fewest < tuning.failures
    return [f"only {fewest} of {tuning.failures} failures came in time: raise --pilot-items"] if missed else []


def _outcome(tuning: Tuning) -> list[str]:
    if tuning.chosen is None or tuning.proposal is None:
        return [f"no thresholds that were measured kept the loss at {tuning.target:g} or below"]
    lines = [f"largest thresholds that kept the loss at {tuning.target:g} or below: {_listed(tuning.chosen.setting)}"]
    if tuning.growth is not None:
        lines.append(
            f"results grow with the stream's length to the power of {tuning.growth:.2f}, and thresholds may too"
        )
    if tuning.chosen.idle:
        lines.append("nothing was backed up under them; larger ones were not tried")
    return [*lines, tuning.line]


def _listed(setting: Setting) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in setting._asdict().items())


def _measured_row(one: Measured, tuning: Tuning) -> tuple[str, ...]:
    return _row(*(f"{value:.4g}" for value in one.setting), one, tuning)


def _row(*cells: Any) -> tuple[str, ...]:
    """A row begins with three thresholds, or with the name of a scheme that has none."""
    *first, one, tuning = cells
    named = [*first, *[""] * (3 - len(first))]
    rate, change = f"{one.items_per_second:,.0f}", f"{_against_none(one, tuning):+.1%}"
    counts = (one.state_backups, one.item_backups, one.failures)
    return (*named, rate, change, f"{one.loss:.3g}", *(f"{count:,}" for count in counts))


def _fields(one: Measured, tuning: Tuning) -> dict[str, Any]:
    return {
        **one.setting._asdict(),
        "loss": one.loss,
        "items_per_second": one.items_per_second,
        "against_none": _against_none(one, tuning),
        "state_backups": one.state_backups,
        "item_backups": one.item_backups,
        "failures": one.failures,
    }


def _against_none(one: Measured, tuning: Tuning) -> float:
    """The change of the rate against that without fault tolerance under the same failures."""
    base = tuning.none.items_per_second
    return one.items_per_second / base - 1 if base else 0.0
