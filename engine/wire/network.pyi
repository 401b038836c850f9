"""The network of one worker process: an upstream thread with a ROUTER, a downstream thread with a DEALER per peer.

Make it in the process that uses it: neither the threads nor libzmq's context survive a fork.
All methods belong to the compute thread, except `wake` and `counters`, which any thread may call.
A message is a header and up to 16 frames; on the wire these are the parts of one ZeroMQ message, nothing else.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import Buffer

from riprap.engine.wire._frames import DOWNSTREAM as DOWNSTREAM
from riprap.engine.wire._frames import UPSTREAM as UPSTREAM
from riprap.engine.wire._frames import Frame as Frame
from riprap.engine.wire.arena import Arena
from riprap.engine.wire.channel import Channel
from riprap.engine.wire.trace import Trace

class Network:
    """Sockets, threads and rings of one worker process."""

    message_bytes_max: int
    """The bound on header plus frames of one message."""

    def __init__(
        self,
        max_message_bytes: int,
        receive_capacity: int = 4096,
        arena: Arena | None = None,
        keys: tuple[bytes, bytes] | None = None,
    ) -> None:
        """Nothing runs and no port is taken yet.

        max_message_bytes: bound on header plus frames of one message, sent or received; received ones that are larger
        are dropped and counted (a frame of more than twice the bound costs the peer its connection).
        receive_capacity: arrivals that may wait in each direction, a power of two; when they do, the sockets are not
        read any more, so the peers feel it.
        arena: where neighbours that have a channel can ring for this network; without one no channel may be attached.
        keys: the CURVE key, public and secret, of this network (codec/trust); who does not know the public half cannot
        connect, and a doorkeeper of `listener` says who else cannot. None, for measurements of the network alone:
        whoever connects is heard.
        Raises ValueError for bad arguments, OSError without file descriptors.
        """

    def bind(self, endpoint: str) -> str:
        """Listen at `ipc://PATH`, `ipc://@NAME` (abstract) or `tcp://HOST:PORT`; returns the real endpoint.

        Before `start`; may be called for several endpoints. Port 0 or `*` takes a free one. An ipc path that exists is
        taken over. Raises OSError with errno and endpoint (port in use, no such directory), ValueError for another
        transport.
        """

    def listener(self) -> tuple[int, int]:
        """The addresses of libzmq's context and of the socket that listens, for the doorkeeper who guards it.

        Before `start`; the doorkeeper lets go of both before `close`. From here on an arrival counts only if the
        doorkeeper knows its sender's key under the identity with which it comes.
        """

    def trace(self, upstream: Trace, downstream: Trace) -> None:
        """Have the two threads record when they wait, send and receive. Before `start`."""

    def start(self) -> None:
        """Start the two threads. Raises OSError when a thread cannot be started."""

    def close(self, linger_ms: int = 0) -> None:
        """Stop the threads and free everything; harmless when repeated.

        What was offered before is handed to libzmq, which has `linger_ms` to get it out. Arrivals nobody received
        are dropped. Frames and arrays over them stay valid. Buffers that were lent by `send` are released.
        """

    def connect(self, endpoint: str, identity: bytes, server: bytes | None = None) -> int:
        """Make a link to the peer bound at `endpoint`, which will see this side as `identity`; returns the link's id.

        server: the public key that the peer holds; given just where this network has `keys`.

        Returns at once: libzmq connects in the background, again and again, and keeps what is sent meanwhile, without
        bound. Use a new identity for each incarnation of a sender: while a peer knows one, a second with the same name
        is not heard. Raises OSError or ValueError for a bad endpoint or identity, BlockingIOError when the command
        ring is full.
        """

    def disconnect(self, link: int, linger_ms: int = 0) -> None:
        """Close a link; what libzmq has not sent after `linger_ms` is dropped, and so is what is sent later.

        An unknown link is none of its business. Raises BlockingIOError when the command ring is full.
        """

    def attach(self, channel: Channel) -> None:
        """Send to, and receive from, a link or a peer by this channel instead of by the sockets."""

    def detach(self, sender: int | bytes) -> None:
        """Use the sockets again for a link or a peer; harmless when there is no channel."""

    def send(self, link: int, header: bytes, frames: Sequence[Buffer | np.ndarray] = ()) -> bool:
        """Queue a message on a link, in order; False when the ring to the downstream thread is full.

        Never blocks. Frames are C-contiguous buffers. Small ones are copied; one of 2 KiB or more is lent: it must not
        change until it is released, which happens in a later `send` or `receive`, after libzmq has sent it.
        A message to a link that is gone is dropped and counted. Raises ValueError over the bounds; TypeError for what
        is no buffer, BufferError or ValueError (it is the exporter who refuses) for one that is not contiguous.
        """

    def reply(self, peer: bytes, header: bytes) -> bool:
        """Queue a header-only message to a connected peer; False when the ring to the upstream thread is full.

        A peer that is not connected (any more) gets nothing; that is counted as unroutable.
        """

    def receive(self, timeout_ms: float = 0.0) -> list[tuple[int, Any, bytes, list[Frame]]]:
        """Messages that came, at most 256 of each origin: (origin, sender, header, frames).

        The sender is the peer's identity for UPSTREAM, the link's id for DOWNSTREAM. Messages of one sender are in
        order. Waits without the GIL at most `timeout_ms`, fractions allowed; [] when the time is over or `wake` was
        called (before or during the wait). Signal handlers run while it waits and may raise through it.
        """

    def wake(self) -> None:
        """End the current wait of `receive`, or else its next one. Any thread."""

    def counters(self) -> dict[str, dict[str, int]]:
        """Messages and bytes (header and frames) in and out under "upstream" and "downstream"; "dropped" by reason.

        Under "channels" the same of those that are attached, and how many of them are broken.
        The reasons: too_many_frames, too_large, no_header for arrivals; unroutable for sends and replies; stranger for
        arrivals of whom a doorkeeper knows under another name.
        """
