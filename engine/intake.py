"""The gate for what comes from the network: decoded, checked against the layout, dropped and counted if it is odd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codec.blocks import Block, Kind
from codec.errors import FrameError
from codec.header import Header, decode
from codec.ids import WorkerId
from engine.layout import Edge, Layout


class Intake:
    """Lets through what a peer of this layout may send here. `malformed` counts the rest, by reason."""

    def __init__(self, job: str, layout: Layout) -> None:
        self.job = job
        self.malformed: dict[str, int] = {}
        self._workers = {str(w): w for w in (*layout.sources, *layout.processors, *layout.sinks)}
        self._incoming = {e.index: (e, frozenset(senders)) for e, senders in layout.incoming().items()}
        self._outgoing = {edge.index: edge for edge in layout.outgoing()}
        self._kinds = {
            layout.data: {Kind.DATA, Kind.PARITY},
            layout.result: {Kind.RESULT, Kind.PARITY, Kind.DATA},
            layout.feedback: {Kind.FEEDBACK, Kind.RESEND},
            layout.punctuation: {Kind.PUNCTUATION},
            layout.commit: {Kind.ACK, Kind.RESEND},
        }
        self._processors = frozenset(map(str, layout.processors))
        # Source i and sink i are a pair, and keys name both: a sink gets its own keys only, a processor the sender's.
        self._pair = None if layout.me in layout.processors else layout.me.index

    def forward(self, peer: bytes, header: bytes, frames: Sequence[Any]) -> tuple[Edge, WorkerId, Header, Block] | None:
        """A message on a link that ends here; None if it was dropped."""
        try:
            head, block = decode(header, frames)
            sender = self._sender(head)
            if peer != identity(sender, head.incarnation):
                raise FrameError("the connection is another worker's")
            edge, senders = self._incoming.get(head.edge, (None, frozenset()))
            if edge is None or sender not in senders:
                raise FrameError("no such link ends here")
            if block.kind != Kind.HELLO:
                if block.kind not in self._kinds[edge]:
                    raise FrameError("a kind that this edge does not carry")
                self._check(sender, block)
            return edge, sender, head, block
        except FrameError as error:
            self.drop(str(error))
            return None

    def backward(self, header: bytes) -> tuple[Edge, WorkerId, Header, Block] | None:
        """An answer on a link that starts here; None if it was dropped."""
        try:
            head, block = decode(header, ())
            edge = self._outgoing.get(head.edge)
            if edge is None or block.kind not in (Kind.ACK, Kind.HELLO):
                raise FrameError("no such link starts here")
            return edge, self._sender(head), head, block
        except FrameError as error:
            self.drop(str(error))
            return None

    def drop(self, reason: str) -> None:
        """Count a message that is not handed on."""
        self.malformed[reason] = self.malformed.get(reason, 0) + 1

    def _sender(self, head: Header) -> WorkerId:
        sender = self._workers.get(head.sender)
        if sender is None or head.job != self.job:
            raise FrameError("not a worker of this job")
        return sender

    def _check(self, sender: WorkerId, block: Block) -> None:
        if block.kind in _KEYED:
            pair = sender.index if self._pair is None else self._pair
            if block.key.source != pair or block.key.sink != pair:
                raise FrameError("a key of another pair")
        check = _CHECKS.get(block.kind)
        if check and not check(block):
            raise FrameError(f"a {block.kind.name} with odd fields")
        if block.kind in (Kind.PUNCTUATION, Kind.ACK) and not _names(block) <= self._processors:
            raise FrameError("it names workers that are no processors")


def identity(worker: WorkerId, life: int) -> bytes:
    """The name under which a worker's connections are known to its receivers."""
    return f"{worker}#{life}".encode()


def _count(value: Any) -> bool:
    return value.__class__ is int and value >= 0


def _is_data(block: Block) -> bool:
    return len(block.arrays) == 1 and block.arrays[0].ndim == 2 and len(block.arrays[0]) == block.items


def _is_parity(block: Block) -> bool:
    counts = block.meta.get("counts")
    return (
        len(block.arrays) == 1
        and block.arrays[0].ndim == 2
        and _count(block.meta.get("of"))
        and isinstance(counts, list)
        and all(map(_count, counts))
        and max(counts, default=-1) == len(block.arrays[0])
    )


def _is_result(block: Block) -> bool:
    attached = block.attachment
    return _count(block.meta.get("of", 0)) and (
        attached is None or (attached.ndim == 2 and len(attached) == block.items)
    )


def _is_punctuation(block: Block) -> bool:
    meta = block.meta
    if "participants" not in meta and "moved" not in meta:
        return False
    return ("participants" not in meta or _is_end(meta)) and _is_moves(meta.get("moved", []))


def _is_end(meta: dict[str, Any]) -> bool:
    lives = meta["participants"]
    return (
        isinstance(lives, dict)
        and len(lives) > 0
        and all(map(_count, lives.values()))
        and all(_count(meta.get(name)) for name in ("items", "blocks", "active"))
        and 0 < meta["active"] <= len(lives)
        and meta.get("last").__class__ is bool
        and meta.get("opened_at").__class__ is float
    )


def _is_moves(moved: Any) -> bool:
    return isinstance(moved, list) and all(
        isinstance(m, list) and len(m) == 4 and _count(m[0]) and _count(m[1]) and isinstance(m[2], str) and _count(m[3])
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
        isinstance(piece, list) and len(piece) == 2 and all(map(_count, piece)) for piece in pieces
    )


_KEYED = frozenset((Kind.DATA, Kind.PARITY, Kind.RESULT))
_CHECKS = {
    Kind.ACK: _is_ack,
    Kind.DATA: _is_data,
    Kind.PARITY: _is_parity,
    Kind.RESULT: _is_result,
    Kind.PUNCTUATION: _is_punctuation,
    Kind.RESEND: _is_resend,
}
