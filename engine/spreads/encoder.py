"""The encoder's end of a coded segment: stands in for a link between two tasks, and sends in rows (LEC III).

    encoder                          coded stage (k + r tasks)              decoder
    a block -> pieces of a row ----> computes, keeps the piece  ----------> the results in the encoder's order
    r parity pieces a row    ------> keeps the piece            <---------- asks for pieces when a result cannot come
    "row n: who has it"      ---------------------------------------------> knows what is gone
                             <--------------------------------------------- "rows to n are whole, blocks to m safe"

Under `replication` each piece goes to several tasks of the stage, and there is no parity. A row is an epoch to the
halves of a spread (half.py). Rows are numbered through all incarnations of an encoder, the incarnation in the upper
half of the number: what is still on its way of an earlier incarnation is known by it.

Between encoder and decoder blocks are numbered and acknowledged as on any link (`sent`, `safe`); the encoder keeps them
until they are safe, and sends them anew to a new incarnation of the decoder, or its task reads them once more. What the
coded stage holds is never needed then, so that its tasks need no state and no backup.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.alarms import SLACK_S, Alarms
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import CodedSegment
from riprap.engine.spreads import SPREADS
from riprap.engine.spreads.packing import PAD, pack
from riprap.engine.spreads.rows import head_of

ROWS_MAX = 24
"""Rows that may be under way: fewer than make a task of the coded stage look late (dealer.py)."""
LINGER_S = 0.01
INCARNATION_SHIFT = 32


def first_row(incarnation: int) -> Epoch:
    """The number before the first row of an encoder's incarnation."""
    return Epoch(incarnation << INCARNATION_SHIFT)


class SegmentEncoder:
    """The common part of encoders. `rows_max`: the most rows under way."""

    kept: Sequence[Block] = ()
    """Blocks that are not known safe, oldest first, where they are not read once more."""

    def __init__(self, segment: CodedSegment, port: Port, alarms: Alarms, incarnation: int, rows_max: int) -> None:
        self.segment, self.port, self.alarms = segment, port, alarms
        self.to = segment.layout.partner
        self.half = SPREADS[segment.options["scheme"]].dealer(segment.layout, segment.options)
        self.row = first_row(incarnation)
        """The last one that was begun."""
        self._rows_max = rows_max
        self._sent = self._safe = 0
        self._begun = False
        self._first = self.row
        """The row behind which the decoder's present incarnation has begun."""

    def send(self, block: Block) -> bool:
        """Put a block on the link; False when the decoder is down, the window full, or too few tasks are there."""
        if not self.port.is_up(self.to) or not self._begin() or not self.deal(block):
            return False
        self._sent += 1
        return True

    @property
    def unacknowledged(self) -> int:
        """Blocks that are not known safe."""
        return self._sent - self._safe

    def deal(self, block: Block) -> bool:
        """Send what makes up a block; False, and nothing is done, where no row may begin for it."""
        raise NotImplementedError

    def open_row(self, pieces: int) -> bool:
        """Begin a row, if one may begin: half of the room of the link that tells of rows is left for what is sent
        again."""
        if self.row - self.half.committed >= self._rows_max:
            return False
        if not self.half.on_open(self.port, Epoch(self.row + 1), pieces):
            return False
        self.row = Epoch(self.row + 1)
        return True

    def _begin(self) -> bool:
        """Tell this incarnation of the decoder with which row the stream goes on."""
        if not self._begun:
            word = Block(Kind.PUNCTUATION, self.row, meta={"moved": [], "begin": True})
            if not self.port.send(self.segment.layout.punctuation, self.to, word):
                return False
            self.half.on_resume(self.port, self.row)
            self._begun, self._first = True, self.row
        return True

    def forget(self) -> None:
        """The decoder is down: what is under way comes to nothing."""

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> list[Block]:
        """The decoder tells what is whole and safe, or asks for blocks of a row that lacks too many."""
        if not self._begun:
            return []
        self.half.on_receive(self.port, edge, sender, block)
        self.on_safe(min(block.meta.get("safe", 0), self._sent))
        return []

    def flush(self) -> None:
        """Send what there was no room for."""
        if self._begun:
            self.half.flush(self.port)

    def on_safe(self, count: int) -> None:
        """So many of the blocks sent to the decoder's present incarnation are safe."""
        self._safe = max(self._safe, count)

    def on_worker_failed(self, worker: WorkerId) -> list[Block]:
        """Blocks not safe at the decoder are the task's again, which has taken them from `kept`."""
        if worker == self.to:
            self._sent = self._safe = 0
            self._begun = False
            self.forget()
        else:
            self.half.on_worker_failed(self.port, worker)
        return []

    def on_worker_restored(self, worker: WorkerId) -> list[Block]:
        """A new incarnation of it is up."""
        if worker != self.to:
            self.half.on_worker_restored(self.port, worker)
        return []

    def admits(self, block: Block) -> bool:
        """True when an honest decoder can have sent this."""
        if not self._begun:
            return True  # of an incarnation that is over, which its link knows
        safe = block.meta.get("safe", 0)
        known = self._sent if block.epoch > self._first else math.inf  # a late word of the one before may say more
        return safe.__class__ is int and 0 <= safe <= known and self.half.admits(block)


class PackedEncoder(SegmentEncoder):
    """Each block is a piece, packed whole (packing.py), and a row has k of them always. One that nothing more comes for
    is filled up with empty ones, at the end of a window and when the encoder has been silent for LINGER_S, so that no
    block waits for others. Blocks are kept until they are safe, as many as rows may be under way."""

    kept: deque[Block]

    def __init__(self, segment: CodedSegment, port: Port, alarms: Alarms, incarnation: int, window: int) -> None:
        super().__init__(segment, port, alarms, incarnation, min(ROWS_MAX, window // 2))
        self.kept = deque()
        self._kept_max = min(window, self._rows_max * self.half.k)
        self._pieces = 0  # of the row that is open
        self._dealt_at = 0.0

    def on_safe(self, count: int) -> None:
        for _ in range(count - self._safe):
            self.kept.popleft()
        super().on_safe(count)

    def deal(self, block: Block) -> bool:
        if len(self.kept) >= self._kept_max or (not self._pieces and not self.open_row(self.half.k)):
            return False
        self.kept.append(block)
        self._deal(pack(block))
        if block.kind == Kind.PUNCTUATION:
            self._fill()
        return True

    def _deal(self, piece: np.ndarray) -> None:
        self._pieces += 1
        self._dealt_at = self.port.now()
        self.half.on_emit(self.port, Block(Kind.DATA, self.row, items=len(piece), arrays=(piece,)))
        if self._pieces == self.half.k:
            self._pieces = 0
            self.half.on_epoch(self.port, self.row)
        elif self._pieces == 1:
            self.alarms.set(self.fill_silent, LINGER_S)

    def _fill(self) -> None:
        while self._pieces:
            self._deal(PAD)

    def fill_silent(self) -> list[Block]:
        """Fill up a row that nothing came for."""
        left_s = self._dealt_at + LINGER_S - self.port.now()
        if self._pieces and left_s > SLACK_S:
            self.alarms.set(self.fill_silent, left_s)
        else:
            self._fill()
        return []

    def forget(self) -> None:
        self.kept.clear()
        self._pieces = 0


class RowsEncoder(SegmentEncoder):
    """Each block makes a row: its arrays are the pieces, but for the last (flow/epoch_reader.py). The end of a window
    goes along with the word of the row before it, which waits LINGER_S for that.

    No block is kept: what is safe at the decoder is safe by windows, however many blocks these have, and the source
    reads them once more for a new incarnation of it. `windows_max`: the most windows whose last row is not whole; where
    there are so many, no further row begins.
    """

    def __init__(self, segment: CodedSegment, port: Port, alarms: Alarms, incarnation: int, windows_max: int) -> None:
        super().__init__(segment, port, alarms, incarnation, ROWS_MAX)
        self._windows_max = windows_max
        self._ends: deque[Epoch] = deque()
        """Rows not known to be whole with which windows end."""
        self._is_untold = False
        """True when the word of the newest row waits for what may go along."""
        self._dealt_at = 0.0

    def deal(self, block: Block) -> bool:
        if block.kind == Kind.PUNCTUATION:
            return self._end_window(block)
        self.tell()
        if self._is_crowded:
            return False
        pieces = block.arrays[:-1]
        if not self.open_row(len(pieces)):
            return False
        self._dealt_at = self.port.now()
        self.half.beside = [head_of(block)]
        for items in pieces:
            meta = {"window": block.epoch}
            self.half.on_emit(self.port, Block(Kind.DATA, self.row, items=len(items), arrays=(items,), meta=meta))
        self._is_untold = True
        self.alarms.set(self.tell, LINGER_S)
        return True

    def _end_window(self, block: Block) -> bool:
        if not self._is_untold:  # an empty window, or a late end
            if self._is_crowded or not self.open_row(0):
                return False
            self.half.beside = [[]]
            self._is_untold = True
        self.half.beside.append(head_of(block))
        self._ends.append(self.row)
        self.tell()
        return True

    @property
    def _is_crowded(self) -> bool:
        while self._ends and self._ends[0] <= self.half.committed:
            self._ends.popleft()
        return len(self._ends) >= self._windows_max

    def tell(self) -> list[Block]:
        """Tell the decoder of the newest row."""
        if self._is_untold:
            self._is_untold = False
            self.half.on_epoch(self.port, self.row)
        return []

    def forget(self) -> None:
        self._is_untold = False
        self._ends.clear()
