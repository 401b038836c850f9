"""Draws fault schedules: which scheme, who is hit, how and when; the same for the same seed and number, everywhere."""

from __future__ import annotations

import random
from dataclasses import dataclass

EPOCHS = 100
MICRO_BATCH = 5_000
ITEMS = EPOCHS * MICRO_BATCH
PROCESSORS = 6
LAUNCHER = "launcher"

HYBRID = "erasure (4,2) hybrid"
"""The one that is exact but for rounding."""

#: Scheme as the tables call it -> its section of the topology.
SCHEMES = {
    "erasure (4,2) lazy": "{scheme: erasure, code: gf256, k: 4, r: 2, attachment: lazy}",
    "erasure (4,2) eager": "{scheme: erasure, code: gf256, k: 4, r: 2, attachment: eager}",
    HYBRID: "{scheme: erasure, code: stable, k: 4, r: 2, attachment: hybrid}",
    "erasure (5,1) xor": "{scheme: erasure, code: xor, k: 5, r: 1}",
    "replication 2x": "{scheme: replication, copies: 2}",
    "replication 3x": "{scheme: replication, copies: 3}",
    "reactive": "{scheme: reactive}",
}

#: Who is hit -> the targets that go down together; `processor.*` is drawn.
ROLES = {
    "processor": ("processor.*",),
    "source": ("source.0",),
    "sink": ("sink.0",),
    "source and sink": ("source.0", "sink.0"),
    "backup": ("backup",),
    "controller": ("controller",),
    "agent": ("agent",),
    "zookeeper": ("zookeeper",),
    LAUNCHER: (),
}
STOP_MS = (200, 3_000)


@dataclass(frozen=True)
class Hit:
    """One fault: `role` goes down once `epoch` epochs are committed.

    `specs` say how in the words of `--fault`; there are none for the launcher, which is killed from outside.
    """

    role: str
    epoch: int
    specs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """What is done to one job; `hits` are in the order of their epochs."""

    seed: int
    number: int
    scheme: str
    hits: tuple[Hit, ...]

    @property
    def attempts(self) -> list[tuple[list[str], int | None]]:
        """Per start of the launcher, its faults, and the epoch at which it is killed (None: it lives)."""
        attempts: list[tuple[list[str], int | None]] = [([], None)]
        for hit in self.hits:
            if hit.role == LAUNCHER:
                attempts[-1] = (attempts[-1][0], hit.epoch)
                attempts.append(([], None))
            else:
                attempts[-1][0].extend(hit.specs)
        return attempts

    def __str__(self) -> str:
        hits = (" ".join(hit.specs) or f"kill:{LAUNCHER}@epoch={hit.epoch}" for hit in self.hits)
        return f"{self.number}: {self.scheme}, {', '.join(hits)}"


def draw(seed: int, number: int) -> Schedule:
    """A schedule of one to three hits; every scheme meets every role as its first within 63 consecutive numbers."""
    rng = random.Random((seed << 32) + number)
    scheme = list(SCHEMES)[number % len(SCHEMES)]
    roles = [list(ROLES)[number // len(SCHEMES) % len(ROLES)]]
    roles += rng.choices(list(ROLES), k=rng.randrange(3))
    together, first = rng.random() < 0.4, rng.randrange(EPOCHS)
    hits = [_hit(rng, role, first if together else rng.randrange(EPOCHS)) for role in roles]
    return Schedule(seed, number, scheme, tuple(sorted(hits, key=lambda hit: hit.epoch)))


def _hit(rng: random.Random, role: str, epoch: int) -> Hit:
    action, duration = ("stop", f",for={rng.randint(*STOP_MS)}ms") if rng.random() < 0.25 else ("kill", "")
    targets = (target.replace("*", str(rng.randrange(PROCESSORS))) for target in ROLES[role])
    return Hit(role, epoch, tuple(f"{action}:{target}@epoch={epoch}{duration}" for target in targets))
