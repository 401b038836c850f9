"""Prints a summary for people."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from riprap.engine.run.losses import sentences

FAILURES_MAX = 10


def report(summary: Mapping[str, Any], run_dir: Path) -> str:
    """A dozen lines: the work done, its speed, the failures and their repair."""
    return "\n".join(f"{label:<12} {text}" for label, text in _lines(summary, run_dir))


def _lines(summary: Mapping[str, Any], run_dir: Path) -> Iterator[tuple[str, str]]:
    yield "job", f"{summary['job']} ({summary['scheme']}), {'completed' if summary['completed'] else 'NOT completed'}"
    if summary["epochs"] or summary["completed"]:
        yield from _figures(summary)
    for fault, why in summary["faults_not_injected"].items():
        yield "no fault", f"{fault}: {why}"
    for failure in summary["failures"][:FAILURES_MAX]:
        yield "failure", _failure(failure)
    if len(summary["failures"]) > FAILURES_MAX:
        yield "failure", f"and {len(summary['failures']) - FAILURES_MAX} more, see summary.json"
    yield from _repairs(summary)
    if summary["metrics"]:
        yield "metrics", ", ".join(f"{name} {_number(value)}" for name, value in summary["metrics"].items())
    for file in _files(summary["model"]):
        yield "model", f"sha256 {file['sha256'][:16]}  {file.get('path', '')}"
        if not file.get("finite", True):
            yield "model", click.style("NOT FINITE: it holds NaN or infinity, and predicts nothing", fg="red")
    for file in _files(summary["output"]):
        yield "output", f"{file['rows']:,} rows  {file.get('path', '')}"
    yield "traces", str(run_dir)
    if summary["completed"]:
        yield "results", shlex.join(["riprap", "show", str(run_dir)])


def _figures(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The figures of a job that got on."""
    latency = summary["epoch_latency_ms"]
    former = summary.get("items_of_savepoint", 0)  # summaries of earlier versions have none
    yield (
        "items",
        f"{summary['items']:,}{f', {former:,} of them before the savepoint, the others' if former else ''}"
        f" in {summary['seconds']:.2f} s = {summary['items_per_second']:,.0f} items/s"
        + (f", start-up {summary['startup_seconds']:.2f} s" if summary["startup_seconds"] is not None else ""),
    )
    yield (
        "epochs",
        f"{summary['epochs']:,}, latency median {latency['median']:.1f} ms, p99 {latency['p99']:.1f} ms,"
        f" max {latency['max']:.1f} ms",
    )
    if summary["attempts"] > 1:
        yield "attempts", f"{summary['attempts']}; bytes, memory, failures and repaired items are those of the last one"
    yield "bytes", f"{summary['bytes_per_item']:.1f} per item on all edges"
    if summary["peak_rss_mb"]:
        yield "memory", f"at most {max(summary['peak_rss_mb'].values()):.0f} MB in a worker"


def _files(view: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The files of all sinks, of those that wrote one."""
    return [file for file in view.get("all", {"": view}).values() if file.get("sha256")]


def _failure(failure: Mapping[str, Any]) -> str:
    steps = ((name, failure[f"{name}_ms"]) for name in ("detected", "restored", "caught_up"))
    times = [f"{name.replace('_', ' ')} after {value:.1f} ms" for name, value in steps if value is not None]
    incarnation = f"#{failure['incarnation']}" if failure["incarnation"] else ""
    how = f"ended by {failure['ended']}" if failure["ended"] else failure["action"]
    outcome = "no failure was detected" if failure["injected_at"] is not None else "it was not replaced"
    return f"{failure['worker']}{incarnation} {how}: {', '.join(times) or outcome}"


def _repairs(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if summary["rollbacks"]:
        yield "rollbacks", f"{summary['rollbacks']:,} of all tasks together"
    for one in summary.get("replicas", {}).get("takeovers", ())[:FAILURES_MAX]:
        yield "takeover", f"{one['promoted']} went on for {one['worker']}"
    for label in ("decoded", "recomputed"):
        if summary[f"{label}_items"]:
            yield label, f"{summary[f'{label}_items']:,} items"
    yield from sentences(summary["lost"])


def _number(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return click.style("not finite", fg="red")
    return f"{value:.5g}" if isinstance(value, float) else str(value)
