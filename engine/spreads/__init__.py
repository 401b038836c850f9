"""Coded segments: links between two tasks whose blocks travel in rows over the tasks of a third stage (DESIGN 4b).

encoder.py, decoder.py  the two ends of such a link: deals rows of pieces; puts results in order, decodes what is lost
coded_stage.py          the task between them; trained_stage.py where models come back to it
end.py                  the tasks of the stages before and behind
cargo.py, packing.py    a block as a piece of a row, and what comes of it

half.py is what deals pieces over tasks, relays and collects them: striped.py (erasure coding), copied.py (replication),
dealt.py (no redundancy), of the parts dealer.py, relay.py, collector.py, and hedge, patience, placement, shelf, stripe.
Which workers are joined says engine/flow/segment.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from riprap.engine.flow.segment import SegmentLayout
from riprap.engine.spreads import copied, dealt, striped
from riprap.engine.spreads.collector import Collector
from riprap.engine.spreads.dealer import Dealer
from riprap.engine.spreads.relay import Relay

Options = Mapping[str, Any]


class Halves(NamedTuple):
    """Makers of the halves of a spread at encoder, coded stage and decoder; and the number of blocks of a row, by the
    options and the tasks of the coded stage."""

    dealer: Callable[[SegmentLayout, Options], Dealer]
    relay: Callable[[SegmentLayout, Options], Relay]
    collector: Callable[[SegmentLayout, Options], Collector]
    row: Callable[[Options, int], int]


SPREADS: dict[str, Halves] = {
    "erasure": Halves(striped.StripingSource, striped.make_processor, striped.make_sink, striped.row),
    "replication": Halves(copied.CopyingSource, Relay, copied.CopyingSink, copied.row),
    "dealt": Halves(dealt.DealingSource, Relay, dealt.DealingSink, dealt.row),
}
"""By the scheme of the coded stage."""
