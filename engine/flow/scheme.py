"""The scheme interface: five questions, asked of entries, links and states.

A scheme decides when input is acknowledged, what is saved and when, and what a new incarnation starts from. It has no
sockets and no clock, and acts through the port.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.blocks import Block
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.journal import WindowJournal
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.links import Window
from riprap.engine.flow.losses import EVERYTHING, NOTHING, Limits, recoveries_of
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import Heard, LinkKey, TaskProgress
from riprap.engine.flow.receipts import Receipts
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.iteration.loop_state import Reached


class Overtaken(Exception):
    """A copy of a task ends itself: its next incarnation goes on from what another copy has saved, which is farther."""


@dataclass
class Bench:
    """The parts of a task that its scheme works with."""

    layout: Layout
    port: Port
    operator: DataflowOperator
    progress: TaskProgress
    outlet: Outlet
    inbox: Sequence[Entry]
    """Entries received and not processed, oldest first."""
    items: int
    """The items of the job's input, all tasks together."""
    cpu_share: float = 0.01
    """Of the CPU time that the task uses, what its backups may take while nobody waits for them."""
    feedback: Sequence[Entry] = ()
    """Feedback that is not processed, oldest first."""
    held: Mapping[LinkKey, MutableSequence[Entry]] = field(default_factory=dict)
    """Of each link, what came and may not be let in yet."""
    journal: WindowJournal | None = None
    """A destination's word to the world; None for others."""
    twin: Callable[[], DataflowOperator] | None = None
    """Makes another operator as the task's, without what its state holds; None for a source."""

    def __post_init__(self) -> None:
        self.receipts = Receipts(self.layout, self.port)

    def hold(self, entry: Entry) -> None:
        """Have an entry that nobody has sent wait for its turn on its link."""
        self.held[entry.link].append(entry)

    def acknowledge(self, entry: Entry) -> None:
        """The sender need not keep this any more, nor what it sent before."""
        if not entry.acknowledged:
            self.receipts.acknowledge(entry)
        entry.acknowledged = True


class Former(NamedTuple):
    """A task as it was when its job was rolled back, for the one that takes its place in the same process."""

    loop: Reached | None = None
    windows: int = 0
    """Up to this one all of its input was read, by sources at its rate."""


class SavedPart(NamedTuple):
    """A task's part of a checkpoint: its size, how long barriers were awaited and how long the copy took."""

    number: int = 0
    nbytes: int = 0
    aligned_ms: float = 0.0
    copy_ms: float = 0.0
    savepoint: str = ""
    """The directory of a savepoint where it is on disk too; empty for none."""


class Scheme:
    """Keeps nothing and promises nothing; a scheme overrides what it does otherwise."""

    saves = False
    """True when this scheme needs backup servers."""

    for_loops = False
    """True when it differs from other schemes within loops alone."""

    ordered = False
    """True when all tasks take blocks in one order, window by window: feedback too, of which the ends of windows are
    put out as well. Only loops have no such order, so they go in supersteps, which say the same in any."""

    exact = False
    """True when a source that starts again goes back to where its state is, and leaves nothing of its input out."""

    reorders = False
    """True when a new incarnation may compute its input in another order, and its peers do not go back with it."""

    overtakes = True
    """True when feedback is processed before what came earlier and waits; else the order of receipt is kept, where that
    does not wait for feedback."""

    part = SavedPart()
    """Of the newest checkpoint for which it is safe."""

    waiting_max = 0
    """Blocks that may wait to leave on a link while more is processed."""

    window = Window(256)
    """The limit on unacknowledged blocks."""

    def __init__(self, bench: Bench, options: Mapping[str, Any]) -> None:
        self.bench = bench
        self.lacks: Limits = NOTHING if self.exact else EVERYTHING
        """The most this incarnation may lack of what the one before it had, where there was one."""
        self.lacked: list[Limits] = []
        """The same of the failures before that; empty where all were alike."""

    def on_receive(self, entry: Entry) -> None:
        """A block came in, or was read from the input; it stands last in the inbox."""

    def may_process(self, entry: Entry) -> bool:
        """True when the oldest entry's turn has come; asked again after each event."""
        return True

    def may_come(self, link: LinkKey) -> bool:
        """True when what comes on a link next may be let in; asked again when `on_turn` says so."""
        return True

    def on_take(self, entry: Entry) -> None:
        """An entry of the inbox is about to be processed, for the first time or further."""

    def on_arrival(self, entry: Entry) -> None:
        """A block came in, in order on its link, and may have to wait for its turn."""

    def on_tentative(self, link: LinkKey, block: Block) -> None:
        """A block of a window from which some tasks' items are missing came (PPA V-B)."""

    def aside(self) -> bool:
        """Do a piece of what goes on beside the task's own order; True when something was done. Called often."""
        return False

    def on_crossed(self) -> None:
        """The state has just exceeded its theta; the rest of the block follows once `may_process` agrees."""

    def on_processed(self, entry: Entry) -> None:
        """All items of an entry are processed."""

    def on_window(self, epoch: int) -> None:
        """The operator has closed a window."""

    def on_put(self, link: OutletLink, block: Block, muted: bool) -> None:
        """A block has its number on a link; where it is muted, the receiver has it."""

    def on_emit(self, link: OutletLink, block: Block) -> None:
        """A block stands last on a link, waiting to leave."""

    def may_leave(self, link: OutletLink, block: Block) -> bool:
        """True when the block may be sent now."""
        return True

    def on_turn(self) -> bool:
        """Called often, between two blocks; True when what was held back may be let in now."""
        return False

    def on_left(self) -> None:
        """Nothing waits to leave any more; called before an entry is processed, and often."""

    def on_alarm(self) -> None:
        """The time asked for by `Port.alarm` has come."""

    def on_checkpoint(self, triggered: int, completed: int, savepoint: str) -> None:
        """The checkpoint under way (0: none), and the newest that is whole; where the first goes as a savepoint."""

    def on_barrier(self, link: LinkKey, block: Block) -> None:
        """A barrier came on a link, and is not among what is held yet; what comes behind it is not let in before
        `has_passed` says so."""

    def has_passed(self, link: LinkKey, barrier: int) -> bool:
        """True when what is behind a barrier of the link may come in."""
        return True

    def on_placed(self, link: OutletLink, heard: Heard, told: Sequence[np.ndarray]) -> None:
        """The receiver of a link has said how far it is, and what else it was told (`told`)."""

    def on_needed(self, link: OutletLink, number: int) -> None:
        """The receiver of a link needs nothing up to this number any more, whoever dies."""

    def on_digests(self, link: OutletLink, news: list[list[Any]]) -> None:
        """The receiver of a link has got windows from another copy of this task, each with these digests."""

    def told(self, link: LinkKey) -> tuple[np.ndarray, ...]:
        """All else that a new incarnation of the sender of a link must know."""
        return ()

    def on_sender_lost(self, link: LinkKey) -> None:
        """The sender of a link died; what it sent and is not acknowledged may be here alone."""

    def settled(self, link: LinkKey) -> bool:
        """True when a new incarnation of the sender may be told that all that came has come."""
        return True

    def on_durable(self, number: int) -> None:
        """Everything saved up to this number is safe."""

    def on_begun(self, nbytes: int) -> None:
        """The state, of about so many bytes, is that of the savepoint from which each incarnation begins; before all
        other calls, and before what this worker has saved itself, if anything, is restored."""

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        """Take over what a former incarnation saved; returns the entries to process again, in their order."""
        return []

    @property
    def reached(self) -> Reached | None:
        """All of a loop that is worth keeping when the job is rolled back; None for nothing."""
        return None

    def on_reached(self, reached: Reached | None) -> None:
        """The task that was here before the rollback had reached this; called once the new one is restored."""

    def recoveries(self, failure: int) -> dict[str, Any]:
        """This recovery of the worker, its nth, and those before it: what each may have lost."""
        progress, lacked = self.bench.progress, self.lacked or [self.lacks] * (failure - 1)
        window = progress.failures[-1] if progress.failures else progress.epoch
        found = [*zip(lacked, progress.failures, strict=False), (self.lacks, window)]
        if self.bench.layout.is_sink:
            found = [(lacks._replace(unacknowledged=0), window) for lacks, window in found]
        return recoveries_of(self.bench.operator.state, found, failure)

    @property
    def absent(self) -> Sequence[str]:
        """Workers whose items are missing for good from the window that is being closed."""
        return ()

    @property
    def announced(self) -> int:
        """At a destination: the last window that may be announced as closed for good."""
        return self.bench.progress.epoch

    @property
    def safe(self) -> bool:
        """True when all that was processed is as safe as this scheme makes it."""
        return True


def own_hook(scheme: Scheme, name: str) -> Any:
    """A scheme's hook of the hot path; None where it is the one that does nothing, so that nobody calls it."""
    return None if getattr(type(scheme), name) is getattr(Scheme, name) else getattr(scheme, name)
