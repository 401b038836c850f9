"""A worker's shared memory: slots that it lends to its receivers, and its side of each channel (channel.pyi)."""

from typing_extensions import Buffer

class Slot(Buffer):
    """A piece of an arena with the buffer protocol; while it or an array over it lives, it is not given away."""

    arena: Arena
    index: int
    nbytes: int
    @property
    def address(self) -> int:
        """Its address in this process."""

    @property
    def place(self) -> tuple[int, int, int]:
        """Its place, for a receiver: (slot, generation, offset in the data)."""

class Arena:
    """A segment of up to `data_bytes`, lent on `links` links, with `sides` ends of channels. All methods belong to one
    thread.

    Memory is taken from the system as it is needed, from the lowest addresses on.
    """

    data_bytes: int
    token: bytes
    refusal: str
    """The system's reason for no more memory; empty while it refused none."""

    def __init__(self, links: int, data_bytes: int, sides: int = 0) -> None:
        """ValueError for bad sizes, OSError when the system has no memory to share."""

    @property
    def descriptor(self) -> int:
        """The segment's file descriptor, open as long as this object lives."""

    def open_link(self, link: int, owner: int) -> None:
        """The link leads to another incarnation from now on, named by a number that no former one had. Closes it
        first."""

    def close_link(self, link: int) -> None:
        """The incarnation that a link led to is over: what it held is free, and it can see that in its lane."""

    def allocate(self, nbytes: int) -> Slot | None:
        """A slot of so many bytes at a multiple of 64; None when there is no room, or no memory (see `refusal`)."""

    def lend(self, slot: Slot, link: int) -> bool:
        """Note that the slot is lent on a link, again perhaps. False when that link has released it: then it must not
        be named there any more."""

    def collect(self) -> int:
        """Free the slots that nobody reads any more; how many are left."""
