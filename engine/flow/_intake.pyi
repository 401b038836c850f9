"""The ordinary way of a message before its link sees it; the odd cases stand in engine/flow/intake.py."""

from collections.abc import Collection, Sequence
from typing import Any

from riprap.codec.blocks import Block, Kind
from riprap.codec.header import Fetch, Header
from riprap.codec.ids import WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.intake import Check

class Incoming:
    """A link that ends here, as the first message of a connection has proved it."""

    edge: Edge
    sender: WorkerId
    head: Header

    def __init__(
        self, edge: Edge, sender: WorkerId, head: Header, kinds: Collection[Kind], fetch: Fetch, check: Check
    ) -> None: ...

class Outgoing:
    """A link that starts here, as its receiver names it."""

    edge: Edge
    receiver: WorkerId
    head: Header

    def __init__(self, edge: Edge, receiver: WorkerId, head: Header) -> None: ...

class OrdinaryIntake:
    """Lets through what is known to be sound. A subclass looks at what comes for the first time (`_prove`, `_find`),
    and counts what is dropped (`drop`)."""

    _proved: dict[tuple[bytes, bytes], Incoming]
    """By the peer's identity and the prefix of its headers: equal bytes need no second look."""
    _answered: dict[bytes, Outgoing]

    def __init__(self) -> None: ...
    def forward(
        self, peer: bytes, header: bytes, frames: Sequence[Any]
    ) -> tuple[Edge, WorkerId, Header, list[Block]] | None:
        """The blocks of a message on a link that ends here; None if all were dropped."""

    def backward(self, header: bytes) -> tuple[Edge, WorkerId, Header, Block] | None:
        """An answer on a link that starts here; None if it was dropped."""
