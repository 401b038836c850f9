"""Messages that a peer may send: kinds by edge, and the numbers of every block."""

from __future__ import annotations

from typing import Any

from riprap.codec.blocks import NO_KEY, Block, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import WorkerId
from riprap.codec.trust.paths import problem_with_path
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.forms import are_counts, is_window_end
from riprap.engine.flow.layout import DataflowLayout
from riprap.engine.flow.segment_gate import SegmentGate

FORWARD, BACK, REPLY = {Kind.DATA, Kind.PUNCTUATION, Kind.BARRIER}, {Kind.FEEDBACK, Kind.BARRIER}, {Kind.REPLY}


class DataflowGate:
    """Asked about each message before its link sees it."""

    def __init__(self, layout: DataflowLayout) -> None:
        joints = (*layout.inputs, *layout.outputs)
        parts = [SegmentGate(segment.layout) for segment in layout.segments]
        joined = [
            *(worker for joint in joints for worker in joint.workers),
            *(w for part in parts for w in part.workers),
        ]
        self.workers = tuple(dict.fromkeys(joined))
        self.kinds: dict[Edge, set[Kind]] = {joint.edge: BACK if joint.feedback else FORWARD for joint in layout.inputs}
        self.kinds |= {joint.reply: REPLY for joint in layout.outputs}
        for part in parts:
            self.kinds |= part.kinds
        self._me = layout.me.index
        self._parts = {worker: part for part in parts for worker in part.workers}
        """Workers of coded segments, whose messages name no cause."""
        links = {segment.link for segment in layout.segments}
        self._linked = {worker for joint in layout.inputs if joint.edge not in links for worker in joint.workers}
        """Senders of blocks of a link, which do."""

    def check(self, sender: WorkerId, block: Block) -> None:
        """FrameError unless an honest worker of this job can have written the message."""
        kind, meta = block.kind, block.meta
        if kind == Kind.REPLY:
            if set(meta) != {"heard"} or not _is_heard(meta["heard"]):
                raise FrameError("a REPLY with odd fields")
            return
        if kind == Kind.BARRIER:
            if not _is_savepoint(meta) or block.arrays or block.epoch <= 0 or block.key != NO_KEY:
                raise FrameError("a BARRIER with odd fields")
            return
        part = self._parts.get(sender)
        if part is not None and ("cause" not in meta or sender not in self._linked):
            part.check(sender, block)
            return
        if (block.key.source, block.key.sink) != (sender.index, self._me) or not block.key.row:
            raise FrameError("a key of another link")
        if not are_counts(meta.get("cause"), 4):
            raise FrameError("a block without its cause")
        if kind == Kind.PUNCTUATION and not is_window_end(meta):
            raise FrameError("a PUNCTUATION with odd fields")


def _is_savepoint(meta: dict[str, Any]) -> bool:
    """True when a barrier says nothing, or where a savepoint's parts go."""
    where = meta.get("savepoint", "/")
    return not set(meta) - {"savepoint"} and isinstance(where, str) and not problem_with_path(where)


def _is_heard(heard: Any) -> bool:
    return (
        isinstance(heard, list)
        and len(heard) == 5
        and are_counts([*heard[:2], heard[3]], 3)
        and heard[2].__class__ is bool
        and isinstance(heard[4], list)
        and all(are_counts(cause, 4) for cause in heard[4])
    )
