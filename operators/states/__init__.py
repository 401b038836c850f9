"""States with built-in fault tolerance: number, vector, matrix, hash map, set (AF Appendix C)."""

from operators.states.base import Backup, State

__all__ = ["Backup", "State"]
