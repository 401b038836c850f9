"""A run as a notebook shows it: a few rows of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from riprap.engine.api.progress import Progress

FAILURES_MAX = 5


def page(
    job: str, directory: Path, now: Progress, metrics: Mapping[str, float], failures: Sequence[Mapping[str, Any]]
) -> str:
    """A table: phase, items with a bar where their number is known, workers, metrics, the latest failures."""
    rows = [
        ("job", escape(f"{job}  {now.phase}")),
        ("items", f"{now.items:,} at {now.items_per_second:,.0f} /s{_bar(now)}"),
        ("epoch", f"{now.epoch:,}"),
        ("workers", f"{now.workers_up} of {len(now.workers)} up"),
        ("metrics", escape("  ".join(f"{name} {value:.5g}" for name, value in metrics.items()))),
        *(("failure", escape(_failure(one))) for one in failures[-FAILURES_MAX:]),
        ("directory", escape(str(directory))),
    ]
    return (
        "<table>" + "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows if value) + "</table>"
    )


def _bar(now: Progress) -> str:
    return f' <progress max="{now.total_items}" value="{now.items}"></progress>' if now.total_items else ""


def _failure(one: Mapping[str, Any]) -> str:
    restored = one.get("restored_ms")
    after = f", restored after {restored:.1f} ms" if restored is not None else ""
    return f"{one['worker']}#{one['incarnation']} {one['action']}{after}"
