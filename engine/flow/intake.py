"""The gate for what comes from the network: decoded, checked against the layout, dropped and counted if it is odd.

What is done for every message stands in engine/flow/_intake.pyx, what is done once for a connection here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import FrameError
from riprap.codec.header import Header, header_of
from riprap.codec.ids import WorkerId
from riprap.engine.flow._intake import Incoming, OrdinaryIntake, Outgoing
from riprap.engine.flow.edges import Edge, Neighbourhood

Check = Callable[[WorkerId, Block], None]
PeerFetch = Callable[[bytes, list[Any], int], Any]
Name = TypeVar("Name")
Link = TypeVar("Link")
LINKS_MAX = 4096  # that are remembered: far more than a worker has, few enough whatever a peer names


class Gate(Protocol):
    """The messages that may come in (engine/flow/gate.py)."""

    @property
    def workers(self) -> Collection[WorkerId]:
        """Whom messages may be from."""

    @property
    def kinds(self) -> Mapping[Edge, set[Kind]]:
        """Allowed kinds by incoming edge."""

    @property
    def checks(self) -> Mapping[Edge, Check]:
        """FrameError unless an honest worker of this job can have written what came on an edge."""


class Intake(OrdinaryIntake):
    """Lets through what a peer of this layout may send here. `malformed` counts the rest, by reason.

    `fetch` gets at the payloads that a peer names by reference (engine/wire/sharing.py).
    """

    def __init__(self, job: str, layout: Neighbourhood, gate: Gate, fetch: PeerFetch) -> None:
        super().__init__()
        self.job, self.gate, self.fetch = job, gate, fetch
        self.malformed: dict[str, int] = {}
        self._workers = {str(worker): worker for worker in gate.workers}
        self._incoming = {e.index: (e, frozenset(senders)) for e, senders in layout.incoming().items()}
        self._outgoing = {edge.index: edge for edge in layout.outgoing()}

    def _prove(self, peer: bytes, prefix: bytes) -> Incoming:
        """The common part of all messages with this prefix that come on this peer's connection."""
        head = header_of(prefix)
        sender = self._sender(head)
        if peer != identity(sender, head.incarnation):
            raise FrameError("the connection is another worker's")
        edge, senders = self._incoming.get(head.edge, (None, frozenset()))
        if edge is None or sender not in senders:
            raise FrameError("no such link ends here")
        kinds, check = frozenset(self.gate.kinds[edge]), self.gate.checks[edge]
        link = Incoming(edge, sender, head, kinds, partial(self.fetch, peer), check)
        return _remember(self._proved, (peer, prefix), link)

    def _find(self, prefix: bytes) -> Outgoing:
        head = header_of(prefix)
        edge = self._outgoing.get(head.edge)
        if edge is None:
            raise FrameError("no such link starts here")
        return _remember(self._answered, prefix, Outgoing(edge, self._sender(head), head))

    def drop(self, reason: str) -> None:
        """Count a message that is not handed on."""
        self.malformed[reason] = self.malformed.get(reason, 0) + 1

    def _sender(self, head: Header) -> WorkerId:
        sender = self._workers.get(head.sender)
        if sender is None or head.job != self.job:
            raise FrameError("not a worker of this job")
        return sender


def _remember(links: dict[Name, Link], name: Name, link: Link) -> Link:
    if len(links) >= LINKS_MAX:
        links.clear()
    links[name] = link
    return link


def identity(worker: WorkerId, incarnation: int) -> bytes:
    """The name under which a worker's connections are known to its receivers."""
    return f"{worker}#{incarnation}".encode()
