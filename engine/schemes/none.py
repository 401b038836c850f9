"""Scheme `none`: input is acknowledged when received, and a lost state begins anew. Nothing is kept.

In jobs that train, what was lost with a processor is counted, block by block (engine/spreads/dealt.py).
"""

from __future__ import annotations

from riprap.engine.flow.entry import Entry
from riprap.engine.flow.scheme import Scheme

INBOX_MAX = 64
"""Blocks that may wait at a task before their senders have to."""


class Nothing(Scheme):
    """One task's half."""

    def on_receive(self, entry: Entry) -> None:
        if len(self.bench.inbox) <= INBOX_MAX:
            self.bench.acknowledge(entry)

    def on_processed(self, entry: Entry) -> None:
        self.bench.acknowledge(entry)
