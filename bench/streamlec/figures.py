"""Draws grouped bars and lines beside the paper's figures, as SVG and PNG in bench/results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.runs import RESULTS

Points = Sequence[tuple[float, float]]


def bars(name: str, title: str, unit: str, groups: Mapping[str, Mapping[str, tuple[float, float]]]) -> str:
    """Group -> series -> (height, half width of its interval); returns the SVG's file name."""
    plot, axes = _axes(title, unit, width=max(6.0, 1.6 * len(groups)))
    series = list(dict.fromkeys(one for group in groups.values() for one in group))
    for number, one in enumerate(series):
        at = [i + (number + 0.5) / len(series) * 0.8 for i, group in enumerate(groups.values()) if one in group]
        heights, errors = zip(*(group[one] for group in groups.values() if one in group))
        axes.bar(at, heights, 0.8 / len(series), yerr=errors, label=one, capsize=2)
    axes.set_xticks([i + 0.4 for i in range(len(groups))], list(groups), fontsize=8)
    return _save(plot, axes, name)


def lines(name: str, title: str, x: str, unit: str, series: Mapping[str, Points]) -> str:
    """Series -> its points; returns the SVG's file name."""
    plot, axes = _axes(title, unit, width=6.0)
    for label, points in series.items():
        axes.plot(*zip(*points), marker="o", label=label)
    axes.set_xlabel(x)
    axes.set_ylim(bottom=0)
    return _save(plot, axes, name)


def _axes(title: str, unit: str, width: float):  # type: ignore[no-untyped-def]
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "riprap"  # the same figures, the same file
    from matplotlib import pyplot as plot

    figure, axes = plot.subplots(figsize=(width, 3.6), layout="constrained")
    axes.set_title(title, fontsize=10)
    axes.set_ylabel(unit)
    axes.grid(axis="y", alpha=0.3)
    return figure, axes


def _save(figure, axes, name: str) -> str:  # type: ignore[no-untyped-def]
    axes.legend(fontsize=8)
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / f"{name}.svg", metadata={"Date": None})
    return f"{name}.svg"
