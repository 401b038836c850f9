"""Bounded first-in first-out rings between threads; neither side ever waits.

The engine's threads use the C side of these (rings.pxd); the classes here carry Python objects.
"""

from typing import Any

class SpscRing:
    """A ring for one producer thread and one consumer thread."""

    def __init__(self, capacity: int) -> None:
        """`capacity` is a power of two, at most 2**30; ValueError otherwise."""

    def __len__(self) -> int:
        """Number of items inside; a guess while another thread works on the ring."""

    def offer(self, item: Any) -> bool:
        """Append `item`; False, and nothing else, when the ring is full."""

    def poll(self, default: Any = None) -> Any:
        """Take the oldest item; `default` when the ring is empty."""

class MpscRing:
    """A ring for any number of producer threads and one consumer thread; each producer's items keep their order."""

    def __init__(self, capacity: int) -> None:
        """`capacity` is a power of two, at most 2**30; ValueError otherwise."""

    def __len__(self) -> int:
        """Number of items inside; a guess while another thread works on the ring."""

    def offer(self, item: Any) -> bool:
        """Append `item`; False, and nothing else, when the ring is full."""

    def poll(self, default: Any = None) -> Any:
        """Take the oldest item; `default` when the ring is empty."""
