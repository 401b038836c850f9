"""Received frames, and where messages come from."""

UPSTREAM: int
"""Origin of a message that came through the ROUTER, from a peer that connected here."""
DOWNSTREAM: int
"""Origin of a message that came back on a link that this process connected."""

class Frame:
    """One received frame, read-only, in the memory where libzmq put it.

    Exports the buffer protocol: `np.frombuffer(frame)` copies nothing and keeps the frame alive. Given to
    `Network.send`, it goes out without a copy.
    """

    def __len__(self) -> int:
        """Bytes of the frame."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """A read-only view of the bytes."""
