"""Schemes `mini_batch` and `reactive`: acknowledged is persisted; what is not acknowledged goes to the next life."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_port import items, processor, sink, source
from task_parts import Notebook, epoch_reader, hosted_task, processor_stage, staged

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch, Seq, fence_of, records_of
from riprap.engine.flow.layout import Joint
from riprap.engine.flow.progress import Heard
from riprap.engine.schemes.mini_batch import MiniBatch
from riprap.engine.schemes.registry import SCHEMES
from riprap.engine.worker.build import Hosted
from riprap.engine.worker.persistence import NoStore
from riprap.operators.adapters.stages import SourceStage

REACTIVE = {"scheme": "reactive"}
TOTAL = float(items(2).sum())


class Pairs:
    """A processor's task between so many sources and sinks, which have said how far they are."""

    def __init__(self, pairs: int = 1, state: Block | None = None, records: Any = ()) -> None:
        self.task, self.port = processor_stage(REACTIVE, pairs)
        if state is not None:
            self.task.restore(state, records)
        (self.data,) = [joint for joint in self.task.layout.inputs if not joint.feedback]
        (self.back,) = [joint for joint in self.task.layout.inputs if joint.feedback]
        (self.out,) = self.task.layout.outputs
        self.task.start()
        for pair in range(pairs):
            reply = Block(Kind.REPLY, Epoch(0), meta={"heard": Heard().pack()})
            self.task.on_block(self.out.reply, sink(pair), reply)

    def give(self, number: int, window: int, pair: int = 0) -> None:
        """A block of two items, the nth of its link."""
        arrays = (items(2), np.array([2 * number, 2]))
        self._give(
            self.data, source(pair), Block(Kind.DATA, Epoch(window), items=2, arrays=arrays), number, 2 * number - 2
        )

    def end(self, number: int, window: int, pair: int = 0) -> None:
        """The end of a window."""
        meta = {"items": 2, "last": False, "opened_at": 1.0}
        block = Block(Kind.PUNCTUATION, Epoch(window), meta=meta)
        self._give(self.data, source(pair), block, number, 2 * number - 2)

    def feed(self, window: int, value: float, pair: int = 0) -> None:
        """The model of a window."""
        block = Block(Kind.FEEDBACK, Epoch(window), items=1, arrays=(np.array([value]),))
        self._give(self.back, sink(pair), block, window, window - 1)

    def _give(self, joint: Joint, sender: Any, block: Block, number: int, before: int) -> None:
        block.key = Key(sender.index, 1, number, before)
        block.meta["cause"], block.seq = [2**31, 0, number, 0], Seq(number)
        self.task.on_block(joint.edge, sender, block)
        self.work()

    def work(self) -> None:
        while self.task.work():
            pass

    def durable(self, number: int | None = None) -> None:
        """All that was saved is safe, or that up to a record."""
        self.task.on_durable(len(self.port.saved) if number is None else number)
        self.work()

    def results(self) -> list[tuple[int, int, float]]:
        """Window, sink and value of each result."""
        sent = [(to, block) for to, block in self.port.sent_on(self.out.edge) if block.kind == Kind.DATA]
        return [(block.epoch, to.index, float(block.arrays[0][0])) for to, block in sent]


def test_both_names_are_the_same_scheme() -> None:
    assert SCHEMES["reactive"] is SCHEMES["mini_batch"] is MiniBatch


def test_a_block_is_processed_and_acknowledged_once_it_is_durable_and_in_order() -> None:
    pairs = Pairs()
    pairs.port.acked.clear()
    for number in (1, 2, 3):
        pairs.give(number, 1)
    assert [kind for kind, *_ in pairs.port.saved] == ["item"] * 3
    assert not pairs.port.acked and not pairs.results()
    pairs.durable(2)
    data = pairs.data.edge
    assert pairs.port.acked == [(data, source(), 1), (data, source(), 2)] and len(pairs.results()) == 2
    pairs.durable(3)
    assert pairs.port.acked[2:] == [(data, source(), 3)] and pairs.results() == [(1, 0, TOTAL)] * 3


def test_what_cannot_be_saved_now_is_saved_later_in_order() -> None:
    pairs = Pairs()
    pairs.port.full = True
    pairs.give(1, 1)
    pairs.give(2, 1)
    assert not pairs.port.saved
    pairs.port.full = False
    pairs.durable(0)
    assert [meta["number"] for _, _, meta, _ in pairs.port.saved] == [1, 2]
    assert not pairs.results(), "saved, not safe"
    pairs.durable()
    assert len(pairs.results()) == 2


def test_a_former_lifes_acknowledgement_is_not_given_to_a_new_source() -> None:
    pairs = Pairs()
    pairs.port.acked.clear()
    pairs.give(1, 1)
    pairs.port.renew(source())
    pairs.task.on_worker_failed(source())
    pairs.durable()
    assert not pairs.port.acked and len(pairs.results()) == 1


def test_a_block_is_held_until_the_model_of_the_window_before() -> None:
    pairs = Pairs()
    pairs.give(1, 1)
    pairs.end(2, 1)
    pairs.give(3, 2)
    pairs.durable()
    assert pairs.results() == [(1, 0, TOTAL)]
    pairs.feed(1, 10.0)
    pairs.durable()
    assert pairs.results() == [(1, 0, TOTAL)] and [*pairs.port.saved][-1][0] == "item", "it came only now"
    pairs.durable()
    assert pairs.results() == [(1, 0, TOTAL), (2, 0, 10.0 * TOTAL)]


def test_a_state_is_saved_with_each_window_and_holds_the_models_of_all_pairs() -> None:
    pairs = Pairs(2)
    for pair in (0, 1):
        pairs.give(1, 1, pair)
        pairs.end(2, 1, pair)
    pairs.durable()
    assert [kind for kind, *_ in pairs.port.saved].count("state") == 1
    pairs.feed(1, 5.0, 0)
    pairs.feed(1, 7.0, 1)
    for pair in (0, 1):
        pairs.give(3, 2, pair)
        pairs.end(4, 2, pair)
    for _ in range(3):
        pairs.durable()
    assert pairs.results()[2:] == [(2, 0, 5.0 * TOTAL), (2, 1, 7.0 * TOTAL)]
    kind, epoch, meta, arrays = pairs.port.saved[-1]
    again = Pairs(2, Block(Kind.DATA, epoch, arrays=arrays, meta=meta))
    assert kind == "state" and again.task.epoch == 2
    assert [operator.factor for operator in again.task.operator.operators] == [5.0, 7.0]
    again.feed(2, 9.0, 0)
    again.feed(2, 8.0, 1)
    again.give(5, 3, 0)
    again.give(5, 3, 1)
    for _ in range(2):
        again.durable()
    assert [result for result in again.results() if result[0] == 3] == [(3, 0, 9.0 * TOTAL), (3, 1, 8.0 * TOTAL)]


@pytest.mark.parametrize("clocks", [0, 1])
def test_a_destination_whose_state_was_saved_by_another_clock_says_so(clocks: int) -> None:
    pairs = Pairs()
    pairs.give(1, 1)
    pairs.end(2, 1)
    pairs.durable()
    ((epoch, meta, arrays),) = [saved[1:] for saved in pairs.port.saved if saved[0] == "state"]
    meta["progress"]["clock"] += clocks
    again, journal = Pairs(), Notebook()
    again.task.journal = journal
    again.task.restore(Block(Kind.DATA, epoch, arrays=arrays, meta=meta), [])
    assert journal.clocks == clocks


def test_what_was_saved_and_is_not_in_the_state_is_processed_again_and_nothing_twice() -> None:
    pairs = Pairs()
    pairs.give(1, 1)
    pairs.end(2, 1)
    pairs.durable()
    pairs.feed(1, 10.0)
    pairs.give(3, 2)
    for _ in range(2):
        pairs.durable()
    saved = [(kind, Block(Kind.DATA, at, arrays=arrays, meta=meta)) for kind, at, meta, arrays in pairs.port.saved]
    states = [number for number, (kind, _) in enumerate(saved) if kind == "state"]
    state, records = saved[states[-1]][1], [block for _, block in saved[states[-1] + 1 :]]
    again = Pairs(1, state, records)
    again.work()
    assert again.results()[-1] == (2, 0, 10.0 * TOTAL)
    assert again.port.counts["replayed_items"] == 3, "a model, and two items"
    before = again.results()
    again.give(3, 2)
    again.durable()
    again.feed(1, 10.0)
    again.durable()
    assert again.results() == before and again.port.counts["duplicates_dropped"] == 3


class Reading:
    """A source's task whose processors have said how far they are."""

    def __init__(self) -> None:
        graph = staged(REACTIVE)
        reader = epoch_reader(50, 72, 6)
        self.task, self.port = hosted_task(graph, source(), Hosted(SourceStage(reader.turn), reader, 3))
        (self.out,) = self.task.layout.outputs
        for i in range(6):
            self.place(i)
        self.task.start()

    def place(self, index: int, heard: Heard | None = None) -> None:
        reply = Block(Kind.REPLY, Epoch(0), meta={"heard": (heard or Heard()).pack()})
        self.task.on_block(self.out.reply, processor(index), reply)

    def work(self) -> None:
        """Until nothing comes of it, with all that is saved safe."""
        for _ in range(30):
            while self.task.work():
                pass
            self.task.on_durable(len(self.port.saved))

    def dealt(self, index: int) -> list[tuple[int, int]]:
        """Number and window of each block that a processor was sent."""
        return [(b.key.row, b.epoch) for to, b in self.port.sent_on(self.out.edge) if to == processor(index)]


def test_what_was_not_acknowledged_is_sent_to_the_next_life() -> None:
    reading = Reading()
    reading.work()
    before = reading.dealt(1)
    assert len(before) > 3 and all(reading.dealt(i) for i in range(6))
    reading.port.kill(processor(1))
    reading.task.on_worker_failed(processor(1))
    reading.port.renew(processor(1))
    reading.port.sent.clear()
    reading.task.on_worker_restored(processor(1))
    reading.work()
    assert not reading.dealt(1), "it has not said how far it is"
    reading.place(1)
    reading.work()
    assert reading.dealt(1) == before and not reading.dealt(0)


def test_nothing_is_read_while_a_processor_is_away() -> None:
    reading = Reading()
    reading.port.kill(processor(3))
    reading.task.on_worker_failed(processor(3))
    reading.work()
    assert not reading.port.sent_on(reading.out.edge) and reading.task.items == 0
    reading.port.restart(processor(3))
    reading.task.on_worker_restored(processor(3))
    reading.place(3)
    reading.work()
    assert reading.dealt(3) and reading.task.items == 50


@pytest.mark.parametrize("attempt", [1, 2, 7])
def test_fences_grow_with_lives_and_with_attempts(attempt: int) -> None:
    order = [fence_of(attempt, life) for life in (1, 2, 900)] + [fence_of(attempt + 1, 1)]
    assert order == sorted(set(order))
    assert records_of("job", "a") != records_of("job", "b")


def test_without_servers_everything_counts_as_safe() -> None:
    store = NoStore()
    assert store.save("state", 1, {}, []) == store.durable == 1 and store.close(0.0)
