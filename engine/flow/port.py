"""The port: all that tasks and schemes may do to the outside world.

Real workers (engine/worker/port.py), the simulators of tests/sim and the tests have ports of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from riprap.codec.blocks import Block
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.edges import Edge


@dataclass(frozen=True, slots=True)
class Boundary:
    """Everything up to `epoch` has been returned; `items` of it were emitted, `lost` of these stay lost. `absent` are
    workers whose items are missing for good, and among those of no window."""

    epoch: Epoch
    items: int
    lost: int
    last: bool
    absent: Sequence[str] = ()


class Port(Protocol):
    """All that a scheme may do to the outside world."""

    @property
    def author(self) -> str:
        """The name under which this worker's incarnations save their records."""

    def send(self, edge: Edge, to: WorkerId, block: Block, urgent: bool = False) -> bool:
        """Put a block on a link. False, and nothing is sent, when the peer is down or the link's window is full.

        Urgent blocks, a barrier or what waits before one, may take some places beyond it.
        """

    def room(self, edge: Edge, to: WorkerId) -> int:
        """Blocks that the link's window still takes; 0 while the peer is down."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Memory for a payload, where it need not be copied on its way to workers of this host."""

    def unacknowledged(self, edge: Edge, to: WorkerId) -> int:
        """Number of blocks on the link that the peer has not acknowledged yet."""

    def ack(self, edge: Edge, sender: WorkerId, seq: Seq | None = None) -> None:
        """Tell the sender that everything received from it so far, or up to `seq`, is safe."""

    def limit(self, edge: Edge, sender: WorkerId, done: int, spare: int) -> None:
        """Have the sender put so many blocks on the way, behind the last one processed, `done`; 0: a whole window."""

    def incarnation(self, worker: WorkerId) -> Incarnation:
        """The latest incarnation of a worker that is known here; 0 before the first."""

    def is_up(self, worker: WorkerId) -> bool:
        """True when that latest incarnation is alive as far as is known here."""

    def stands_still(self, worker: WorkerId) -> bool:
        """True when the system says that the process of a worker of this host is stopped: nothing comes from it until
        it is continued. False for one that runs, that merely is slow, or of which nothing can be known here."""

    def alarm(self, seconds: float) -> None:
        """Call `on_alarm` once, this much later; a new alarm replaces the one before."""

    def now(self) -> float:
        """Seconds of a monotonic clock."""

    def cpu(self) -> float:
        """Seconds of CPU that this worker has used."""

    def count(self, name: str, n: int = 1) -> None:
        """Add to a statistic of this worker."""

    def report(self, event: str, **fields: Any) -> None:
        """Write a line to the job's event log."""

    def kept(self, edge: Edge, to: WorkerId) -> list[Block]:
        """The blocks on a link that the peer has not acknowledged, oldest first."""

    def save(self, kind: str, epoch: Epoch, meta: dict[str, Any], arrays: Sequence[np.ndarray], since: int = 0) -> int:
        """Persist a record of this worker and return its number (1, 2, ...); 0, and nothing is taken, when too much is
        under way. A "state" of an epoch supersedes all records of this and of earlier epochs, and with any record those
        of epochs below `since` are needed no more; a "checkpoint" is kept until it is released. The arrays must not
        change any more. `on_durable` tells when it is safe.
        """

    def save_apart(self, directory: str, meta: dict[str, Any], arrays: Sequence[np.ndarray]) -> bool:
        """Write this worker's part of a savepoint; True when it is on disk, else the event log says why it is not."""

    def release(self, checkpoint: int) -> None:
        """Saved parts of checkpoints before this one are needed no more."""
