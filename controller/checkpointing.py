"""The names by which everybody knows checkpoints: the schemes that make them, and their log in a run directory."""

from __future__ import annotations

CHECKPOINTING = ("barrier", "optimistic", "stop_the_world")
CHECKPOINTS = "checkpoints.jsonl"
"""The job's log of checkpoints, in its run directory."""
