"""The reactive scheme: acknowledged is persisted, and what is not acknowledged goes to the next life (LEC V-A)."""

from __future__ import annotations

from typing import Any

import numpy as np
from fake_port import DATA, FEEDBACK, RESULT, FakePort, items, layout_of, processor, sink, source

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch, Seq, fence_of, records_of
from riprap.engine.flow.three_stage.processor import ProcessorTask
from riprap.engine.schemes import make_scheme
from riprap.engine.worker.persistence import NoStore
from riprap.operators.base import Processor

REACTIVE = {"scheme": "reactive"}


class Weighing(Processor):
    """Sums items, times the newest feedback."""

    weight = 1.0

    def process_data(self, items: np.ndarray) -> list[np.ndarray]:
        return [np.array([items.sum() * self.weight])]

    def process_feedback(self, feedback: Any) -> None:
        self.weight = float(feedback[0][0])


def data(epoch: int, s_index: int = 0, pair: int = 0, seq: int = 0) -> Block:
    key = Key(pair, pair, 0, s_index)
    return Block(Kind.DATA, Epoch(epoch), key, 2, (items(2),), meta={"of": 6}, seq=Seq(seq))


def made(pairs: int = 1) -> tuple[ProcessorTask, FakePort]:
    layout = layout_of(processor(1), pairs=pairs)
    port = FakePort(layout)
    return ProcessorTask(layout, make_scheme(layout, REACTIVE), port, Weighing), port


def feed(task: ProcessorTask, epoch: int, weight: float, pair: int = 0) -> None:
    task.on_block(FEEDBACK, sink(pair), Block(Kind.FEEDBACK, Epoch(epoch), arrays=(np.array([weight]),)))


def results(port: FakePort) -> list[tuple[int, int, float]]:
    return [(block.epoch, block.key.sink, float(block.arrays[0][0])) for _, block in port.sent_on(RESULT)]


def test_a_block_is_acknowledged_once_it_is_durable_and_in_order() -> None:
    task, port = made()
    feed(task, 0, 1.0)
    port.acked.clear(), port.saved.clear()
    for seq in (1, 2, 3):
        task.on_block(DATA, source(), data(1, seq, seq=seq))
    assert len(results(port)) == 3 and not port.acked, "processing does not wait, the acknowledgement does"
    assert [(kind, epoch, meta["key"]) for kind, epoch, meta, _ in port.saved] == [
        ("item", 1, [0, 0, 0, 1]), ("item", 1, [0, 0, 0, 2]), ("item", 1, [0, 0, 0, 3]),
    ]  # fmt: skip
    task.on_durable(2)
    assert port.acked == [(DATA, source(), 1), (DATA, source(), 2)]
    task.on_durable(3)
    assert port.acked[2:] == [(DATA, source(), 3)]


def test_what_cannot_be_saved_now_is_saved_later() -> None:
    task, port = made()
    port.full = True
    task.on_block(DATA, source(), data(1, seq=1))
    task.on_block(DATA, source(), data(1, 1, seq=2))
    assert not port.saved
    port.full = False
    task.on_durable(0)
    assert [meta["key"][3] for _, _, meta, _ in port.saved] == [0, 1]


def test_a_former_lifes_acknowledgement_is_not_given_to_a_new_source() -> None:
    task, port = made()
    task.on_block(DATA, source(), data(1, seq=1))
    port.restart(source())
    task.on_durable(1)
    assert not port.acked


def test_states_of_all_pairs_are_saved_and_restored() -> None:
    task, port = made(pairs=2)
    feed(task, 3, 5.0, pair=0)
    feed(task, 1, 7.0, pair=1)
    kind, epoch, meta, arrays = port.saved[-1]
    assert (kind, epoch) == ("state", 1), "items behind the slower pair are still needed"
    again, fresh = made(pairs=2)
    state = Block(Kind.FEEDBACK, epoch, arrays=arrays, meta=meta)
    again.restore(state, [data(2, pair=0), data(4, pair=0), data(2, pair=1), data(3, pair=1)])
    assert again.known == [3, 1] and [operator.weight for operator in again.operators] == [5.0, 7.0]
    total = items(2).sum()
    assert results(fresh) == [(4, 0, total * 5.0), (2, 1, total * 7.0)], "reprocessed: what follows each pair's state"
    assert fresh.counts["restored_items"] == 8 and "stale_blocks" not in fresh.counts
    feed(again, 3, 5.0, pair=0)
    assert fresh.counts["stale_blocks"] == 1, "the sink is as far as the state"


def test_after_a_restore_the_sinks_own_word_counts() -> None:
    """The sink may have gone back to an older durable epoch than the one restored here."""
    task, port = made()
    feed(task, 5, 2.0)
    _, epoch, meta, arrays = port.saved[-1]
    again, fresh = made()
    again.restore(Block(Kind.FEEDBACK, epoch, arrays=arrays, meta=meta), [])
    feed(again, 4, 3.0)
    again.on_block(DATA, source(), data(5))
    assert results(fresh) == [(5, 0, items(2).sum() * 3.0)]


def test_what_was_not_acknowledged_is_sent_to_the_next_life() -> None:
    layout = layout_of(source())
    port, scheme = FakePort(layout), make_scheme(layout, REACTIVE)
    scheme.on_resume(port, Epoch(0))
    assert scheme.on_open(port, Epoch(1), 12)
    for number in range(12):
        if number == 8:
            port.kill(processor(1))
            scheme.on_worker_failed(port, processor(1))
        scheme.on_emit(port, Block(Kind.DATA, Epoch(1), items=1, arrays=(items(1, number),)))
    before = [block for to, block in port.sent_on(DATA) if to == processor(1)]
    assert [block.key.s_index for block in before] == [1, 1] and [block.key.row for block in before] == [0, 1]
    port.sent.clear()
    port.restart(processor(1))
    scheme.on_worker_restored(port, processor(1))
    assert [(to, block.key.row) for to, block in port.sent_on(DATA)] == [(processor(1), 0), (processor(1), 1)]


def test_no_epoch_starts_while_a_processor_is_away() -> None:
    layout = layout_of(source())
    port, scheme = FakePort(layout), make_scheme(layout, REACTIVE)
    port.kill(processor(3))
    assert not scheme.on_open(port, Epoch(1), 6)
    port.restart(processor(3))
    assert scheme.on_open(port, Epoch(1), 6)


def test_fences_grow_with_lives_and_with_attempts() -> None:
    order = [fence_of(attempt, life) for attempt in (1, 2, 7) for life in (1, 2, 900)]
    assert order == sorted(set(order))
    assert records_of("job", "a") != records_of("job", "b")


def test_without_servers_everything_counts_as_safe() -> None:
    store = NoStore()
    assert store.save("state", 1, {}, []) == store.durable == 1 and store.close(0.0)
