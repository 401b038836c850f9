"""Messages between two workers of one host through memory, instead of through sockets.

Each worker has a side of the channel in its own segment (arena.pyi): a ring that it writes, and the position up
to which it has read the neighbour's ring. A `Network` that a channel is attached to sends and receives by it.
"""

from typing import Any

from riprap.engine.wire.arena import Arena

class Channel:
    """One worker's end of a channel."""

    tail: int
    """The neighbour begins to read here."""
    is_broken: bool
    """True when nothing goes through it: it is not joined yet, or the neighbour wrote what it cannot have meant."""
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int

    def __init__(self, arena: Arena, side: int, origin: int, sender: Any, bytes_max: int) -> None:
        """`origin` and `sender` are what `Network.receive` is to say of messages; `bytes_max` bounds one message.

        OSError when the system has no memory to share.
        """

    def join(self, pid: int, descriptor: int, token: bytes, side: int, tail: int) -> None:
        """Connect to the neighbour's side and its tail; OSError when there is no such segment or side."""
