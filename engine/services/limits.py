"""The most standby controllers and pretended hosts that one machine runs, for commands and programs alike."""

from __future__ import annotations

STANDBY_MAX = 4
"""Standby controllers."""
HOSTS_MAX = 64
"""Hosts that a machine acts as, with an agent each."""
