"""A caution where event time does not go on."""

from __future__ import annotations

from riprap.engine.flow.event_time import EventTimes
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import link_key


def caution(port: Port, layout: Layout, times: EventTimes) -> None:
    """Say once for whom event time waits, if it does."""
    if times.waits_for is not None:
        senders = {link_key(joint.edge, w): str(w) for joint in layout.inputs for w in joint.workers}
        port.report("event_time_stands", windows=times.stood, waits_for=senders[times.waits_for], at=times.now)
