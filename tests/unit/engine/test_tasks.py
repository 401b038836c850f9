"""Tasks before a port that records: what sources emit, what processors hold, and in which order sinks aggregate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_port import (
    COMMIT,
    DATA,
    FEEDBACK,
    PUNCTUATION,
    RESULT,
    Stream,
    items,
    processor,
    sink,
    source,
)  # fmt: skip
from hypothesis import given
from hypothesis import strategies as st
from task_parts import ERASURE, data, emit, end, feed, place, processor_task, result, results, sink_task, source_task

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import JobFailed
from riprap.codec.ids import Epoch
from riprap.engine.flow.epoch_reader import EpochReader, cut
from riprap.engine.flow.port import Boundary
from riprap.engine.flow.three_stage.sink import SAVE_EVERY_S, SinkTask
from riprap.operators.adapters.stages import SourceRows
from riprap.operators.base import Source


@given(st.integers(1, 10_000), st.integers(1, 500), st.integers(1, 10_000), st.integers(1, 16))
def test_an_epoch_is_cut_into_equal_blocks(count: int, item_bytes: int, block_bytes: int, unit: int) -> None:
    size = cut(count, item_bytes, block_bytes, unit)
    blocks = -(-count // size)
    assert 1 <= size <= count
    assert size == 1 or size * item_bytes < block_bytes + item_bytes, "an item more than fits at the most"
    assert count >= unit or blocks == count, "too few items: one each"
    assert (blocks - 1) * size < count <= blocks * size


@pytest.mark.parametrize(
    ("count", "item_bytes", "block_bytes", "unit", "expected"),
    [(100, 8, 800, 1, 100), (100, 8, 799, 1, 50), (100, 8, 800, 4, 25), (10, 8, 1 << 20, 4, 3), (3, 8, 64, 4, 1),
     (1, 8, 1, 1, 1), (100_000, 96, 262_144, 4, 2500), (100, 8, 4, 4, 1)],
)  # fmt: skip
def test_block_sizes(count: int, item_bytes: int, block_bytes: int, unit: int, expected: int) -> None:
    assert cut(count, item_bytes, block_bytes, unit) == expected


def test_a_source_waits_for_its_start_and_for_commits() -> None:
    task, port = source_task({"scheme": "none"}, placed=False)
    assert not task.work(), "not before all workers are up"
    task.start()
    assert not task.work(), "not before the sink has said where the stream goes on"
    place(task)
    assert emit(task) == 20 and task.epoch == 2
    ends = [block for _, block in port.sent_on(PUNCTUATION)]
    assert [(end.epoch, end.meta["items"], end.meta["blocks"], end.meta["last"]) for end in ends] == [
        (1, 20, 10, False), (2, 20, 10, False),
    ]  # fmt: skip
    task.on_block(COMMIT, sink(), Block(Kind.ACK, Epoch(1)))
    assert emit(task) == 5 and task.epoch == 3 and task.reader.finished and task.items == 50
    assert port.sent_on(PUNCTUATION)[-1][1].meta["last"] is True
    task.on_block(COMMIT, sink(), Block(Kind.ACK, Epoch(3)))
    assert not task.work()


def test_a_source_without_an_end_closes_what_it_was_granted_and_ends_at_the_last_grant() -> None:
    task, port = source_task({"scheme": "none"}, item_count=200, window=9)
    stream = Stream(items(200))
    task.reader = EpochReader(stream, None, 20, 72, 6)
    task.start()
    assert not task.work(), "nothing is granted"
    task.grant(2, False)
    emit(task)
    ends = [block for _, block in port.sent_on(PUNCTUATION)]
    assert [(end.epoch, end.meta["last"]) for end in ends] == [(1, False)], "the second may be the last"
    task.grant(3, False)
    emit(task)
    task.grant(3, True)
    emit(task)
    ends = [block for _, block in port.sent_on(PUNCTUATION)]
    assert [(end.epoch, end.meta["last"]) for end in ends] == [(1, False), (2, False), (3, True)]
    assert task.items == 60 and not task.work()


def test_a_sink_speaks_of_no_epoch_that_was_not_granted() -> None:
    task, _ = source_task({"scheme": "none"}, placed=False)
    task.reader = EpochReader(Stream(items(200)), None, 20, 72, 6)
    task.grant(3, False)
    assert task.admits(Block(Kind.ACK, Epoch(3))) and not task.admits(Block(Kind.ACK, Epoch(4)))


def test_what_a_source_emits_is_its_stream() -> None:
    task, port = source_task({"scheme": "none"}, window=9)
    task.start()
    emit(task)
    sent = sorted(port.sent_on(DATA), key=lambda entry: (entry[1].epoch, entry[1].key))
    assert np.array_equal(np.concatenate([block.arrays[0] for _, block in sent]), items(50))
    assert {to for to, _ in sent} == {processor(i) for i in range(6)}


def parities_before_each_read(incremental: bool, rows: int) -> list[int]:
    """How many parity blocks have left when each block of one epoch is read."""
    task, port = source_task(ERASURE | {"incremental": incremental, "rows": rows}, block_bytes=1 << 20)
    rows, left = task.reader.source, []
    read = rows.read

    def noting(start: int, stop: int) -> Any:
        left.append(sum(block.kind == Kind.PARITY for _, block in port.sent_on(DATA)))
        return read(start, stop)

    task.start()
    rows.read = noting
    while task.reader.position != task.reader.end(1):
        task.work()
    return left


def test_parity_of_a_row_leaves_while_later_rows_are_read() -> None:
    assert parities_before_each_read(incremental=True, rows=3) == [0, 0, 0, 0, 2, 2, 2, 2, 4, 4]
    assert parities_before_each_read(incremental=True, rows=1) == [0, 0, 0, 0]


def test_without_incremental_encoding_nothing_leaves_before_all_is_read() -> None:
    assert set(parities_before_each_read(incremental=False, rows=3)) == {0}


def test_a_commit_that_came_before_is_no_step_back() -> None:
    task, _ = source_task({"scheme": "none"}, item_count=100, window=1)
    task.start()
    for epoch in (1, 2):
        emit(task)
        task.on_block(COMMIT, sink(), Block(Kind.ACK, Epoch(epoch)))
    task.on_block(COMMIT, sink(), Block(Kind.ACK, Epoch(1)))
    assert task.committed == 2


def test_an_epoch_does_not_start_while_too_few_processors_have_room() -> None:
    task, port = source_task(ERASURE)
    task.start()
    for i in range(3):
        port.kill(processor(i))
    assert not task.work()
    port.restart(processor(0))
    assert emit(task) > 0


def test_a_source_never_waits_for_a_dead_or_slow_processor() -> None:
    task, port = source_task(ERASURE)
    task.start()
    assert task.work()
    port.kill(processor(3))
    port.rooms[processor(4)] = 1
    emit(task)
    ends = [block.meta["participants"] for _, block in port.sent_on(PUNCTUATION)]
    assert ends[0]["processor.3"] == 1 and ends[0]["processor.4"] == 0, "it was let go in the middle of the epoch"
    assert "processor.3" not in ends[1]
    assert port.counts["skipped_blocks"] > 2


def test_lost_rows_are_sent_again_and_their_place_announced() -> None:
    task, port = source_task(ERASURE)
    task.start()
    emit(task)
    port.sent.clear()
    task.on_block(COMMIT, sink(), Block(Kind.RESEND, Epoch(2), meta={"pieces": [[0, 1], [0, 3], [0, 1]]}))
    data, moves = port.sent_on(DATA), port.sent_on(PUNCTUATION)
    assert [(block.epoch, block.key.row, block.key.s_index) for _, block in data] == [(2, 0, 1), (2, 0, 3)]
    assert [block.meta["moved"] for _, block in moves] == [[(0, 1, str(data[0][0]), 1), (0, 3, str(data[1][0]), 1)]]


def test_what_cannot_be_sent_again_now_is_owed_until_a_worker_is_back() -> None:
    task, port = source_task(ERASURE)
    task.start()
    emit(task)
    for i in range(6):
        port.kill(processor(i))
    port.sent.clear()
    for _ in range(3):
        task.on_block(COMMIT, sink(), Block(Kind.RESEND, Epoch(1), meta={"pieces": [[0, 0]]}))
    assert not port.sent and len(task.scheme._owed) == 1
    port.restart(processor(5))
    task.on_worker_restored(processor(5))
    assert [(to, block.key.s_index) for to, block in port.sent_on(DATA)] == [(processor(5), 0)]
    assert port.sent_on(PUNCTUATION)[0][1].meta["moved"] == [(0, 0, "processor.5", 2)]


def test_a_source_admits_only_what_its_sink_can_say() -> None:
    task, _ = source_task(ERASURE, item_count=100)
    task.start()
    emit(task)
    ask = lambda epoch, *pieces: Block(Kind.RESEND, Epoch(epoch), meta={"pieces": [list(p) for p in pieces]})  # noqa: E731
    assert task.admits(Block(Kind.ACK, Epoch(2))) and task.admits(ask(1, (0, 0), (1, 2)))
    odd = [Block(Kind.ACK, Epoch(3)), Block(Kind.ACK, Epoch(2**62)), ask(3, (0, 0)), ask(1, (0, 4)), ask(1, (1, 3))]
    odd += [ask(1, (2, 0)), ask(1, (0, 0), (2**63, 0)), ask(1, (0, 2**63))]
    for block in odd:
        assert not task.admits(block), block
    task.on_block(COMMIT, sink(), Block(Kind.ACK, Epoch(1)))
    assert task.admits(ask(1, (9, 9))), "a late word on a committed epoch is no error"


def test_an_epoch_that_is_still_being_emitted_cannot_be_committed() -> None:
    task, _ = source_task(ERASURE)
    task.start()
    task.work()
    assert not task.admits(Block(Kind.ACK, Epoch(1)))


@pytest.mark.parametrize("wrong", [np.ones((1, 4)), np.ones(3), np.ones((1, 3), "f4"), np.ones((2, 3, 1))])
def test_a_source_that_returns_other_items_than_it_says_fails_the_job(wrong: np.ndarray) -> None:
    class Handing(Source):
        def read(self, start: int, stop: int) -> np.ndarray:
            return wrong

    task, _ = source_task({"scheme": "none"})
    task.columns, task.reader.source = 3, SourceRows(Handing(), 3)
    task.start()
    with pytest.raises(JobFailed, match=r"^Handing.read\(0, 2\) .*expected a float64 matrix of 2 rows and 3 columns"):
        task.work()


class Streaming(Source):
    """Reads `more` rows more than it is asked for."""

    def __init__(self, more: int) -> None:
        self.more = more

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.zeros((stop - start + self.more, 3)) if self.more < 99 else None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("more", "found"), [(1, r"an array .* \(1251, 3\)"), (-1, r"an array .* \(1249, 3\)"), (99, "None")]
)
def test_a_source_that_reads_too_few_rows_or_too_many_is_named(more: int, found: str) -> None:
    assert len(SourceRows(Streaming(0), 3).read(0, 1250)[0]) == 1250
    with pytest.raises(JobFailed, match=rf"^Streaming.read\(0, 1250\) returned {found}.*1,250 rows and 3 columns"):
        SourceRows(Streaming(more), 3).read(0, 1250)


def test_a_block_is_processed_under_the_feedback_of_the_epoch_before() -> None:
    task, port = processor_task()
    for block in (data(1, 0), data(2, 0), data(2, 1), data(3, 0)):
        task.on_block(DATA, source(), block)
    assert results(port) == [(1, 0, 6.0)]
    feed(task, 1, 10.0)
    assert results(port) == [(1, 0, 6.0), (2, 0, 60.0), (2, 1, 60.0)]
    feed(task, 2, 100.0)
    assert results(port)[3:] == [(3, 0, 600.0)]
    assert task.items == 8 and task.epoch == 2


def test_blocks_of_committed_epochs_are_stale_and_old_feedback_is_ignored() -> None:
    task, port = processor_task()
    feed(task, 7, 2.0)
    task.on_block(DATA, source(), data(7))
    task.on_block(DATA, source(), data(1))
    assert results(port) == [] and port.counts == {"stale_blocks": 2}
    feed(task, 6, 9.0)
    task.on_block(DATA, source(), data(8))
    assert results(port) == [(8, 0, 12.0)]


def test_a_feedback_that_skips_epochs_drops_what_was_held_for_them() -> None:
    task, port = processor_task()
    for epoch in (2, 3, 4):
        task.on_block(DATA, source(), data(epoch))
    feed(task, 3, 2.0)
    assert results(port) == [(4, 0, 12.0)] and port.counts == {}


def test_input_is_acknowledged_once_its_epoch_is_committed() -> None:
    task, port = processor_task()
    task.on_block(DATA, source(), data(1))
    assert not port.acked
    feed(task, 1, 2.0)
    assert port.acked == [(DATA, source()), (FEEDBACK, sink())]
    assert not any(task._blocks), "what is committed is not kept"


def test_pairs_do_not_touch_each_other() -> None:
    task, port = processor_task(pairs=2)
    task.on_block(DATA, source(0), data(2, pair=0))
    task.on_block(DATA, source(1), data(2, pair=1))
    feed(task, 1, 5.0, pair=1)
    assert results(port, sink(0)) == [] and results(port, sink(1)) == [(2, 0, 30.0)]
    feed(task, 1, 7.0, pair=0)
    assert results(port, sink(0)) == [(2, 0, 42.0)]


def test_without_a_feedback_edge_nothing_is_held() -> None:
    task, port = processor_task(feedback=False)
    for epoch in (3, 1, 2):
        task.on_block(DATA, source(), data(epoch))
    assert [epoch for epoch, _, _ in results(port)] == [3, 1, 2]


def test_results_carry_their_items_and_parity_passes_through() -> None:
    task, port = processor_task()
    block, parity = data(1), Block(Kind.PARITY, Epoch(1), Key(0, 0, 0, 5), 0, (np.ones((2, 3)),))
    task.on_block(DATA, source(), block)
    task.on_block(DATA, source(), parity)
    (_, result), (_, passed) = port.sent_on(RESULT)
    assert result.attachment is block.arrays[0] and result.meta == {"of": 8} and result.items == 2
    assert passed.kind == Kind.PARITY and passed.arrays[0] is parity.arrays[0] and passed.attachment is None


def test_results_wait_for_a_sink_that_is_not_known_yet() -> None:
    task, port = processor_task()
    port.rooms[sink()] = 0
    task.on_block(DATA, source(), data(1))
    assert not port.sent_on(RESULT)
    port.rooms[sink()] = 1
    task.on_worker_restored(sink())
    assert results(port) == [(1, 0, 6.0)]


def test_a_new_life_of_the_sink_may_go_back_and_gets_every_result_again() -> None:
    """The sink goes on from its last durable epoch; it has nothing of what its former life was sent."""
    task, port = processor_task()
    for epoch in (1, 2, 3):
        task.on_block(DATA, source(), data(epoch))
    feed(task, 1, 10.0)
    assert results(port) == [(1, 0, 6.0), (2, 0, 60.0)]
    port.kill(sink())
    task.on_worker_failed(sink())
    port.sent.clear()
    task.on_block(DATA, source(), data(2, 1))
    assert results(port) == [], "the state is unknown until the new life says which"
    port.restart(sink())
    task.on_worker_restored(sink())
    feed(task, 1, 10.0)
    assert results(port) == [(2, 0, 60.0), (2, 1, 60.0)]
    port.restart(sink())
    task.on_worker_failed(sink())
    port.sent.clear()
    task.on_block(FEEDBACK, sink(), Block(Kind.FEEDBACK, Epoch(0)))
    assert task.operators[0].factor == 1.0, "a sink without anything durable starts from the beginning"
    task.on_block(DATA, source(), data(1))
    assert results(port) == [(1, 0, 6.0)]


def test_a_restored_source_goes_on_where_the_sink_says() -> None:
    task, port = source_task({"scheme": "none"}, placed=False)
    task.start()
    place(task, 1)
    assert emit(task) == 15 and task.reader.finished
    assert min(block.epoch for _, block in port.sent_on(DATA)) == 2
    first = next(block for _, block in port.sent_on(DATA) if block.key.row == block.key.s_index == 0)
    assert np.array_equal(first.arrays[0][0], items(50)[20])


def test_a_source_goes_back_for_a_new_life_of_its_sink() -> None:
    task, port = source_task({"scheme": "none"}, item_count=100, window=3)
    task.start()
    emit(task)
    place(task, 2)
    port.kill(sink())
    task.on_worker_failed(sink())
    port.sent.clear()
    assert not task.work(), "it waits for the sink's word"
    assert not task.admits(Block(Kind.ACK, Epoch(99))) and task.admits(Block(Kind.ACK, Epoch(1)))
    port.restart(sink())
    task.on_worker_restored(sink())
    place(task, 1)
    emit(task)
    assert sorted({block.epoch for _, block in port.sent_on(DATA)}) == [2, 3, 4]


@pytest.mark.parametrize("options", [{"scheme": "none"}, {"scheme": "replication", "copies": 2}])
def test_parity_is_for_the_erasure_scheme_only(options: dict[str, Any]) -> None:
    task, _ = processor_task(options=options)
    assert task.admits(data(1))
    assert not task.admits(Block(Kind.PARITY, Epoch(1), arrays=(np.ones((2, 3)),)))


def test_items_of_other_columns_or_types_are_not_admitted() -> None:
    task, _ = processor_task()
    task.columns = 3
    assert task.admits(data(1))
    for wrong in (np.ones((2, 4)), np.ones((2, 3), "f4"), np.ones((2, 3), "i8"), np.ones((2, 0))):
        assert not task.admits(Block(Kind.DATA, Epoch(1), items=2, arrays=(wrong,)))
        assert not task.admits(Block(Kind.PARITY, Epoch(1), arrays=(wrong,)))


def test_results_are_aggregated_in_the_order_of_keys_whoever_comes_first() -> None:
    task, port, committed = sink_task({"scheme": "none"})
    port.clock = 3.5
    for row, s_index in ((1, 1), (0, 2), (1, 0), (0, 0)):
        task.on_block(RESULT, processor(s_index), result(1, row, s_index))
    task.on_block(PUNCTUATION, source(), end(1, 5))
    assert task.operator.seen == [] and not committed
    task.on_block(RESULT, processor(1), result(1, 0, 1))
    assert task.operator.seen == [0, 1, 2, 10, 11]
    assert committed == [(Boundary(Epoch(1), 10, 0, False), 2.5)]
    assert [to for to, _ in port.sent_on(FEEDBACK)] == [processor(i) for i in range(3)]
    assert [(to, block.epoch) for to, block in port.sent_on(COMMIT)] == [(source(), 1)]
    assert task.operator.processor.factor == 2.0, "the sink's own processor follows"
    assert (RESULT, processor(0)) in port.acked and (PUNCTUATION, source()) in port.acked


def test_epochs_close_in_order_and_one_may_free_the_next() -> None:
    task, _, committed = sink_task({"scheme": "none"})
    task.on_block(PUNCTUATION, source(), end(2, 1, last=True))
    task.on_block(RESULT, processor(0), result(2, 0, 0, 7))
    task.on_block(PUNCTUATION, source(), end(1, 1))
    assert not committed
    task.on_block(RESULT, processor(0), result(1, 0, 0, 5))
    assert [boundary.epoch for boundary, _ in committed] == [1, 2]
    assert task.operator.seen == [5, 7] and task.finished and task.items == 4


def test_duplicates_are_dropped_and_counted() -> None:
    task, port, committed = sink_task({"scheme": "replication", "copies": 3})
    for i in range(3):
        task.on_block(RESULT, processor(i), result(1, 0, 0, 5))
    task.on_block(PUNCTUATION, source(), end(1, 1))
    task.on_block(RESULT, processor(1), result(1, 0, 0, 5))
    assert task.operator.seen == [5] and len(committed) == 1 and port.counts == {"duplicates_dropped": 3}


def test_what_a_dead_worker_held_is_lost_and_counted_with_scheme_none() -> None:
    task, port, committed = sink_task({"scheme": "none"})
    task.on_block(RESULT, processor(0), result(1, 0, 0))
    task.on_block(RESULT, processor(2), result(1, 0, 2))
    task.on_block(PUNCTUATION, source(), end(1, 3))
    assert not committed
    port.kill(processor(1))
    task.on_worker_failed(processor(1))
    assert committed[0][0] == Boundary(Epoch(1), 6, 2, False)
    assert task.lost == 2 and task.items == 4 and port.counts == {"lost_blocks": 1}


def test_a_late_result_of_a_lost_block_is_not_aggregated() -> None:
    task, port, committed = sink_task({"scheme": "none"})
    task.on_block(PUNCTUATION, source(), end(1, 3, p1=0))
    assert not committed, "processors 0 and 2 are alive"
    task.on_block(RESULT, processor(1), result(1, 0, 1, 99))
    task.on_block(RESULT, processor(0), result(1, 0, 0))
    assert 99 in task._results.get(1, {}).values() or not committed
    task.on_block(RESULT, processor(2), result(1, 0, 2))
    assert task.operator.seen == [0, 2] and committed[0][0].lost == 2
    assert port.counts["duplicates_dropped"] == 1


def test_a_restarted_processor_gets_the_newest_feedback_at_once() -> None:
    task, port, _ = sink_task({"scheme": "none"})
    task.on_worker_restored(processor(1))
    ((to, first),) = port.sent_on(FEEDBACK)
    assert (to, first.epoch, first.arrays) == (processor(1), 0, ()), "the state that every processor starts from"
    task.on_block(PUNCTUATION, source(), end(1, 1))
    task.on_block(RESULT, processor(0), result(1, 0, 0))
    port.sent.clear()
    task.on_worker_restored(processor(1))
    task.on_worker_restored(source())
    assert [(to, block.epoch, block.arrays[0][0]) for to, block in port.sent_on(FEEDBACK)] == [(processor(1), 1, 2.0)]
    assert [(to, block.kind, block.epoch) for to, block in port.sent_on(COMMIT)] == [(source(), Kind.ACK, 1)]


def test_a_commit_is_announced_once_it_is_durable() -> None:
    task, port, committed = sink_task({"scheme": "none"})
    for epoch in (1, 2, 3):
        port.clock += SAVE_EVERY_S
        task.on_block(RESULT, processor(0), result(epoch, 0, 0, epoch))
        task.on_block(PUNCTUATION, source(), end(epoch, 1, last=epoch == 3))
    assert [boundary.epoch for boundary, _ in committed] == [1, 2, 3] and task.journal.durable_ == []
    assert [(kind, epoch) for kind, epoch, _, _ in port.saved] == [("state", 1), ("state", 2), ("state", 3)]
    task.on_durable(2)
    assert task.journal.durable_ == [2] and not task.safe
    task.on_durable(3)
    assert task.journal.durable_ == [2, 3] and task.safe


def test_a_state_that_cannot_be_saved_now_is_saved_later_once() -> None:
    task, port, _ = sink_task({"scheme": "none"})
    port.full = True
    for epoch in (1, 2):
        task.on_block(RESULT, processor(0), result(epoch, 0, 0, epoch))
        task.on_block(PUNCTUATION, source(), end(epoch, 1))
    task.work()
    port.full = False
    task.work()
    task.work()
    assert [(kind, epoch) for kind, epoch, _, _ in port.saved] == [("state", 2)]


def test_a_restored_sink_goes_on_as_if_nothing_had_happened() -> None:
    def run(task: SinkTask, epochs: range) -> None:
        for epoch in epochs:
            port.clock += SAVE_EVERY_S
            task.on_block(RESULT, processor(0), result(epoch, 0, 0, epoch))
            task.on_block(PUNCTUATION, source(), end(epoch, 1, last=epoch == 4))

    first, port, _ = sink_task({"scheme": "none"})
    run(first, range(1, 4))
    kind, epoch, meta, arrays = port.saved[1]
    second, fresh, committed = sink_task({"scheme": "none"})
    second.restore(Block(Kind.FEEDBACK, epoch, arrays=arrays, meta=meta))
    assert kind == "state" and second.epoch == 2 and second.items == 4 and second.journal.resumed == {"epochs": 2}
    assert second.operator.seen == [1, 2] and second.operator.processor.factor == 3.0
    second.on_worker_restored(source())
    second.on_worker_restored(processor(2))
    assert [block.epoch for _, block in fresh.sent_on(COMMIT)] == [2]
    assert [(block.epoch, block.arrays[0][0]) for _, block in fresh.sent_on(FEEDBACK)] == [(2, 3.0)]
    second.on_block(RESULT, processor(0), result(2, 0, 0, 9))
    run(second, range(3, 5))
    assert [boundary.epoch for boundary, _ in committed] == [3, 4] and second.operator.seen == [1, 2, 3, 4]


def test_a_new_life_of_the_source_deals_the_open_epoch_anew() -> None:
    """What is done stays done; who took part is forgotten until the new life's punctuation says."""
    task, port, committed = sink_task({"scheme": "replication", "copies": 3})
    task.on_block(PUNCTUATION, source(), end(1, 2))
    task.on_block(RESULT, processor(0), result(1, 0, 0, 5))
    port.kill(source())
    task.on_worker_failed(source())
    task.on_block(RESULT, processor(0), result(1, 1, 0, 6))
    assert not committed, "its punctuation died with it"
    port.restart(source())
    task.on_worker_restored(source())
    task.on_block(PUNCTUATION, source(), end(1, 2))
    assert [boundary.epoch for boundary, _ in committed] == [1] and task.operator.seen == [5, 6]


def test_a_sink_admits_only_epochs_and_blocks_that_may_be() -> None:
    task, _, _ = sink_task({"scheme": "none"})
    task.on_block(PUNCTUATION, source(), end(1, 5))
    assert task.admits(result(1, 1, 1)) and task.admits(result(1024, 0, 0)) and task.admits(end(1, 5))
    odd = [result(1, 1, 2), result(1, 0, 3), result(1, 2**62, 0), result(1025, 0, 0), result(2, 2**62, 0), end(1, 4)]
    odd += [end(2, 0), end(2, 2**62), end(2**62, 1), Block(Kind.PARITY, Epoch(1), Key(0, 0, 0, 0), arrays=(items(2),))]
    odd += [Block(Kind.PUNCTUATION, Epoch(1), meta={"moved": [[9, 0, "processor.0", 1]]})]
    for block in odd:
        assert not task.admits(block), block
    assert not task.scheme.ledgers.keys() - {1}, "asking changes nothing"
