"""Prints a summary for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def report(summary: Mapping[str, Any], run_dir: Path) -> str:
    """A dozen lines: what was done, how fast, what failed and what became of it."""
    return "\n".join(f"{label:<12} {text}" for label, text in _lines(summary, run_dir))


def _lines(summary: Mapping[str, Any], run_dir: Path) -> Iterator[tuple[str, str]]:
    latency = summary["epoch_latency_ms"]
    yield "job", f"{summary['job']} ({summary['scheme']}), {'completed' if summary['completed'] else 'NOT completed'}"
    yield (
        "items",
        f"{summary['items']:,} in {summary['seconds']:.2f} s = {summary['items_per_second']:,.0f} items/s"
        + (f", start-up {summary['startup_seconds']:.2f} s" if summary["startup_seconds"] is not None else ""),
    )
    yield (
        "epochs",
        f"{summary['epochs']:,}, latency median {latency['median']:.1f} ms, p99 {latency['p99']:.1f} ms,"
        f" max {latency['max']:.1f} ms",
    )
    if summary["attempts"] > 1:
        yield "attempts", f"{summary['attempts']}; what follows is of the last one, but for metrics and model"
    yield "bytes", f"{summary['bytes_per_item']:.1f} per item on all edges"
    for failure in summary["failures"]:
        yield "failure", _failure(failure)
    yield from _repairs(summary)
    if summary["metrics"]:
        yield "metrics", ", ".join(f"{name} {_number(value)}" for name, value in summary["metrics"].items())
    if summary["model"].get("sha256"):
        yield "model", f"sha256 {summary['model']['sha256'][:16]}  {summary['model'].get('path', '')}"
    if summary["output"].get("sha256"):
        yield "output", f"{summary['output']['rows']:,} rows  {summary['output'].get('path', '')}"
    if summary["peak_rss_mb"]:
        yield "memory", f"at most {max(summary['peak_rss_mb'].values()):.0f} MB in a worker"
    yield "traces", str(run_dir)


def _failure(failure: Mapping[str, Any]) -> str:
    steps = ((name, failure[f"{name}_ms"]) for name in ("detected", "restored", "caught_up"))
    times = [f"{name.replace('_', ' ')} after {value:.1f} ms" for name, value in steps if value is not None]
    incarnation = f"#{failure['incarnation']}" if failure["incarnation"] else ""
    return f"{failure['worker']}{incarnation} {failure['action']}: {', '.join(times) or 'no failure was detected'}"


def _repairs(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for label in ("decoded", "recomputed"):
        if summary[f"{label}_items"]:
            yield label, f"{summary[f'{label}_items']:,} items"
    lost = summary["lost"]
    if lost["items"] or lost["states"]:
        yield "LOST", f"{lost['items']:,} items, {lost['states']:,} states"


def _number(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
