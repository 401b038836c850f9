"""The two halves of a link, and what is done for every message of one; the odd cases stand in engine/flow/links.py."""

from collections import deque

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Incarnation, Seq, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.links import Window, Wire

class OutLink:
    """The sending half. Invariant: acked <= sent <= acked + window; `kept` holds exactly acked + 1 .. sent.

    A receiver that works off slowly may take less than the window.
    """

    window: Window
    sent: Seq
    acked: Seq
    kept: deque[Block]
    kept_bytes: int

    def __init__(self, window: Window) -> None: ...
    @property
    def room(self) -> int:
        """Most blocks that the window still takes."""

    def put(self, block: Block) -> Seq:
        """Keep a block and give it the next sequence number. There must be room."""

    def ack(self, seq: Seq) -> None:
        """Forget everything up to `seq`; a number that was never sent is ignored."""

    def after(self, seq: Seq) -> list[tuple[Seq, Block]]:
        """Blocks kept behind `seq`, oldest first."""

class InLink:
    """The receiving half. `asked` is the gap that the sender was told of last.

    Invariant: acked <= safe <= received <= safe + window.
    """

    received: Seq
    safe: Seq
    acked: Seq
    asked: Seq

class OrdinaryLinks:
    """All links of one worker: what is done for each message while nothing is lost and nobody died.

    A subclass says what becomes of the rest: `_on_odd` is called for a message that is not the next of its link, or is
    a HELLO, and `_replay` where a receiver says what it has got.
    """

    wire: Wire
    window: Window
    _incarnations: dict[WorkerId, Incarnation]
    _up: set[WorkerId]
    _out: dict[tuple[Edge, WorkerId], OutLink]
    _in: dict[tuple[Edge, WorkerId], InLink]

    def __init__(self, wire: Wire, window: Window) -> None: ...
    def incarnation(self, worker: WorkerId) -> Incarnation:
        """The latest incarnation known; 0 before the first."""

    def is_up(self, worker: WorkerId) -> bool:
        """True while that incarnation goes on."""

    def room(self, edge: Edge, to: WorkerId) -> int:
        """Blocks that the window still takes; 0 while the peer is down."""

    def unacknowledged(self, edge: Edge, to: WorkerId) -> int:
        """Blocks on the way to this incarnation of a peer, or there and not yet safe."""

    def send(self, edge: Edge, to: WorkerId, block: Block, urgent: bool = False) -> bool:
        """Put a block on the link; False when the peer is down or the window full. What is urgent, a barrier or what
        waits before one, may take some places beyond the window."""

    def accept(self, edge: Edge, sender: WorkerId, incarnation: Incarnation, seq: Seq, block: Block) -> bool:
        """True when a message that came in is the next of its link, to be handed on now."""

    def on_reply(
        self, edge: Edge, peer: WorkerId, incarnation: Incarnation, kind: Kind, seq: Seq, room: int = 0
    ) -> None:
        """The receiver of a link has answered: everything up to `seq` is safe (ACK), or only that much came (HELLO).
        An ACK also says how many blocks behind `seq` the receiver takes now; 0: all that the window does."""

    def ack(self, edge: Edge, sender: WorkerId, seq: Seq | None = None) -> None:
        """All that came on this link, or that up to `seq`, is safe; the sender is told with the next flush."""

    def limit(self, edge: Edge, sender: WorkerId, done: int, spare: int) -> None:
        """Up to `done` all was processed, safe or not; behind that and what is safe so many blocks may come, 0: all
        that the window takes. The sender is told with a next flush."""

    def flush(self, least: int) -> bool:
        """Send the acknowledgements that cover at least so many blocks, or for which a sender waits; True when others
        are left."""

    def _out_link(self, edge: Edge, to: WorkerId) -> OutLink: ...
    def _in_link(self, edge: Edge, sender: WorkerId) -> InLink: ...
    def _tell(self, edge: Edge, sender: WorkerId, link: InLink) -> None: ...

def places(window: Window, block: Block) -> int:
    """The most blocks unacknowledged once this one is sent, if it is urgent."""
