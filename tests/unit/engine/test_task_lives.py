"""Processors when lives of the sink, or their own, begin out of step: what the source sends again is not lost."""

from __future__ import annotations

import numpy as np
from fake_port import DATA, FakePort, layout_of, processor, sink, source
from test_tasks import Doubling, data, feed, processor_task, results

from codec.blocks import Block, Kind
from codec.ids import Epoch
from engine.schemes import make_scheme
from engine.tasks import ProcessorTask


def test_a_block_for_the_next_life_of_the_sink_is_kept_until_that_is_known_here() -> None:
    """The source may hear of it first, and goes on from an epoch that counts as committed here."""
    task, port = processor_task()
    for epoch in range(1, 6):
        feed(task, epoch, float(epoch))
    early = data(4)
    early.meta["sink_life"] = 2
    task.on_block(DATA, source(), early)
    feed(task, 6, 6.0)  # of the life before, on its way since
    assert results(port) == [] and not port.counts
    port.kill(sink())
    task.on_worker_failed(sink())
    port.restart(sink())
    task.on_worker_restored(sink())
    feed(task, 3, 10.0)
    assert results(port) == [(4, 0, 60.0)]


def test_a_restored_processor_may_be_ahead_of_a_restored_sink() -> None:
    """Both save for themselves: what the source sends again may come before the sink says how far it is."""
    layout = layout_of(processor(1))
    port = FakePort(layout)
    task = ProcessorTask(layout, make_scheme(layout, {"scheme": "reactive"}), port, Doubling)
    state = Block(Kind.DATA, Epoch(5), arrays=(np.array([5.0]),), meta={"epochs": [5], "counts": [1]})
    task.restore(state, ())
    for epoch in (4, 2):
        task.on_block(DATA, source(), data(epoch))
    assert results(port) == [] and "stale_blocks" not in port.counts
    feed(task, 3, 10.0)
    assert results(port) == [(4, 0, 60.0)] and port.counts["stale_blocks"] == 1
