"""When a sink stops waiting for stragglers, and which slow workers it asks its source to do without."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Set

from riprap.codec.ids import WorkerId
from riprap.engine.spreads.patience import Patience

GAIN = 0.125  # of an epoch's smoothed time
GAIN_LAG = 0.25
PENALTY_S = 0.5
PENALTY_MAX_S = 16.0
SLOW_SHARE = 0.3  # of an epoch's time, by which a slow worker is later than the others
SLOW_LEAST_S = 0.01  # what is less is noise
SLOW_FACTOR = 3  # times what the others differ among themselves
SLOW_SAMPLES = 4

IsStopped = Callable[[WorkerId], bool]


class Hedge:
    """Watches who still owes results of the current epoch, and how late each worker is, epoch by epoch.

    A *straggler* is given up now, and its results are decoded. The wait for the last few begins when at most `few`
    workers owe anything, and anew with each of their results. It ends when the silence is longer than `patience`
    allows, or as soon as the system says that those who owe stand still. A straggler is one until it is heard again,
    or for its penalty.

    A *slow* worker is waited for, but `avoided`: it is later than the others in the mean over some epochs, by a good
    part of an epoch and by far more than they differ. The source deals to neither in later epochs, so that rows are
    spread over the others and nothing has to be decoded. Both are tried again after a penalty that doubles each time.
    """

    def __init__(self, few: int, patience: Patience) -> None:
        self.few, self.patience = few, patience
        self.stragglers: set[WorkerId] = set()
        self.avoided: set[WorkerId] = set()
        self._owed: Counter[WorkerId] = Counter()
        self._since: float | None = None
        self._look_at = math.inf
        self._silence_s = 0.0  # the longest of this epoch's wait
        self._asked = False
        self._disturbed = False
        self._epoch_s: float | None = None
        self._began_at = 0.0
        self._ended_at: float | None = None
        self._late: dict[WorkerId, float] = {}
        self._lags: dict[WorkerId, tuple[int, float]] = {}
        self._penalties: dict[WorkerId, tuple[float, float]] = {}

    def begin(self, workers: Iterable[WorkerId], owed: Iterable[WorkerId], now: float) -> None:
        """The current epoch is emitted whole, to `workers`; `owed` names the holder of each block without a result."""
        self._owed = Counter(owed)
        self._late = {worker: 0.0 for worker in workers if worker not in self._owed}
        self._since, self._silence_s, self._began_at = None, 0.0, now
        self._asked = self._disturbed = False
        self._wait(now)

    def owes(self, worker: WorkerId, pieces: int, now: float) -> None:
        """A worker was asked for pieces of the current epoch; the wait begins anew, for its answer."""
        self._owed[worker] += pieces
        self._asked = self._disturbed = True
        self._wait(now)

    def heard(self, worker: WorkerId, now: float) -> bool:
        """Something came from a worker: it is no straggler, however late it is. True when the wait begins anew."""
        if worker not in self.stragglers:
            return False
        self.stragglers.discard(worker)
        return self._wait(now)

    def delivered(self, worker: WorkerId, now: float) -> bool:
        """A piece of the current epoch came from its holder; True when the wait begins, or begins anew."""
        if worker not in self._owed:
            return False
        self._owed[worker] -= 1
        if self._owed[worker] <= 0:
            del self._owed[worker]
            self._late[worker] = now - self._began_at
        if self._since is not None:
            self._silence_s = max(self._silence_s, now - self._since)
        return self._wait(now)

    def lost(self, worker: WorkerId) -> None:
        """A worker died: its next incarnation is judged anew, and this epoch is no measure."""
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
            self.patience.waited(self._silence_s)
            self._judge(now)
        self._owed.clear()
        self._since = None
        self._pardon(now)

    def due(self, now: float) -> float | None:
        """In how many seconds `give_up` may have something to say; None when there is nothing to wait for."""
        if self._since is None:
            return None
        at = min(self._look_at, self._ends_at(self._since))
        return None if at == math.inf else max(0.0, at - now)

    def give_up(self, now: float, is_stopped: IsStopped) -> set[WorkerId]:
        """Those who owe and became stragglers now: all when the wait has lasted too long, else who stands still."""
        if self._since is None:
            return set()
        late = set(self._awaited())
        if now < self._ends_at(self._since):
            if now < self._look_at:
                return set()
            late = {worker for worker in late if is_stopped(worker)}
            self._look_at = now + (now - self._since)
        self.stragglers |= late
        for worker in late:
            self._avoid(worker, now)
        if late:
            self._disturbed = True
        if not self._awaited():
            self._since = None
        return late

    def _ends_at(self, since: float) -> float:
        blocks = sum([self._owed[worker] for worker in self._awaited()])
        return since + (self.patience.answer_s if self._asked else self.patience.limit_s)(blocks)

    def _awaited(self) -> Set[WorkerId]:
        return self._owed.keys() - self.stragglers if self.stragglers else self._owed.keys()

    def _wait(self, now: float) -> bool:
        """Begin to wait for the last few, or begin anew."""
        awaited = len(self._awaited())
        if not awaited or (awaited > self.few and not self._asked):
            return False
        self._since, self._look_at = now, now + self.patience.look_s
        return True

    def _judge(self, now: float) -> None:
        """Take in how late each worker was, and avoid at most `few` that are slow."""
        for worker, late in self._late.items():
            samples, lag = self._lags.get(worker, (0, 0.0))
            self._lags[worker] = (samples + 1, lag + max(GAIN_LAG, 1 / (samples + 1)) * (late - lag))
        ordered = sorted([lag for _, lag in self._lags.values()], reverse=True)
        if len(ordered) <= self.few or ordered[0] - ordered[self.few] <= SLOW_LEAST_S:
            return
        usual, much = ordered[self.few], max(SLOW_SHARE * (self._epoch_s or 0.0), SLOW_LEAST_S)
        for worker, (samples, lag) in list(self._lags.items()):
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
