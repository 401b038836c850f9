"""Pointers a second that the rings pass between real threads: `python -m bench.rings`."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

from bench.runs import save, table
from riprap.engine.wire._ring_race import race_mpsc, race_spsc

CAPACITY = 4096
REPEATS = 7


def median_rate(race: Callable[[], tuple[int, float]], count: int) -> float:
    """Median pointers per second; a pointer out of order ends the benchmark."""
    rates = []
    for _ in range(REPEATS):
        wrong, seconds = race()
        if wrong:
            raise SystemExit(f"{wrong} pointers came out of order")
        rates.append(count / seconds)
    return statistics.median(rates)


def main() -> None:
    """Print and save."""
    rates = {}
    for batch in (1, 4, 16, 64):
        rate = median_rate(partial(race_spsc, CAPACITY, 20_000_000, batch), 20_000_000)
        rates[f"SPSC, batches of {batch}"] = rate / 1e6
    for producers in (1, 2, 3):
        rate = median_rate(partial(race_mpsc, CAPACITY, producers, 2_000_000), producers * 2_000_000)
        rates[f"MPSC, {producers} producers"] = rate / 1e6
    caption = f"capacity {CAPACITY}, real threads, medians of {REPEATS} runs"
    save("rings", "Rings", {caption: table(["ring", "M pointers/s"], rates.items())}, rates)


if __name__ == "__main__":
    main()
