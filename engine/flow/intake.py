"""The gate for what comes from the network: decoded, checked against the layout, dropped and counted if it is odd."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import FrameError
from riprap.codec.framing import decode
from riprap.codec.header import Header
from riprap.codec.ids import WorkerId
from riprap.engine.flow.edges import Edge, Neighbourhood

PROVEN_MAX = 4096
PeerFetch = Callable[[bytes, list[Any], int], Any]


class Gate(Protocol):
    """What may come in, for one form of topology (engine/flow/three_stage/gate.py, engine/flow/gate.py)."""

    @property
    def workers(self) -> Collection[WorkerId]:
        """Whom messages may be from."""

    @property
    def kinds(self) -> Mapping[Edge, set[Kind]]:
        """What each incoming edge may carry."""

    def check(self, sender: WorkerId, block: Block) -> None:
        """FrameError unless an honest worker of this job can have written the message."""


class Intake:
    """Lets through what a peer of this layout may send here. `malformed` counts the rest, by reason.

    `fetch` gets at the payloads that a peer names by reference (engine/wire/sharing.py).
    """

    def __init__(self, job: str, layout: Neighbourhood, gate: Gate, fetch: PeerFetch) -> None:
        self.job, self.gate, self.fetch = job, gate, fetch
        self.malformed: dict[str, int] = {}
        self._workers = {str(worker): worker for worker in gate.workers}
        self._proven: dict[bytes, tuple[str, int, WorkerId]] = {}
        """Connection -> the sender that it is of, its incarnation, its id: all that it may say of itself."""
        self._incoming = {e.index: (e, frozenset(senders)) for e, senders in layout.incoming().items()}
        self._outgoing = {edge.index: edge for edge in layout.outgoing()}

    def forward(self, peer: bytes, header: bytes, frames: Sequence[Any]) -> tuple[Edge, WorkerId, Header, Block] | None:
        """A message on a link that ends here; None if it was dropped."""
        try:
            head, block = decode(header, frames, partial(self.fetch, peer))
            sender = self._sender_at(peer, head)
            edge, senders = self._incoming.get(head.edge, (None, frozenset()))
            if edge is None or sender not in senders:
                raise FrameError("no such link ends here")
            if block.kind != Kind.HELLO:
                if block.kind not in self.gate.kinds[edge]:
                    raise FrameError("a kind that this edge does not carry")
                self.gate.check(sender, block)
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

    def _sender_at(self, peer: bytes, head: Header) -> WorkerId:
        """The sender of a message, which must be the one whose connection this is."""
        proven = self._proven.get(peer)
        if proven is not None and proven[0] == head.sender and proven[1] == head.incarnation and head.job == self.job:
            return proven[2]
        sender = self._sender(head)
        if peer != identity(sender, head.incarnation):
            raise FrameError("the connection is another worker's")
        if len(self._proven) >= PROVEN_MAX:
            self._proven.clear()
        self._proven[peer] = (head.sender, head.incarnation, sender)
        return sender

    def _sender(self, head: Header) -> WorkerId:
        sender = self._workers.get(head.sender)
        if sender is None or head.job != self.job:
            raise FrameError("not a worker of this job")
        return sender


def identity(worker: WorkerId, life: int) -> bytes:
    """The name under which a worker's connections are known to its receivers."""
    return f"{worker}#{life}".encode()
