"""When a sink stops waiting for stragglers, and which slow workers it asks its source to do without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from codec.ids import WorkerId

GAIN = 0.125
GAIN_VARIATION = 0.25
VARIATIONS = 4
"""Of the retransmission timer of TCP, which solves the same problem (RFC 6298, section 2)."""
EPOCHS = 3
EPOCH_AT_FIRST_S = 1 / EPOCHS  # before one has been measured
PENALTY_S = 0.5
PENALTY_MAX_S = 16.0
SLOW_SHARE = 0.3  # of an epoch's time, by which a slow worker is later than the others
SLOW_LEAST = 0.1  # of `least_s`: what is less is noise
SLOW_FACTOR = 3  # times what the others differ among themselves
SLOW_SAMPLES = 4


class Hedge:
    """Watches who still owes results of the current epoch, and how late each worker is, epoch by epoch.

    A *straggler* is given up now. The wait for the last few (at most `few` workers owe anything) is measured; when it
    lasts longer than `least_s`, than the smoothed wait plus four times its variation, and than three usual epochs (on
    busy cores even healthy workers pause for that long), those who owe are stragglers, and their results are decoded.

    A *slow* worker is waited for, but `avoided`: it is later than the others in the mean over some epochs, by a good
    part of an epoch and by far more than they differ. The source deals to neither in later epochs, so that rows are
    spread over the others and nothing has to be decoded. Both are tried again after a penalty that doubles each time.
    """

    def __init__(self, few: int, least_s: float) -> None:
        self.few, self.least_s = few, least_s
        self.stragglers: set[WorkerId] = set()
        self.avoided: set[WorkerId] = set()
        self._owed: Counter[WorkerId] = Counter()
        self._since: float | None = None
        self._disturbed = False
        self._wait_s = self._variation_s = 0.0
        self._epoch_s: float | None = None
        self._began_at = 0.0
        self._ended_at: float | None = None
        self._late: dict[WorkerId, float] = {}
        self._lags: dict[WorkerId, tuple[int, float]] = {}
        self._penalties: dict[WorkerId, tuple[float, float]] = {}

    @property
    def delay_s(self) -> float:
        """How long the last few are waited for."""
        epoch_s = EPOCH_AT_FIRST_S if self._epoch_s is None else self._epoch_s
        return max(self.least_s, self._wait_s + VARIATIONS * self._variation_s, EPOCHS * epoch_s)

    def begin(self, workers: Iterable[WorkerId], owed: Iterable[WorkerId], now: float) -> None:
        """The current epoch is emitted whole, to `workers`; `owed` names the holder of each block without a result."""
        self._owed = Counter(owed)
        self._late = {worker: 0.0 for worker in workers if worker not in self._owed}
        self._since, self._disturbed, self._began_at = None, False, now
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
        self._late[worker] = now - self._began_at
        return self._look(now)

    def lost(self, worker: WorkerId) -> None:
        """A worker died: its next life is judged anew, and this epoch is no measure."""
        for known in (self.stragglers, self.avoided):
            known.discard(worker)
        for facts in (self._owed, self._late, self._lags, self._penalties):
            facts.pop(worker, None)
        self._disturbed = True

    def ended(self, now: float) -> None:
        """The current epoch is committed."""
        if self._ended_at is not None:
            took = now - self._ended_at
            self._epoch_s = took if self._epoch_s is None else self._epoch_s + GAIN * (took - self._epoch_s)
        self._ended_at = now
        if not self._disturbed and not self._owed:
            if self._since is not None:
                wait = now - self._since
                self._variation_s += GAIN_VARIATION * (abs(wait - self._wait_s) - self._variation_s)
                self._wait_s += GAIN * (wait - self._wait_s)
            self._judge(now)
        self._owed.clear()
        self._since = None
        self._pardon(now)

    def due(self, now: float) -> float | None:
        """In how many seconds the present wait has lasted too long; None when there is nothing to wait for."""
        return None if self._since is None else max(0.0, self._since + self.delay_s - now)

    def give_up(self, now: float) -> set[WorkerId]:
        """Those who owe and became stragglers now: the wait for them has lasted too long."""
        if self._since is None or now < self._since + self.delay_s:
            return set()
        late = set(self._owed) - self.stragglers
        self.stragglers |= late
        for worker in late:
            self._avoid(worker, now)
        self._since, self._disturbed = None, True
        return late

    def _look(self, now: float) -> bool:
        waited_for = len(self._owed.keys() - self.stragglers)
        if self._since is None and 0 < waited_for <= self.few:
            self._since = now
            return True
        return False

    def _judge(self, now: float) -> None:
        """Take in how late each worker was, and avoid at most `few` that are slow."""
        for worker, late in self._late.items():
            samples, lag = self._lags.get(worker, (0, 0.0))
            self._lags[worker] = (samples + 1, lag + max(GAIN_VARIATION, 1 / (samples + 1)) * (late - lag))
        ordered = sorted((lag for _, lag in self._lags.values()), reverse=True)
        usual = ordered[self.few] if len(ordered) > self.few else float("inf")
        for worker, (samples, lag) in list(self._lags.items()):
            much = max(SLOW_SHARE * (self._epoch_s or 0.0), SLOW_LEAST * self.least_s)
            apart = lag - usual > much and lag > SLOW_FACTOR * usual
            if samples >= SLOW_SAMPLES and apart and len(self.avoided) < self.few:
                self._avoid(worker, now)

    def _avoid(self, worker: WorkerId, now: float) -> None:
        until, last = self._penalties.get(worker, (now, 0.0))
        grown = min(2 * last, PENALTY_MAX_S) if now < until + 4 * last else 0.0
        penalty = max(PENALTY_S, grown)
        self._penalties[worker] = (now + penalty, penalty)
        self.avoided.add(worker)
        self._lags.pop(worker, None)

    def _pardon(self, now: float) -> None:
        over = {worker for worker in self.avoided if self._penalties[worker][0] <= now}
        self.avoided -= over
        self.stragglers -= over
