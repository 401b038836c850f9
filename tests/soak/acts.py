"""Draws what users do to a job that writes transactions, and the hits around it; the same for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from hits import AROUND_S, STOP_MS, Hit
from transactions import OUTPUTS, SCHEMES

SAVE, GO_ON, CANCEL, INTERRUPT, KILL, DRAIN = "savepoint", "savepoint --stop", "cancel", "interrupt", "kill", "drain"
FULL = "full disk"
"""What is done: a savepoint beside, or one from which the next job begins, with other tasks; the launcher is told to
end, or is killed, and the job resumed; the stream ends; the run directory has no room for a while, and the job, if it
could not wait for that, is resumed.
"""
ACTS = (SAVE, GO_ON, CANCEL, INTERRUPT, KILL, FULL)
WORKERS = ("read.0", "read.1", "tally.0", "tally.1", "write.0", "write.1")
SERVICES = ("agent", "controller", "backup", "zookeeper")
TASKS_MAX, WRITERS_MAX = 4, 3
HOSTS = 3
EARLY_S = (0.3, 2.0)
"""From the start of a launcher to hits while the job begins."""


class Act(NamedTuple):
    """What is done once the job has run for so many seconds; `tasks`, `writers` (at the end) and `scheme` are those
    of a next job."""

    kind: str
    after_s: float
    hits: tuple[Hit, ...] = ()
    early: tuple[Hit, ...] = ()
    """On the next start, so many seconds behind it: mostly before the job runs."""
    tasks: int = 2
    writers: int = 1
    scheme: str = SCHEMES[0]

    def __str__(self) -> str:
        next_job = f" (then {self.tasks} to {self.writers} tasks, {self.scheme})" if self.kind == GO_ON else ""
        early = f" and on the next start [{', '.join(map(str, self.early))}]" if self.early else ""
        return f"{self.kind}{next_job} after {self.after_s:.2f} s [{', '.join(map(str, self.hits))}]{early}"


@dataclass(frozen=True)
class Schedule:
    """What is done to one job."""

    number: int
    output: str
    scheme: str
    writers: int
    hosts: int
    acts: tuple[Act, ...]

    @property
    def own_ensemble(self) -> bool:
        """True when its ZooKeeper is hit, which then must be its own."""
        return any("zookeeper" in hit.targets for act in self.acts for hit in act.hits)

    def __str__(self) -> str:
        where = f", {self.hosts} hosts" if self.hosts > 1 else ""
        return f"{self.number}: {self.output} by {self.writers}, {self.scheme}{where}; {'; '.join(map(str, self.acts))}"


def draw(seed: int, number: int) -> Schedule:
    """A schedule, the same for the same seed and number; each output meets each act as its first."""
    rng = random.Random((seed << 32) + number)
    output = list(OUTPUTS)[number % len(OUTPUTS)]
    first = ACTS[number // len(OUTPUTS) % len(ACTS)]
    kinds = [first, *rng.choices(ACTS, k=rng.choice((0, 0, 1, 2))), DRAIN]
    hosts = rng.choice((1, HOSTS))
    acts = tuple(_act(rng, kind, hosts) for kind in kinds)
    return Schedule(number, output, rng.choice(SCHEMES), rng.randint(1, WRITERS_MAX), hosts, acts)


def _act(rng: random.Random, kind: str, hosts: int) -> Act:
    hits = sorted(_hit(rng, hosts) for _ in range(rng.choice((0, 1, 1, 2, 3))))
    early: list[Hit] = []
    if kind in (GO_ON, CANCEL, INTERRUPT, KILL) and rng.random() < 0.6:
        hits_ = (_hit(rng, hosts, EARLY_S) for _ in range(rng.randint(1, 3)))
        early = sorted(hit for hit in hits_ if "zookeeper" not in hit.targets)  # which nobody starts again yet
    tasks, writers = rng.randint(1, TASKS_MAX), rng.randint(1, WRITERS_MAX)
    return Act(kind, round(rng.uniform(0.0, 1.5), 2), tuple(hits), tuple(early), tasks, writers, rng.choice(SCHEMES))


def _hit(rng: random.Random, hosts: int, at_s: tuple[float, float] = AROUND_S) -> Hit:
    own = [f"host-{number}" for number in range(1, hosts + 1)] if hosts > 1 else []
    targets = tuple(rng.sample([*WORKERS, *SERVICES, *own, *own], rng.choice((1, 1, 2))))
    stopped_ms = rng.randint(*rng.choice(STOP_MS)) if rng.random() < 0.5 else 0
    return Hit(round(rng.uniform(*at_s), 2), targets, stopped_ms)
