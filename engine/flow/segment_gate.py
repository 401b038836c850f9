"""Messages that a peer may send within a coded segment: kinds by edge, keys of its own pair, fields that are sound."""

from __future__ import annotations

from typing import Any

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.fields import are_counts, is_count, is_window_end
from riprap.engine.flow.segment import SegmentLayout

HEAD_COUNTS = 8
"""Numbers that a head begins with."""


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
        self._processors = frozenset(map(str, layout.processors))
        # Source i and sink i are a pair, and keys name both: a sink gets its own keys only, a processor the sender's.
        self._pair = None if layout.me in layout.processors else layout.me.index

    def check(self, sender: WorkerId, block: Block) -> None:
        """FrameError unless an honest worker of this job can have written the message."""
        if block.kind in _KEYED:
            pair = sender.index if self._pair is None else self._pair
            if block.key.source != pair or block.key.sink != pair:
                raise FrameError("a key of another pair")
        if block.kind != Kind.PUNCTUATION and not _OF_WORDS.isdisjoint(block.meta):
            raise FrameError("a field of a row's word in another message")
        check = _CHECKS.get(block.kind)
        if check and not check(block):
            raise FrameError(f"a {block.kind.name} with odd fields")
        if block.kind in (Kind.PUNCTUATION, Kind.ACK) and not _names(block) <= self._processors:
            raise FrameError("it names workers that are no processors")


def _is_data(block: Block) -> bool:
    return (
        len(block.arrays) == 1
        and block.arrays[0].ndim == 2
        and len(block.arrays[0]) == block.items
        and is_count(block.meta.get("window", 1))
    )


def _is_parity(block: Block) -> bool:
    counts = block.meta.get("counts")
    return (
        len(block.arrays) == 1
        and block.arrays[0].ndim == 2
        and is_count(block.meta.get("of"))
        and is_count(block.meta.get("window", 1))
        and isinstance(counts, list)
        and all(map(is_count, counts))
        and max(counts, default=-1) == len(block.arrays[0])
    )


def _is_result(block: Block) -> bool:
    attached = block.attachment
    return is_count(block.meta.get("of", 0)) and (
        attached is None or (attached.ndim == 2 and len(attached) == block.items)
    )


def _is_punctuation(block: Block) -> bool:
    meta = block.meta
    if "participants" not in meta and ("moved" not in meta or "heads" in meta):
        return False
    return ("participants" not in meta or _is_row(meta)) and _is_moves(meta.get("moved", []))


def _is_row(meta: dict[str, Any]) -> bool:
    lives = meta["participants"]
    return (
        isinstance(lives, dict)
        and len(lives) > 0
        and all(map(is_count, lives.values()))
        and all(is_count(meta.get(name)) for name in ("blocks", "active"))
        and 0 < meta["active"] <= len(lives)
        and _are_heads(meta.get("heads", []))
    )


def _are_heads(heads: Any) -> bool:
    """True for blocks without their pieces (engine/spreads/rows.py): numbers, and at a window's end what it says."""
    return isinstance(heads, list) and all(isinstance(head, list) and (not head or _is_head(head)) for head in heads)


def _is_head(head: list[Any]) -> bool:
    if len(head) != HEAD_COUNTS + 1 or not are_counts(head[:HEAD_COUNTS], HEAD_COUNTS):
        return False
    return are_counts(head[HEAD_COUNTS], 2) or is_window_end(head[HEAD_COUNTS])


def _is_feedback(block: Block) -> bool:
    return is_count(block.meta.get("window", 0))


def _is_moves(moved: Any) -> bool:
    return isinstance(moved, list) and all(
        isinstance(m, list) and len(m) == 4 and isinstance(m[2], str) and are_counts([m[0], m[1], m[3]], 3)
        for m in moved
    )


def _is_ack(block: Block) -> bool:
    avoided = block.meta.get("avoided", [])
    return isinstance(avoided, list) and all(isinstance(name, str) for name in avoided)


def _names(block: Block) -> set[str]:
    """The processors that a message to or from a source tells of."""
    if block.kind == Kind.ACK:
        return set(block.meta.get("avoided", ()))
    return {*block.meta.get("participants", ()), *(m[2] for m in block.meta.get("moved", ()))}


def _is_resend(block: Block) -> bool:
    pieces = block.meta.get("pieces")
    return isinstance(pieces, list) and all(
        isinstance(piece, list) and len(piece) == 2 and all(map(is_count, piece)) for piece in pieces
    )


_OF_WORDS = frozenset(("participants", "heads", "moved", "begin"))
_KEYED = frozenset((Kind.DATA, Kind.PARITY, Kind.RESULT))
_CHECKS = {
    Kind.ACK: _is_ack,
    Kind.FEEDBACK: _is_feedback,
    Kind.DATA: _is_data,
    Kind.PARITY: _is_parity,
    Kind.RESULT: _is_result,
    Kind.PUNCTUATION: _is_punctuation,
    Kind.RESEND: _is_resend,
}
