"""The method of a bench: a quiet machine, all cases in turn and in an order that changes, and medians of ratios."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import psutil

T = TypeVar("T")
Value = Callable[[Any], float]

LOAD_MAX = 0.3
WAIT_S = 240.0
LOOK_S, LOOK_EVERY_S = 2.0, 5.0


def busy_cores() -> float:
    """The cores that work for others now, over two seconds. The load average still tells of the bench before."""
    return float(psutil.cpu_percent(interval=LOOK_S)) / 100 * (os.cpu_count() or 1)


def await_quiet(load: Callable[[], float] = busy_cores, wait_s: float = WAIT_S) -> float:
    """Wait until less than 0.3 cores are busy, four minutes at most; returns the load at which the bench begins."""
    deadline = time.monotonic() + wait_s
    while (now := load()) >= LOAD_MAX and time.monotonic() < deadline:
        time.sleep(min(LOOK_EVERY_S, wait_s))
    return now


@dataclass
class Found(Generic[T]):
    """The results of the rounds of one case: None where a round did not complete, and the reason."""

    rounds: list[T | None] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def done(self) -> list[T]:
        """The rounds that completed."""
        return [one for one in self.rounds if one is not None]

    @property
    def n_of_n(self) -> str:
        """The number of completed rounds among all, as text."""
        return f"{len(self.done)} of {len(self.rounds)}"

    def median(self, value: Callable[[T], float]) -> float:
        """The median of the rounds that completed; NaN when none did."""
        return statistics.median(map(value, self.done)) if self.done else float("nan")


def alternate(
    title: str, cases: Mapping[str, T], run: Callable[[T], Any], rounds: int, warm_up: bool = True
) -> dict[str, Found[Any]]:
    """Run all cases round by round, in an order that changes from round to round; RuntimeErrors are kept.

    The warm-up is one run of the first case that counts for nothing: it fills the page cache and makes what is made
    once.
    """
    found: dict[str, Found[Any]] = {name: Found() for name in cases}
    if warm_up and cases:
        _attempt(title, "warm-up", run, next(iter(cases.values())), Found())
    for number in range(rounds):
        for name in order(list(cases), number):
            _attempt(title, f"round {number + 1} of {rounds}: {name}", run, cases[name], found[name])
    return found


def _attempt(title: str, what: str, run: Callable[[T], Any], case: T, found: Found[Any]) -> None:
    try:
        found.rounds.append(run(case))
        print(f"{title}, {what}: done", flush=True)
    except RuntimeError as error:
        found.rounds.append(None)
        found.failed.append(str(error))
        print(f"{title}, {what}: did not complete: {error}", flush=True)


def order(names: Sequence[str], number: int) -> list[str]:
    """The order of one round, the same in every run of the bench."""
    shuffled = list(names)
    random.Random(number).shuffle(shuffled)
    return shuffled


class Ratio(NamedTuple):
    """The ratio of a case to another, round by round: the median, and the interval of the ratios."""

    median: float
    low: float
    high: float
    n_of_n: str

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g}; {self.n_of_n})"


def ratio(case: Found[T], base: Found[T], value: Callable[[T], float]) -> Ratio:
    """The median of the rounds' ratios, with the interval that holds the true median in 94 % of cases or more.

    That is the range up to seven rounds, and from eight on the second smallest to the second largest (the sign test:
    of five rounds the range covers 93.75 %, of eight the inner range 93 %).
    """
    pairs = [(a, b) for a, b in zip(case.rounds, base.rounds) if a is not None and b is not None]
    ratios = sorted(value(a) / value(b) for a, b in pairs)
    n_of_n = f"{len(ratios)} of {len(case.rounds)}"
    if not ratios:
        return Ratio(float("nan"), float("nan"), float("nan"), n_of_n)
    cut = 1 if len(ratios) >= 8 else 0
    return Ratio(statistics.median(ratios), ratios[cut], ratios[-1 - cut], n_of_n)
