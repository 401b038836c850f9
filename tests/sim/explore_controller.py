"""The controller as the explorer runs it: the real coordinator, a record that is durable when the explorer says so."""

from __future__ import annotations

from explore_plan import Sent
from explore_worker import NOW

from riprap.controller.checkpoints import CheckpointPace, Coordinator, Marks

PACE = CheckpointPace(interval_s=0.0, min_pause_s=0.0, timeout_s=1.0, failures_max=10**6)
CUT = -1
"""The receiver of the word that a checkpoint is decided, which is the explorer."""


class Controller:
    """Its leaders over one job; what they decide about checkpoints and the round is one durable record.

    `triggers` and `aborts` are how many checkpoints may still be begun and given up at any moment, `leaders` how many
    leaders may still be followed by another one.
    """

    def __init__(self, workers: int, triggers: int = 0, aborts: int = 0, leaders: int = 0) -> None:
        self.workers, self.triggers, self.aborts, self.leaders = workers, triggers, aborts, leaders
        self.marks, self.round = Marks(0, 64), 0
        self.decided_round = 0
        self.writing: tuple[Marks, int] | None = None
        self.coordinator = Coordinator(PACE, Marks(), NOW)
        self.coordinator.marks = self.marks
        self.rows = [0] * workers
        """The newest part of each worker that is safe, as it has reported."""
        self.lives = [(1, True)] * workers
        self.out: list[tuple[int, int, Sent]] = []
        self.published = self.view()

    def go_on_from(self, completed: int) -> None:
        """In the first round behind that in which a checkpoint became whole."""
        self.marks = self.coordinator.marks = self.marks._replace(completed=completed)
        self.coordinator._next = completed + 8
        self.round = self.decided_round = 1
        self.published = self.view()

    def view(self) -> Sent:
        """What workers are told."""
        news = (*self.coordinator.told(self.marks), tuple(self.lives))
        return Sent("view", self.workers, 0, self.round, 0, news)

    @property
    def may(self) -> tuple[str, ...]:
        """What it may do when it likes."""
        pending, decided = self.coordinator.pending, self.coordinator.marks == self.marks
        may_trigger = self.triggers > 0 and self._is_calm and pending is None and decided
        may_abort = self.aborts > 0 and pending is not None
        return ("trigger",) * may_trigger + ("abort",) * may_abort + ("lead",) * (self.leaders > 0)

    @property
    def awaits(self) -> tuple[int, ...]:
        """The workers that it must hear of before it says anything of its own accord."""
        pending = self.coordinator.pending
        if pending is not None:
            return tuple(at for at in range(self.workers) if str(at) not in pending.saved)
        return tuple(at for at, (_, up) in enumerate(self.lives) if not up)

    @property
    def fears(self) -> bool:
        """True when nobody has died yet."""
        return all(life == 1 and up for life, up in self.lives)

    @property
    def _is_calm(self) -> bool:
        return all(up for _, up in self.lives) and self.round == self.decided_round

    # events
    def hear(self, sent: Sent) -> None:
        """A worker reports that a part is safe or that it is ready; or its agent, that it is lost."""
        at = sent.sender
        if sent.kind == "lost":
            self.lives[at], self.rows[at] = (sent.life, False), 0
            self.coordinator.abort(NOW)
            self.decided_round += 1
        elif sent.kind == "ready":
            self.lives[at] = sent.life, True
        elif self.lives[at] == (sent.life, True):
            (self.rows[at],) = sent.body

    def begin(self, at_end: bool) -> None:
        """Begin a checkpoint."""
        self.triggers -= not at_end
        if self._is_calm:
            self.coordinator.trigger(self.marks, NOW, at_end)

    def abort(self) -> None:
        """The one under way is late."""
        self.aborts -= 1
        self.coordinator.abort(NOW, failed=True)

    def lead(self) -> None:
        """Another leader: it knows what is durable, and what workers and their agents report."""
        self.leaders -= 1
        self.coordinator, self.writing = Coordinator(PACE, self.marks, NOW), None

    def write(self) -> None:
        """The record is durable; whoever was lost may begin the next life then."""
        assert self.writing is not None
        marks, round_ = self.writing
        self.writing = None
        if marks.completed > self.marks.completed:
            self.out.append((CUT, 0, Sent("cut", 0, 0, 0, 0, (marks.completed,))))
        begins = round_ > self.round
        self.marks, self.round = marks, round_
        self._publish()
        for at, (life, up) in enumerate(self.lives):
            if begins and not up:
                self.out.append((at, 0, Sent("start", self.workers, 0, 0, life + 1, (marks.completed,))))

    def settle(self) -> None:
        """What it does behind each event: decide, write that down, and tell the workers what is new."""
        self.coordinator.reserve()
        if self._is_calm:
            self.coordinator.hear({str(at): number for at, number in enumerate(self.rows)}, NOW)
        record = (self.coordinator.marks, self.decided_round)
        if self.writing is None and record != (self.marks, self.round):
            self.writing = record
        self._publish()

    def _publish(self) -> None:
        if self.view() != self.published:
            self.published = self.view()
            self.out += [(at, 0, self.published) for at, (_, up) in enumerate(self.lives) if up]
