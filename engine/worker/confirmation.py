"""Backup servers' confirmation of what a worker saves."""

from __future__ import annotations


class Confirmation:
    """Numbers of records: the last that was saved, and the last that the worker has been told is safe."""

    def __init__(self) -> None:
        self._saved = self._told = 0
        self._since = 0.0

    def save(self, number: int, now: float) -> None:
        """A record is under way; the wait begins with the first of them."""
        if self._saved <= self._told:
            self._since = now
        self._saved = number

    def skip(self, durable: int) -> None:
        """All up to this one is safe, and nobody is to be told: it is of a former incarnation or round."""
        self._told = durable

    def grow(self, durable: int, now: float) -> bool:
        """True when more is safe than was told."""
        if durable <= self._told:
            return False
        self._told, self._since = durable, now
        return True

    def silence_s(self, now: float) -> float:
        """Seconds for which something has been waiting, and nothing was confirmed."""
        return now - self._since if self._saved > self._told else 0.0
