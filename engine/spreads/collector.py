"""The half of a spread at the decoder: collects the results of an epoch block by block."""

from __future__ import annotations

from collections.abc import Mapping

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, Incarnation, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import SegmentLayout
from riprap.engine.spreads.half import Half, Ready, WholeRow

EPOCHS_AHEAD_MAX = 1024  # the largest `links.window_epochs` that a topology may ask for
BLOCKS_MAX = 1 << 20  # data blocks of an epoch; a look at all of its rows takes a quarter of a second then


class Ledger:
    """The state of one epoch. Invariant: len(done) + len(lost) <= block_count."""

    def __init__(self) -> None:
        self.block_count = 0
        self.participants: dict[WorkerId, Incarnation] | None = None
        self.order: tuple[WorkerId, ...] = ()
        """The participants, as the source numbers them."""
        self.active = 0
        """That many of them, the first, got data."""
        self.intact = True
        """All who take part live, and nothing was sent again, as far as was seen when all was last looked at."""
        self.done: set[tuple[int, int]] = set()
        self.lost: set[tuple[int, int]] = set()
        self.asked: set[tuple[int, int]] = set()
        self.moved: dict[tuple[int, int], tuple[WorkerId, Incarnation]] = {}

    def punctuate(self, meta: dict, workers: Mapping[str, WorkerId]) -> None:
        """Take in the source's word on what the epoch holds, or on where pieces were sent again; `workers` by name."""
        for row, s_index, name, incarnation in meta.get("moved", ()):
            self.moved[row, s_index] = (workers[name], incarnation)
            self.asked.discard((row, s_index))
        if "participants" in meta:
            self.block_count = meta["blocks"]
            self.participants = {workers[name]: n for name, n in meta["participants"].items()}
            self.order, self.active = tuple(self.participants), meta["active"]

    def await_punctuation(self) -> None:
        """The source died: its next incarnation emits the epoch again, perhaps to others. What is done stays done."""
        self.participants, self.intact = None, True
        self.lost.clear()
        self.asked.clear()
        self.moved.clear()


class Collector(Half):
    """Counts each data block's result once, whatever arrives how often, and closes epochs in order.

    A subclass answers `places` (who was given a piece) and `resolve` (what to do about a row that lacks pieces).
    """

    def __init__(self, layout: SegmentLayout, k: int) -> None:
        super().__init__(layout)
        self.k = k
        self.committed = Epoch(0)
        self.current = Epoch(1)
        """The epoch that commits next."""
        self.ledgers: dict[Epoch, Ledger] = {}
        self._workers = {str(worker): worker for worker in layout.processors}

    def places(self, ledger: Ledger, epoch: Epoch, row: int, s_index: int) -> tuple[WorkerId, ...]:
        """The processors that the source meant to give this piece of a row to."""
        raise NotImplementedError

    def resolve(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, lacking: list[int]) -> Ready:
        """Rebuild, ask for, or give up the data blocks `lacking` (their s_indexes) of a row."""
        raise NotImplementedError

    def admits(self, block: Block) -> bool:
        """Only epochs that may be under way, and of these only blocks that there are."""
        if block.epoch <= self.committed:
            return True
        if block.epoch > self.committed + EPOCHS_AHEAD_MAX:
            return False
        ledger = self.ledgers.get(block.epoch)
        known = ledger.block_count if ledger else 0
        if block.kind == Kind.PUNCTUATION:
            return self._admits_punctuation(block, known)
        return self.admits_piece(block, known)

    def admits_piece(self, block: Block, block_count: int) -> bool:
        """The same for a RESULT or PARITY of an uncommitted epoch; `block_count` is 0 while it is not known."""
        return block.kind == Kind.RESULT and self.is_data(block.key.row, block.key.s_index, block_count or BLOCKS_MAX)

    def _admits_punctuation(self, block: Block, block_count: int) -> bool:
        blocks = block.meta.get("blocks", block_count or BLOCKS_MAX)
        if not 0 <= blocks <= BLOCKS_MAX or (block_count and blocks != block_count):
            return False
        return all(self.is_data(row, s_index, blocks) for row, s_index, _, _ in block.meta.get("moved", ()))

    def is_data(self, row: int, s_index: int, block_count: int) -> bool:
        """True when an epoch of so many data blocks has this one."""
        return s_index < self.k and row * self.k + s_index < block_count

    def on_receive(self, port: Port, edge: Edge, sender: WorkerId, block: Block) -> Ready:
        if block.epoch <= self.committed:
            self.count_late(port, block)
            return ()
        ledger = self.ledgers.get(block.epoch)
        if ledger is None:
            ledger = self.ledgers[block.epoch] = Ledger()
        if block.kind == Kind.PUNCTUATION:
            ledger.punctuate(block.meta, self._workers)
            return self.progress(port)
        return [*self.take(port, ledger, sender, block), *self.progress(port, block)]

    def take(self, port: Port, ledger: Ledger, sender: WorkerId, block: Block) -> Ready:
        """Let the first result of a data block through, and no other."""
        piece = (block.key.row, block.key.s_index)
        if piece in ledger.done or piece in ledger.lost:
            self.count_late(port, block)
            return ()
        ledger.done.add(piece)
        return (block,)

    def count_late(self, port: Port, block: Block) -> None:
        """Count what came after it was needed."""
        if block.kind == Kind.RESULT:
            port.count("duplicates_dropped")

    def on_resume(self, port: Port, epoch: Epoch) -> None:
        self.committed, self.current = epoch, Epoch(epoch + 1)

    def on_worker_failed(self, port: Port, worker: WorkerId) -> Ready:
        self.waiting.forget(worker)
        if worker == self.layout.partner:
            for ledger in self.ledgers.values():
                ledger.await_punctuation()
        return self.progress(port)

    def on_worker_restored(self, port: Port, worker: WorkerId) -> Ready:
        return self.progress(port)

    def progress(self, port: Port, arrived: Block | None = None) -> list[Block | WholeRow]:
        """Resolve what can be resolved of the current epoch and close it when it is complete.

        `arrived` narrows the search to that block's row; without it all rows are looked at.
        """
        ready: list[Block | WholeRow] = []
        while ledger := self.ledgers.get(self.current):
            if arrived is None:
                ledger.intact = self._is_intact(port, ledger)
                if not self.at_ease(ledger):
                    for row in self.rows(ledger):
                        ready += self._look_at(port, ledger, row)
            elif arrived.epoch == self.current and not self.at_ease(ledger):
                ready += self._look_at(port, ledger, arrived.key.row)
            if ledger.participants is None or len(ledger.done) + len(ledger.lost) < ledger.block_count:
                break
            self.closed(port, self.current, ledger)
            ready.append(WholeRow(self.current))
            del self.ledgers[self.current]
            self.committed, self.current = self.current, Epoch(self.current + 1)
            arrived = None
        return ready

    def closed(self, port: Port, epoch: Epoch, ledger: Ledger) -> None:
        """An epoch is whole; its boundary follows."""

    def at_ease(self, ledger: Ledger) -> bool:
        """True when all that is outstanding can be expected to come by itself, so that arrivals need no second look."""
        return ledger.intact

    def _is_intact(self, port: Port, ledger: Ledger) -> bool:
        if ledger.moved:  # to anyone
            return False
        for worker, incarnation in (ledger.participants or {}).items():
            if not port.is_up(worker) or port.incarnation(worker) != incarnation:
                return False
        return True

    def rows(self, ledger: Ledger) -> range:
        """All rows of the epoch that are known."""
        return range(-(-ledger.block_count // self.k))

    def lacking(self, ledger: Ledger, row: int) -> list[int]:
        """The s_indexes of a row's data blocks that have no result yet."""
        stop = min(self.k, ledger.block_count - row * self.k)
        return [i for i in range(stop) if (row, i) not in ledger.done and (row, i) not in ledger.lost]

    def _look_at(self, port: Port, ledger: Ledger, row: int) -> list[Block | WholeRow]:
        lacking = self.lacking(ledger, row)
        return list(self.resolve(port, ledger, self.current, row, lacking)) if lacking else []

    def holders(self, ledger: Ledger, epoch: Epoch, row: int, s_index: int) -> list[tuple[WorkerId, Incarnation]]:
        """Workers given a piece, each with its incarnation; 0 for one that did not get it."""
        moved = ledger.moved.get((row, s_index))
        if moved:
            return [moved]
        incarnations = ledger.participants or {}
        return [(w, incarnations.get(w, Incarnation(0))) for w in self.places(ledger, epoch, row, s_index)]

    def gone(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, s_index: int) -> bool:
        """True when this piece can no longer come: all who were given it died with it."""
        if ledger.participants is None or (row, s_index) in ledger.asked:
            return False
        return all(
            port.incarnation(worker) > incarnation
            or (port.incarnation(worker) == incarnation and not port.is_up(worker))
            for worker, incarnation in self.holders(ledger, epoch, row, s_index)
        )

    def ask(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, lacking: list[int]) -> None:
        """Ask the source to send data blocks of a row again; it answers to whom it did."""
        pieces = [(row, i) for i in lacking]
        if pieces:
            question = Block(Kind.RESEND, epoch, meta={"pieces": pieces})
            self.waiting.send(port, self.layout.commit, self.layout.partner, question)
            ledger.asked |= set(pieces)
            port.report("ask", epoch=epoch, row=row, s_indexes=lacking)
