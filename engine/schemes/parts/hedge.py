"""When a sink stops waiting for stragglers: a timer that learns how far healthy workers lag behind one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from codec.ids import WorkerId

GAIN = 0.125
GAIN_VARIATION = 0.25
VARIATIONS = 4
"""Of the retransmission timer of TCP, which solves the same problem (RFC 6298, section 2)."""
EPOCHS = 3


class Hedge:
    """Watches who still owes results of the current epoch.

    The wait for the last few (at most `few` workers owe anything) is measured epoch by epoch; when it lasts longer than
    `least_s`, than the smoothed wait plus four times its variation, and than three usual epochs (on busy cores even
    healthy workers pause for that long), those who owe are stragglers. A straggler is not waited for again until it has
    delivered all that it owed of an epoch before that epoch was committed without it.
    """

    def __init__(self, few: int, least_s: float) -> None:
        self.few, self.least_s = few, least_s
        self.stragglers: set[WorkerId] = set()
        self._owed: Counter[WorkerId] = Counter()
        self._since: float | None = None
        self._disturbed = False
        self._wait_s = self._variation_s = self._epoch_s = 0.0
        self._ended_at: float | None = None

    @property
    def delay_s(self) -> float:
        """How long the last few are waited for."""
        return max(self.least_s, self._wait_s + VARIATIONS * self._variation_s, EPOCHS * self._epoch_s)

    def begin(self, owed: Iterable[WorkerId], now: float) -> None:
        """The current epoch is emitted whole; `owed` names the holder of each block that has no result yet."""
        self._owed = Counter(owed)
        self._since, self._disturbed = None, False
        self._look(now)

    def owes(self, worker: WorkerId, pieces: int, now: float) -> None:
        """A worker was asked for pieces of the current epoch; it gets the whole delay for its answer."""
        self._owed[worker] += pieces
        self._since, self._disturbed = now, True

    def delivered(self, worker: WorkerId, now: float) -> bool:
        """A piece of the current epoch came from its holder; True when the wait for the last few begins."""
        if worker not in self._owed:
            return False
        self._owed[worker] -= 1
        if self._owed[worker] > 0:
            return False
        del self._owed[worker]
        self.stragglers.discard(worker)
        return self._look(now)

    def lost(self, worker: WorkerId) -> None:
        """A worker died: nothing is owed by it any more, and this epoch is no measure."""
        self.stragglers.discard(worker)
        self._owed.pop(worker, None)
        self._disturbed = True

    def ended(self, now: float) -> None:
        """The current epoch is committed."""
        if self._ended_at is not None:
            self._epoch_s += GAIN * (now - self._ended_at - self._epoch_s) if self._epoch_s else now - self._ended_at
        self._ended_at = now
        if self._since is not None and not self._disturbed and not self._owed:
            wait = now - self._since
            self._variation_s += GAIN_VARIATION * (abs(wait - self._wait_s) - self._variation_s)
            self._wait_s += GAIN * (wait - self._wait_s)
        self._owed.clear()
        self._since = None

    def due(self, now: float) -> float | None:
        """In how many seconds the present wait has lasted too long; None when there is nothing to wait for."""
        return None if self._since is None else max(0.0, self._since + self.delay_s - now)

    def give_up(self, now: float) -> set[WorkerId]:
        """Those who owe and became stragglers now: the wait for them has lasted too long."""
        if self._since is None or now < self._since + self.delay_s:
            return set()
        late = set(self._owed) - self.stragglers
        self.stragglers |= late
        self._since, self._disturbed = None, True
        return late

    def _look(self, now: float) -> bool:
        waited_for = len(self._owed.keys() - self.stragglers)
        if self._since is None and 0 < waited_for <= self.few:
            self._since = now
            return True
        return False
