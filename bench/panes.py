"""Items a second that one core sums up in panes of event time: `python -m bench.panes`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.runs import save, table
from bench.text import REPEATS, rate
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.panes.panes import Panes

ITEMS, BLOCK, WINDOW, RATE, DISORDER = 4_000_000, 16_384, 500_000, 100, 100
"""Items of the stream, of a block, between two punctuations, and in a ms; and the disorder of times in ms."""
KEYS = (100, 10_000)
SHAPES: dict[str, dict[str, Any]] = {
    "fixed": {"panes": "fixed", "size": 10_000},
    "sliding (10)": {"panes": "sliding", "size": 10_000, "slide": 1_000},
    "sessions": {"panes": "sessions", "gap": 20},
}


class Away:
    """An emitter that drops what it gets; event time comes from the bench."""

    event_time: int | None = None
    promised: int | None = None

    def write(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Nothing is kept."""


def stream(keys: int) -> list[list[Items]]:
    """Blocks by window: keys (skewed), times out of order, values."""
    rng = np.random.default_rng(1)
    times = np.arange(ITEMS) // RATE + rng.integers(-DISORDER, 1, ITEMS)
    which = (rng.random(ITEMS) ** 2 * keys).astype(np.int64)
    values = rng.standard_normal(ITEMS)
    windows = []
    for epoch, begin in enumerate(range(0, ITEMS, WINDOW), 1):
        cuts = range(begin, min(begin + WINDOW, ITEMS), BLOCK)
        parts = [slice(cut, min(cut + BLOCK, begin + WINDOW, ITEMS)) for cut in cuts]
        windows.append([Items(epoch, "s", 0, p.stop - p.start, (which[p], times[p], values[p])) for p in parts])
    return windows


def run(windows: list[list[Items]], options: dict[str, Any]) -> Panes:
    """The whole stream through one task."""
    panes, out = Panes(aggregate="sum", **options), Away()
    panes.open(Context())
    for epoch, blocks in enumerate(windows, 1):
        for items in blocks:
            panes.process_data(items, 0, out)  # type: ignore[arg-type]
        out.event_time = epoch * WINDOW // RATE - DISORDER
        panes.process_punctuation(epoch, out)  # type: ignore[arg-type]
    return panes


def main() -> None:
    """Prints items a second, and the rows put out."""
    found: dict[str, dict[str, float]] = {}
    for keys in KEYS:
        windows = stream(keys)
        for name, options in SHAPES.items():
            panes = run(windows, options)
            label = f"{name}, {keys:,} keys"
            found[label] = {"items/s": rate(partial(run, windows, options), ITEMS), "rows": panes.state.fired}
    shown = [(name, row["items/s"] / 1e6, row["rows"]) for name, row in found.items()]
    caption = f"one core, {ITEMS:,} items in windows of {WINDOW:,}, medians of {REPEATS}"
    heading = ["panes", "million items/s", "rows put out"]
    save("panes", "Panes of event time", {caption: table(heading, shown)}, found, data="synthesized")


if __name__ == "__main__":
    main()
