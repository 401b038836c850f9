"""The leader's end of the agents' reports: changes in, whole reports out."""

from __future__ import annotations

from riprap.controller import messages
from riprap.controller.deltas import DeltaReader
from riprap.controller.messages import Message
from riprap.controller.reports import AgentReport

AGENTS_MAX = 4096  # remembered; of more, the one heard of first is asked for a whole report again


class ReportReader:
    """Keeps the last report of each agent process."""

    def __init__(self) -> None:
        self._readers: dict[str, DeltaReader] = {}

    def read(self, message: Message) -> AgentReport | None:
        """The whole report after a message; None for an old one. Raises Gap, and FrameError for what is malformed."""
        instance = messages.text(message, "instance")
        reader = self._readers.get(instance, DeltaReader())
        state = reader.decode(message)
        if state is None:
            return None
        report = AgentReport.read(state)
        self._readers[instance] = reader
        if len(self._readers) > AGENTS_MAX:
            del self._readers[next(iter(self._readers))]
        return report
