"""The names of schemes that are asked for where neither they nor their plans are at hand."""

from __future__ import annotations

SPREAD = ("none", "erasure", "replication")
"""Under these, the processors of a job that trains are a coded stage (engine/spreads)."""
