"""Chooses the thresholds to measure, the measured ones to propose, and those to propose for a longer stream.

Pure: pilots are run by whoever drives the search.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

STEP = 10.0
"""From one setting to the next while all of them are good, or none."""
NARROW = 4.0
"""A good and a bad factor this close are not parted further: losses of single pilots are not that sharp."""
DIGITS = 2
"""Significant digits of a proposal."""

THRESHOLDS = ("theta", "l", "gamma")


class Setting(NamedTuple):
    """The user's thresholds Theta, L and Gamma of scheme `approximate` (AF 3.4)."""

    theta: float
    l: float  # noqa: E741
    gamma: float

    def scaled(self, factor: float, acting: Collection[str] = THRESHOLDS) -> Setting:
        """The thresholds, those that act larger or smaller; 0 and infinity stay, and Gamma is at least 1."""
        larger = Setting(self.theta * factor, self.l * factor, max(1.0, self.gamma * factor))
        return self._replace(**{name: getattr(larger, name) for name in acting})

    def rounded(self, acting: Collection[str] = THRESHOLDS) -> Setting:
        """Not more than these, those that act in few digits."""
        fewer = Setting(_round_down(self.theta), _round_down(self.l), max(1.0, _round_down(self.gamma)))
        return self._replace(**{name: getattr(fewer, name) for name in acting})


@dataclass(frozen=True)
class Measured:
    """One pilot: `loss` of accuracy against the undisturbed one, and its cost. `failures` were injected."""

    setting: Setting
    loss: float
    items_per_second: float
    state_backups: int = 0
    item_backups: int = 0
    failures: int = 0

    @property
    def idle(self) -> bool:
        """True when no threshold was ever reached, so that larger ones would change nothing."""
        return not self.state_backups and not self.item_backups


def search(
    start: Setting, target: float, pilots: int, acting: Collection[str] = THRESHOLDS
) -> Generator[Setting, Measured, None]:
    """Yields settings to be measured, at most `pilots`, and is sent the measurement of each.

    Thresholds that do not act (engine/run/inert.py) stay what they are. First the others together, in the ratio of
    `start`: by decades, until a loss above `target` and one not above it stand beside each other, then between these.
    Then each of them alone at the value that was too large for all together.
    """
    good: float | None = None
    bad: float | None = None
    factor, left = 1.0, pilots
    while left and (good is None or bad is None or bad / good > NARROW):
        measured = yield start.scaled(factor, acting)
        left -= 1
        if measured.loss <= target:
            good = factor
        else:
            bad = factor
        if (bad is None and measured.idle) or start.scaled(STEP, acting) == start:
            return
        factor = _next_factor(good, bad)
    if good is None or bad is None:
        return
    best, larger = start.scaled(good, acting), start.scaled(bad, acting)
    for field in Setting._fields[:left]:
        candidate = best._replace(**{field: getattr(larger, field)})
        if candidate not in (best, larger) and (yield candidate).loss <= target:
            best = candidate


def _next_factor(good: float | None, bad: float | None) -> float:
    if bad is None:
        return (good or 1.0) * STEP
    return bad / STEP if good is None else math.sqrt(good * bad)


def choose(measured: Sequence[Measured], target: float) -> Measured | None:
    """The largest whose loss, and that of all smaller ones measured, is at most `target`; None without any."""
    bad = [one.setting for one in measured if one.loss > target]
    sound = [one for one in measured if one.loss <= target and not any(_within(low, one.setting) for low in bad)]
    return max(sound, key=lambda one: sum(map(_magnitude, one.setting)), default=None)


def for_the_whole(
    setting: Setting, pilot_items: int, items: int, growth: float, acting: Collection[str] = THRESHOLDS
) -> Setting:
    """The thresholds for a stream of `items`, whose results are larger than the pilot's by its length to the `growth`.

    An error of Theta + L * alpha over all of the stream (AF 3.5) is then the same part of the result.
    """
    return setting.scaled((items / pilot_items) ** growth, acting).rounded(acting)


def _within(low: Setting, high: Setting) -> bool:
    return all(one <= other for one, other in zip(low, high))


def _magnitude(value: float) -> float:
    return math.log10(value) if 0 < value < math.inf else 0.0


def _round_down(value: float) -> float:
    if not 0 < value < math.inf:
        return value
    unit = DIGITS - 1 - math.floor(math.log10(value))
    scaled = value * 10.0**unit
    nearest = round(scaled)
    return float(f"{(nearest if abs(scaled - nearest) < 1e-6 else math.floor(scaled))}e{-unit}")
