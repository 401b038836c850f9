"""The wait of a sink for the last few workers of an epoch: while that costs less than decoding, or a fixed time."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

WAITS = 1024
"""The waits that are remembered: a few seconds of short epochs, so that a change of load is soon forgotten."""
NEWS = 16
"""Waits after which the tail of the known ones is looked at anew: one more among a thousand says little."""
AT_FIRST_S = 1.0  # before so many waits have been measured
LEAST_S = 0.001  # below that a wait measures the clock and the scheduler
RANK = 2  # the longest wait may be an accident of its own: a start-up, a collection of garbage
TAIL, TAIL_WEIGHT, TAIL_MOST = 3, 6, 30
"""Beyond the known waits, what they exceed the usual one by follows a power law: of index 3, twice as much is eight
times as rare. The longest waits tell the index (Hill's estimator), with a 3 that counts for so many of them."""
TAIL_SHARE, TAIL_LEAST = 16, 4  # one in so many waits is of the tail, and so many at least
NEEDLESS = 3e-4
"""Of the waits for healthy workers, at most this share may be given up. Rows decoded in a calm run stay below 0.1 %."""
STOPS = 1e-5  # the chance that a worker stopped, or was cut off, since the epoch before
DETECTED_S = 2.0  # what one that stopped costs if nobody gives it up: the heartbeat's timeout
PRICE_AT_FIRST_S = 0.002  # of a decoded block, before one was decoded
PRICE_LEAST_S = 1e-6  # a clock may show less
ANSWERS = 4  # times what they took before, pieces that were asked for are waited for
LOOK_LEAST_S = 0.0005
GAIN = 0.125  # of the price


class Patience(Protocol):
    """Advises a hedge. A wait is the longest silence before an epoch's last result; 0 where nobody was waited for."""

    @property
    def look_s(self) -> float:
        """The silence after which it is time to ask the system for workers that stand still."""

    def limit_s(self, blocks: int) -> float:
        """The longest silence that is waited out when this many blocks are owed."""

    def answer_s(self, pieces: int) -> float:
        """The longest silence of workers that were asked for pieces, while this many are on their way."""

    def waited(self, seconds: float) -> None:
        """An epoch without any disturbance ended after this silence."""

    def paid(self, seconds: float, blocks: int) -> None:
        """Decoding and recomputing so many blocks took this long, pieces that had to be asked for included."""


class Tail(NamedTuple):
    """The longest of the known waits, and so how rare longer ones are."""

    usual_s: float
    excess_s: float
    """Of the longest one but for the accident, over the usual one."""
    rarity: float
    """The share of waits that are as long as that."""
    power: float

    @classmethod
    def of(cls, ordered: Sequence[float]) -> Tail:
        """The tail of waits in order."""
        count = len(ordered)
        usual_s, size = ordered[count // 2], max(TAIL_LEAST, count // TAIL_SHARE)
        excesses_s = [max(LEAST_S, wait - usual_s) for wait in ordered[-size - RANK + 1 : count - RANK + 1]]
        return cls(usual_s, excesses_s[-1], RANK / count, index_of(excesses_s))

    def beyond_s(self, share: float) -> float:
        """The wait that this share of all exceeds."""
        return float(self.usual_s + self.excess_s * (self.rarity / share) ** (1 / self.power))


class Fixed:
    """A time that the user set; infinite where nobody is given up before a detector says so."""

    look_s = math.inf

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def limit_s(self, blocks: int) -> float:
        return self._seconds

    def answer_s(self, pieces: int) -> float:
        return self._seconds

    def waited(self, seconds: float) -> None: ...

    def paid(self, seconds: float, blocks: int) -> None: ...


class ByCost:
    """Gives up when waiting on is expected to cost more than decoding.

    Let P(t) be the chance that a healthy worker is silent for longer than t. Decoding at t costs P(t) times the price
    of the blocks owed, for nothing; not decoding costs STOPS times DETECTED_S. P(t) comes from the waits seen lately,
    and from a power law beyond them that the longest of them tell, so a worker that is silent for longer than any ever
    was is soon given up. The price is what decoding took before, smoothed. NEEDLESS bounds P(t) where decoding is
    cheap.
    """

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self._ordered: list[float] = []  # the same
        self._tail: Tail | None = None
        self._news = 0
        """Waits that the tail does not know of."""
        self._price_s = PRICE_AT_FIRST_S
        self._has_paid = False

    @property
    def look_s(self) -> float:
        count = len(self._ordered)
        return max(LOOK_LEAST_S, self._ordered[count * 9 // 10]) if count else LOOK_LEAST_S

    def limit_s(self, blocks: int) -> float:
        if self._tail is None:
            return AT_FIRST_S
        return self._tail.beyond_s(min(NEEDLESS, STOPS * DETECTED_S / (self._price_s * max(1, blocks))))

    def answer_s(self, pieces: int) -> float:
        if not self._has_paid:
            return AT_FIRST_S
        return self.limit_s(pieces) + ANSWERS * self._price_s * pieces

    def waited(self, seconds: float) -> None:
        if len(self._recent) == WAITS:
            del self._ordered[bisect_left(self._ordered, self._recent.popleft())]
        self._recent.append(seconds)
        insort(self._ordered, seconds)
        self._news += 1
        if self._news >= NEWS:
            self._tail, self._news = Tail.of(self._ordered), 0

    def paid(self, seconds: float, blocks: int) -> None:
        gain = GAIN if self._has_paid else 1.0
        self._has_paid = True
        self._price_s += gain * (max(PRICE_LEAST_S, seconds / blocks) - self._price_s)


def index_of(tail: Sequence[float]) -> float:
    """The index of the power law whose tail these ordered values are, drawn towards TAIL.

    B. M. Hill, A simple general approach to inference about the tail of a distribution, Annals of Statistics 3 (1975).
    """
    logs = sum(math.log(value / tail[0]) for value in tail[1:])
    return min(TAIL_MOST, (len(tail) - 1 + TAIL_WEIGHT) / (logs + TAIL_WEIGHT / TAIL))


def make_patience(hedge: str | int) -> Patience:
    """Of the option `hedge`: none, cost, or milliseconds."""
    if hedge == "cost":
        return ByCost()
    return Fixed(math.inf if hedge == "none" else float(hedge) / 1000)
