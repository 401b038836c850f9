"""Draws a run with matplotlib: metrics over items, throughput and latency over time, bytes by edge."""

from __future__ import annotations

import importlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.codec.files import replace
from riprap.engine.plot.series import Series, read_series

FORMATS = ("png", "svg")
SIZE = (10.0, 11.0)
DRAWN_MAX = 1e300
"""The largest metric that is drawn: matplotlib has no axis for the span of those that are all but infinite."""
COPIED, SHARED, FAILURE = "#1f77b4", "#aec7e8", "#d62728"


def draw(run_dir: Path, path: str | os.PathLike[str] | None = None) -> Any:
    """A matplotlib Figure of the run, also written to `path` if that is given; a notebook shows it.

    ConfigError without matplotlib, for a path that is neither .png nor .svg, or when nothing is committed in `run_dir`.
    """
    kind = "" if path is None else Path(path).suffix.lstrip(".").lower()
    if path is not None and kind not in FORMATS:
        raise ConfigError(f"{os.fspath(path)}: its name ends in none of .png and .svg", "name a file of either kind")
    figure = compose(read_series(run_dir))
    if path is not None:
        replace(path, _rendered(figure, kind))
    return figure


def compose(series: Series) -> Any:
    """The figure of some series: four axes, named by their `gid`: metrics, throughput, latency, bytes."""
    figure = _figure_class()(figsize=SIZE, layout="constrained")
    metrics, throughput, latency, sent = figure.subplots(4, 1)
    figure.suptitle(f"{series.job}  {series.scheme}".strip())
    _draw_metrics(metrics, series)
    throughput.stairs(series.items_per_second, series.seconds, color=COPIED, gid="items per second")
    throughput.set_ylabel("items per second")
    throughput.set_ylim(bottom=0)
    latency.stairs(series.latency_ms, series.seconds, color=COPIED, gid="latency")
    latency.set_ylabel("longest epoch latency (ms)")
    latency.set_ylim(bottom=0)
    for axes in (throughput, latency):
        _mark_failures(axes, series)
        axes.set_xlabel("seconds since the first item")
        axes.sharex(throughput)
    _draw_bytes(sent, series)
    return figure


def _draw_metrics(axes: Any, series: Series) -> None:
    axes.set_xlabel("items")
    axes.set_ylabel("metrics")
    for name, (items, values) in series.metrics.items():
        drawn = np.where(np.abs(values) < DRAWN_MAX, values, np.nan)
        axes.plot(items, drawn, marker="." if len(items) < 50 else None, label=name, gid=name)
    if series.metrics:
        axes.legend(fontsize="small")
    else:
        axes.text(0.5, 0.5, "no metrics were noted", ha="center", transform=axes.transAxes)


def _mark_failures(axes: Any, series: Series) -> None:
    for begin, end in series.recoveries:
        axes.axvspan(begin, end, color=FAILURE, alpha=0.15, gid="recovery")
    for mark in series.failures:
        axes.axvline(mark.at, color=FAILURE, linestyle=":", gid="failure")
        place = {"xy": (mark.at, 1), "xycoords": ("data", "axes fraction")}
        axes.annotate(mark.worker, **place, rotation=90, fontsize="x-small", va="top", ha="right", color=FAILURE)


def _draw_bytes(axes: Any, series: Series) -> None:
    names = sorted(series.bytes_sent.keys() | series.bytes_shared.keys())
    copied = [series.bytes_sent.get(name, 0) / 1e6 for name in names]
    shared = [series.bytes_shared.get(name, 0) / 1e6 for name in names]
    axes.barh(names, copied, color=COPIED, label="copied through links", gid="copied")
    axes.barh(names, shared, left=copied, color=SHARED, label="passed by reference", gid="shared")
    axes.set_xlabel("MB by edge")
    if names:
        axes.legend(fontsize="small")
    else:
        axes.text(0.5, 0.5, "known when the run has ended", ha="center", transform=axes.transAxes)


def _rendered(figure: Any, kind: str) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=kind)
    return content.getvalue()


def _figure_class() -> type[Any]:
    """matplotlib's Figure, that shows itself in a notebook whatever backend is chosen there."""
    try:
        base = importlib.import_module("matplotlib.figure").Figure
    except ModuleNotFoundError as error:
        raise ConfigError("matplotlib is not installed", "install it: pip install 'riprap[plot]'") from error

    class RunFigure(base):  # type: ignore[misc, valid-type]
        """The figure of a run."""

        def _repr_png_(self) -> bytes:
            return _rendered(self, "png")

    return RunFigure
