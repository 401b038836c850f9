"""Random graphs by event time come to what the plain model says, row for row, whoever dies.

`RIPRAP_SIM_SEEDS` sets how many seeds each scheme gets, `RIPRAP_SIM_FIRST` the first of them.
"""

from __future__ import annotations

import os

import pytest
from random_graphs import JOBS, Graph, is_as_the_model_says
from random_panes import TimedDrawn, TimedEndless, TimedGraph

from riprap.engine.flow.event_time import EventTimes, LinkKey, Promise

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "1"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))

SCHEMES = [name for name in JOBS if name != "optimistic"]
"""That is for loops, which have no event time."""


@pytest.mark.parametrize("kind", [TimedGraph, TimedEndless], ids=["whole", "drained"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_random_panes_are_as_the_plain_model_says(scheme: str, kind: type[Graph]) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        is_as_the_model_says(kind, TimedDrawn(seed, (scheme,)), __file__, scheme)


def test_event_time_that_goes_by_the_newest_promise_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: which item is late depends on the link that was faster."""

    def newest(times: EventTimes, link: LinkKey, epoch: int) -> Promise:
        promises = times.links.get(link)
        return promises[-1] if promises else Promise(epoch, None, False)

    monkeypatch.setattr(EventTimes, "_at", newest)
    with pytest.raises(AssertionError, match="off by"):
        for seed in range(8):
            is_as_the_model_says(TimedGraph, TimedDrawn(seed, ("aligned",)), __file__, "aligned")
