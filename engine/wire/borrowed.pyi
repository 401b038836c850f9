"""The borrowing half of shared memory between workers of one host: views of slots in another worker's segment."""

from typing_extensions import Buffer

class SlotView(Buffer):
    """Bytes of a slot, read-only; the slot is released when the last view of it is gone."""

    nbytes: int

class Borrowed:
    """Another worker's segment, as far as it is lent to this one. The memory stays mapped as long as a view lives,
    whatever happens to the lender."""

    holding: int
    """Number of slots held here."""

    def __init__(self, pid: int, descriptor: int, token: bytes, link: int, owner: int) -> None:
        """Map the file `descriptor` of process `pid`; OSError when that is not the segment which `token` names."""

    @property
    def is_current(self) -> bool:
        """True when the lender still counts on this incarnation. If not, what was read last may have been overwritten:
        nothing that was made of it may leave."""

    def view(self, index: int, generation: int, offset: int, nbytes: int) -> SlotView:
        """Hold a slot; FrameError when it is not there (any more)."""
