"""What lets a task's next life go on: which commits a sink saves, and that a processor out of step with its sink's life
loses nothing of what the source sends again."""

from __future__ import annotations

import numpy as np
from fake_port import DATA, PUNCTUATION, RESULT, FakePort, layout_of, processor, sink, source
from task_parts import Doubling, data, end, feed, processor_task, result, results, sink_task

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.three_stage.processor import ProcessorTask
from riprap.engine.flow.three_stage.sink import SAVE_EVERY_S
from riprap.engine.schemes import make_scheme


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


def test_of_commits_that_follow_each_other_closely_the_newest_is_saved() -> None:
    task, port, _ = sink_task({"scheme": "none"})
    port.clock = 1.0
    for epoch in (1, 2, 3):
        task.on_block(RESULT, processor(0), result(epoch, 0, 0, epoch))
        task.on_block(PUNCTUATION, source(), end(epoch, 1))
        task.work()
    assert [epoch for _, epoch, _, _ in port.saved] == [1]
    port.clock += SAVE_EVERY_S
    task.work()
    task.work()
    assert [epoch for _, epoch, _, _ in port.saved] == [1, 3]
    task.on_block(RESULT, processor(0), result(4, 0, 0, 4))
    task.on_block(PUNCTUATION, source(), end(4, 1, last=True))
    assert [epoch for _, epoch, _, _ in port.saved] == [1, 3, 4], "the last one does not wait"
