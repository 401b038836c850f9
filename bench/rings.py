"""How many pointers a second the rings pass between real threads: `python -m bench.rings`."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from engine._ring_race import race_mpsc, race_spsc

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
    """Print one line per ring, number of producers and batch size."""
    print(f"capacity {CAPACITY}, median of {REPEATS} runs, million pointers/s")
    for batch in (1, 4, 16, 64):
        rate = median_rate(lambda batch=batch: race_spsc(CAPACITY, 20_000_000, batch), 20_000_000)
        print(f"SPSC, batches of {batch:2}    {rate / 1e6:7.1f}")
    for producers in (1, 2, 3):
        rate = median_rate(lambda n=producers: race_mpsc(CAPACITY, n, 2_000_000), producers * 2_000_000)
        print(f"MPSC, {producers} producer(s)   {rate / 1e6:7.1f}")


if __name__ == "__main__":
    main()
