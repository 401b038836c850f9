"""Messages that a peer may send within a coded segment: kinds by edge, keys of its own pair, fields that are sound."""

from __future__ import annotations

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.forms import check_of_segment
from riprap.engine.flow.segment import SegmentLayout


class SegmentGate:
    """Asked about each message before its link sees it."""

    def __init__(self, layout: SegmentLayout) -> None:
        self.workers = (*layout.sources, *layout.processors, *layout.sinks)
        self.kinds: dict[Edge, set[Kind]] = {
            layout.data: {Kind.DATA, Kind.PARITY},
            layout.result: {Kind.RESULT, Kind.PARITY, Kind.DATA},
            layout.feedback: {Kind.FEEDBACK, Kind.RESEND},
            layout.punctuation: {Kind.PUNCTUATION},
            layout.commit: {Kind.ACK, Kind.RESEND},
        }
        self.checks = dict.fromkeys(self.kinds, self.check)
        self._processors = frozenset(map(str, layout.processors))
        # Source i and sink i are a pair, and keys name both: a sink gets its own keys only, a processor the sender's.
        self._pair = None if layout.me in layout.processors else layout.me.index

    def check(self, sender: WorkerId, block: Block) -> None:
        """FrameError unless an honest worker of this job can have written the message."""
        check_of_segment(block, sender.index if self._pair is None else self._pair, self._processors)
