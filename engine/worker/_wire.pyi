"""The ordinary way of a block that leaves; the odd cases stand in engine/worker/port.py."""

from riprap.codec.blocks import Block
from riprap.codec.ids import Seq, WorkerId
from riprap.engine.flow.edges import Edge

class Way:
    """The way of a link's blocks: a connection, and the bundle that they are put in."""

    connection: int
    edge: Edge
    to: WorkerId

    def __init__(self, connection: int, edge: Edge, to: WorkerId, prefix: bytes) -> None: ...

class OrdinaryWire:
    """Puts small blocks of one link that leave in a burst into one message.

    A block is held only while the one before it left less than 50 us ago, and no longer than until `flush`, which
    comes with the end of the turn: a block that is alone leaves at once, and no timer is needed. A subclass has
    `network`, `counts`, `bytes_sent`, `_check_current`, opens ways (`_open`) and sends what does not go into a bundle
    (`_forward`).
    """

    _ways: dict[tuple[Edge, WorkerId], Way]

    def __init__(self) -> None: ...
    def transmit(self, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None:
        """Forward, from the sending task to the receiving one."""

    def flush(self) -> None:
        """Send what is held."""

    def shut(self, to: WorkerId | None = None) -> None:
        """Forget the ways to a worker, or all, and what is held there: it is lost on the way."""
