"""The half of a spread at the encoder: deals the blocks of an epoch over tasks, and forgets them once it is whole."""

from __future__ import annotations

from typing import Any

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch, Incarnation, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import SegmentLayout
from riprap.engine.spreads.half import Half, Ready

PIECES_MAX = 1000  # (row, s_index) pairs in one control message, so that its header stays small


LAG_SHARES = 3
LAG_BLOCKS_MIN = 32
"""A worker with more unacknowledged hangs or lags, and sits out the epoch; small epochs are acknowledged in groups. So
does one whose link is full: large blocks fill a window of bytes sooner.
Invariant: a window of blocks holds this and one more share."""


class Dealer(Half):
    """Deals blocks to the processors that take part in the epoch, never waiting for one that died or hangs.

    Those take part who are up and not far behind. They are chosen once per epoch, with their incarnations: the
    punctuation names them, and so the sink knows exactly which blocks can no longer come. Blocks of uncommitted epochs
    are kept (views of a memory-mapped input cost nothing) and sent again when the sink asks for them (DESIGN 5).
    """

    enough = 1
    """With fewer participants than this an epoch does not start."""

    patience_s = 0.0
    """Longest wait of an epoch for a worker that has just fallen behind, before it starts without it."""

    def __init__(self, layout: SegmentLayout, k: int) -> None:
        super().__init__(layout)
        self.k = k
        self.participants: dict[WorkerId, Incarnation] = {}  # 0: what it got may come or not, nobody waits for it
        self.active = 0
        """That many of them, the first, get data; the slow ones behind them parity at most."""
        self.block_count = 0
        self.committed = Epoch(0)
        self.emitted = Epoch(0)
        self._sink = layout.partner.index
        self._log: dict[Epoch, list[Block]] = {}
        self._owed: dict[tuple[Epoch, int, int], None] = {}  # in the order of asking
        self._next_helper = 0
        self._behind: set[WorkerId] = set()  # not waited for again until they have caught up
        self._patient_since: float | None = None
        self._avoided: frozenset[WorkerId] = frozenset()
        self.beside: list[list[Any]] = []
        """The next epoch's word on its blocks."""

    def share(self, block_count: int, participants: int) -> int:
        """Number of blocks that one of so many participants gets of an epoch of so many data blocks, on average."""
        raise NotImplementedError

    def on_open(self, port: Port, epoch: Epoch, block_count: int) -> bool:
        workers = [w for w in self.layout.processors if port.is_up(w)]
        quick = [w for w in workers if w not in self._avoided]
        if len(quick) < self.enough:
            quick = workers
        behind = max(LAG_BLOCKS_MIN, LAG_SHARES * self.share(block_count, max(1, len(quick))))
        data = self.layout.data
        late = {w for w in workers if port.unacknowledged(data, w) > behind or port.room(data, w) <= 0}
        self.active = len(set(quick) - late)
        if self.active < self.enough or not self._goes_on_without(late, port.now()):
            return False
        order = [*quick, *(w for w in workers if w not in quick)]
        self.participants = {w: port.incarnation(w) for w in order if w not in late}
        self.block_count = block_count
        self._log[epoch] = []
        return True

    def _goes_on_without(self, late: set[WorkerId], now: float) -> bool:
        self._behind &= late
        if late == self._behind or not self.patience_s:
            self._patient_since = None
            return True
        if self._patient_since is None:
            self._patient_since = now
        if now < self._patient_since + self.patience_s:
            return False
        self._behind |= late
        self._patient_since = None
        return True

    def keep(self, block: Block) -> int:
        """Give a data block its key and log it until its epoch is committed; returns its number in the epoch."""
        log = self._log[block.epoch]
        row, s_index = divmod(len(log), self.k)
        block.key = Key(self.layout.me.index, self._sink, row, s_index)
        log.append(block)
        return len(log) - 1

    def deal(self, port: Port, to: WorkerId, block: Block) -> None:
        """Send, unless the worker does not take part (any more): then the block is skipped and counted."""
        if self.participants.get(to) == port.incarnation(to) and port.is_up(to):
            if port.send(self.layout.data, to, block):
                return
            self.participants[to] = Incarnation(0)
        port.count("skipped_blocks")

    def admits(self, block: Block) -> bool:
        """A sink speaks of epochs that it was told of, and of data blocks that they hold."""
        if block.epoch > self.emitted:
            return False
        if block.kind != Kind.RESEND or block.epoch <= self.committed:
            return True
        count = len(self._log[block.epoch])
        return all(s_index < self.k and row * self.k + s_index < count for row, s_index in block.meta["pieces"])

    def on_resume(self, port: Port, epoch: Epoch) -> None:
        self.emitted = self.committed = epoch
        self._log.clear()
        self._owed.clear()
        self.waiting.forget(self.layout.partner)

    def on_epoch(self, port: Port, epoch: Epoch) -> None:
        self.emitted = epoch
        names = {str(worker): incarnation for worker, incarnation in self.participants.items()}
        meta = {"blocks": self.block_count, "participants": names, "active": self.active}
        heads, self.beside = self.beside, []
        self._punctuate(port, epoch, meta | {"heads": heads} if heads else meta)

    def on_receive(self, port: Port, edge: Edge, sender: WorkerId, block: Block) -> Ready:
        port.ack(edge, sender)
        if block.kind == Kind.ACK:
            if "avoided" in block.meta:
                self._avoided = frozenset(map(WorkerId.parse, block.meta["avoided"]))
            self.committed = max(self.committed, block.epoch)
            for epoch in [e for e in self._log if e <= self.committed]:
                del self._log[epoch]
        elif block.kind == Kind.RESEND:
            self._owed |= dict.fromkeys((block.epoch, row, s_index) for row, s_index in block.meta["pieces"])
            self.resend(port)
        return ()

    def on_worker_restored(self, port: Port, worker: WorkerId) -> Ready:
        self.resend(port)
        return ()

    def flush(self, port: Port) -> None:
        super().flush(port)
        if self._owed:
            self.resend(port)

    def resend(self, port: Port) -> None:
        """Send what the sink lacks to whoever is alive, and tell the sink to whom. The rest is owed until one of them
        has room."""
        moved: dict[Epoch, list[tuple[int, int, str, int]]] = {}
        while self._owed:
            epoch, row, s_index = place = next(iter(self._owed))
            if epoch > self.committed:
                to = self._helper(port, self._log[epoch][row * self.k + s_index])
                if to is None:
                    break
                port.count("resent_blocks")
                moved.setdefault(epoch, []).append((row, s_index, str(to), port.incarnation(to)))
            del self._owed[place]
        for epoch, pieces in moved.items():
            for start in range(0, len(pieces), PIECES_MAX):
                self._punctuate(port, epoch, {"moved": pieces[start : start + PIECES_MAX]})

    def _helper(self, port: Port, block: Block) -> WorkerId | None:
        workers = self.layout.processors
        for _ in workers:
            self._next_helper += 1
            to = workers[self._next_helper % len(workers)]
            if port.is_up(to) and port.send(self.layout.data, to, block):
                return to
        return None

    def _punctuate(self, port: Port, epoch: Epoch, meta: dict) -> None:
        word = Block(Kind.PUNCTUATION, epoch, meta=meta)
        self.waiting.send(port, self.layout.punctuation, self.layout.partner, word)
