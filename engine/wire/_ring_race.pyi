"""Races real threads, without the GIL, through the rings and checks the order; for the tests and bench/rings.py."""

def race_spsc(capacity: int, count: int, batch: int = 1) -> tuple[int, float]:
    """Pass `count` pointers between two threads; returns (pointers out of order, seconds)."""

def race_mpsc(capacity: int, producers: int, count: int) -> tuple[int, float]:
    """Pass `count` pointers from each of `producers` threads to this one; returns (pointers out of order, seconds)."""
