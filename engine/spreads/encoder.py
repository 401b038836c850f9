"""The encoder's end of a coded segment: stands in for a link between two tasks, and sends in rows (LEC III).

    encoder                          coded stage (k + r tasks)              decoder
    a block -> a piece of k  ------> computes, keeps the piece  ----------> the results in the encoder's order
    r parity pieces a row    ------> keeps the piece            <---------- asks for pieces when a result cannot come
    "row n: who has it"      ---------------------------------------------> knows what is gone
                             <--------------------------------------------- "rows to n are whole, blocks to m safe"

Under `replication` a row is one piece, which goes to several tasks of the stage, and there is no parity.

A row is an epoch to the halves of a spread (half.py): it has k pieces always. One that nothing more comes for is filled
up with empty ones, at the end of a window and when the encoder has been silent for LINGER_S, so that no block waits for
others. Rows are numbered through all lives of an encoder, the life in the upper half of the number: what is still on
its way of an earlier life is known by it.

Between encoder and decoder blocks are numbered and acknowledged as on any link (`sent`, `safe`); the encoder keeps them
until they are safe, and sends them anew to a new life of the decoder. What the coded stage holds is never needed then,
so that its tasks need no state and no backup.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.alarms import SLACK_S, Alarms
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import CodedSegment
from riprap.engine.spreads import SPREADS
from riprap.engine.spreads.cargo import Cargo, head_of

ROWS_MAX = 24
"""Rows that may be under way: fewer than make a task of the coded stage look late (dealer.py)."""
KEPT_ROWS_MAX = 128
"""Rows whose blocks may be kept until they are safe, where windows bound what is under way."""
LINGER_S = 0.01
LIFE_SHIFT = 32


def first_row(life: int) -> Epoch:
    """The number before the first row of an encoder's life."""
    return Epoch(life << LIFE_SHIFT)


class Encoder:
    """`window`: the most blocks that may be unsafe. `windows_max`: the most windows whose last row is not whole; where
    there are so many, no row of a further one begins."""

    def __init__(
        self, segment: CodedSegment, port: Port, alarms: Alarms, life: int, window: int, cargo: Cargo,
        windows_max: float = math.inf,
    ) -> None:  # fmt: skip
        self.segment, self.port, self._alarms, self.cargo = segment, port, alarms, cargo
        self.to = segment.layout.partner
        self.half = SPREADS[segment.options["scheme"]].dealer(segment.layout, segment.options)
        self.kept: deque[Block] = deque()
        self._rows_max, self._windows_max = min(ROWS_MAX, window // 2), windows_max
        kept_rows = KEPT_ROWS_MAX if windows_max < math.inf else self._rows_max
        self._window = min(window, kept_rows * self.half.k)
        self._sent = self._safe = 0
        self._row = first_row(life)
        self._pieces = 0  # of the row that is open
        self._is_untold = False
        """True when a row is full, and its word waits for what may go along."""
        self._meta: dict[str, int] = {}  # of the pieces of the row that is open
        self._ends: deque[Epoch] = deque()
        """Rows not known to be whole with which windows end."""
        self._dealt_at = 0.0
        self._begun = False

    def send(self, block: Block) -> bool:
        """Put a block on the link; False when the decoder is down, the window full, or too few tasks are there."""
        if not self.port.is_up(self.to) or len(self.kept) >= self._window or not self._begin():
            return False
        if block.kind == Kind.PUNCTUATION and self.cargo.has_heads:
            return self._end_window(block)
        if not self._open(block.epoch):
            return False
        self._keep(block)
        if self.cargo.has_heads:
            self.half.beside.append(head_of(block))
        self._deal(self.cargo.piece(block))
        if block.kind == Kind.PUNCTUATION:
            self._fill()
        return True

    def _open(self, window: Epoch) -> bool:
        """See to it that a row is open, if one may begin."""
        if self._pieces:
            return True
        self._tell()
        if self._is_crowded or not self.half.on_open(self.port, Epoch(self._row + 1), self.half.k):
            return False
        self._meta = {"window": window} if self.cargo.has_heads else {}
        return True

    def _end_window(self, block: Block) -> bool:
        """Let the end of a window go along with the word of the row before it; with an empty row where that is told."""
        if not self._pieces and not self._is_untold:
            if not self._open(block.epoch):
                return False
            self._pad()
        self._keep(block)
        self._fill()
        self.half.beside.append(head_of(block))
        self._ends.append(self._row)
        self._tell()
        return True

    def _keep(self, block: Block) -> None:
        self.kept.append(block)
        self._sent += 1

    @property
    def _is_crowded(self) -> bool:
        """True when no further row may begin before some of those under way have ended: half of the room of the link
        that tells of them is left for what is sent again."""
        while self._ends and self._ends[0] <= self.half.committed:
            self._ends.popleft()
        return len(self._ends) >= self._windows_max or self._row - self.half.committed >= self._rows_max

    def _begin(self) -> bool:
        """Tell this life of the decoder with which row the stream goes on."""
        if not self._begun:
            word = Block(Kind.PUNCTUATION, self._row, meta={"moved": [], "begin": True})
            if not self.port.send(self.segment.layout.punctuation, self.to, word):
                return False
            self.half.on_resume(self.port, self._row)
            self._begun = True
        return True

    def _deal(self, piece: np.ndarray) -> None:
        if not self._pieces:
            self._row = Epoch(self._row + 1)
        self._pieces += 1
        self._dealt_at = self.port.now()
        piece_of_row = Block(Kind.DATA, self._row, items=len(piece), arrays=(piece,), meta=dict(self._meta))
        self.half.on_emit(self.port, piece_of_row)
        if self._pieces == 1:
            self._alarms.set(self.fill_silent, LINGER_S)
        if self._pieces == self.half.k:
            self._pieces, self._is_untold = 0, True
            if not self.cargo.has_heads:
                self._tell()

    def _tell(self) -> None:
        """Tell the decoder of a row that is full."""
        if self._is_untold:
            self._is_untold = False
            self.half.on_epoch(self.port, self._row)

    def _pad(self) -> None:
        if self.cargo.has_heads:
            self.half.beside.append([])
        self._deal(self.cargo.pad)

    def _fill(self) -> None:
        while self._pieces:
            self._pad()

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> list[Block]:
        """The decoder tells what is whole and safe, or asks for blocks of a row that lacks too many."""
        if not self._begun:
            return []
        self.half.on_receive(self.port, edge, sender, block)
        while self.kept and self._safe < block.meta.get("safe", 0):
            self.kept.popleft()
            self._safe += 1
        return []

    def on_worker_failed(self, worker: WorkerId) -> list[Block]:
        """What the decoder had not made safe is the task's again, which has taken it from `kept`."""
        if worker == self.to:
            self.kept.clear()
            self._ends.clear()
            self.half.beside.clear()
            self._sent = self._safe = self._pieces = 0
            self._begun = self._is_untold = False
        else:
            self.half.on_worker_failed(self.port, worker)
        return []

    def on_worker_restored(self, worker: WorkerId) -> list[Block]:
        if worker != self.to:
            self.half.on_worker_restored(self.port, worker)
        return []

    def fill_silent(self) -> list[Block]:
        """Fill up a row that nothing came for, and tell of it."""
        left_s = self._dealt_at + LINGER_S - self.port.now()
        if (self._pieces or self._is_untold) and left_s > SLACK_S:
            self._alarms.set(self.fill_silent, left_s)
        else:
            self._fill()
            self._tell()
        return []

    def admits(self, block: Block) -> bool:
        """True when an honest decoder can have sent this."""
        if not self._begun:
            return True  # of a life that is over, which its link knows
        safe = block.meta.get("safe", 0)
        return safe.__class__ is int and 0 <= safe <= self._sent and self.half.admits(block)
