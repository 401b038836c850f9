"""The source of a job that trains: what it sends to its coded stage, for what it waits, and where it goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_port import items, processor, sink
from task_parts import (
    COPIES,
    ERASURE,
    FIRST,
    NONE,
    emit,
    ends,
    pieces,
    place,
    say,
    source_task,
    told,
    words,
)

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import JobFailed
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.progress import At, Heard
from riprap.operators.adapters.stages import SourceRows
from riprap.operators.base import Source


def test_a_source_waits_for_its_start_and_for_windows_that_are_whole() -> None:
    task, port = source_task(NONE, placed=False)
    emit(task)
    assert not port.sent, "not before the sink has said where the stream goes on"
    place(task)
    emit(task)
    assert not port.sent, "not before all workers are up"
    task.start()
    emit(task)
    assert len(pieces(port, task)) == 20 and ends(port, task) == [(1, 20, False), (2, 20, False)]
    assert [word.meta["blocks"] for word in words(port, task)] == [6, 4, 6, 4]
    say(task, 1, 1)
    emit(task)
    assert len(pieces(port, task)) == 20, "the last row of the first window is not whole"
    say(task, 2, 2)
    emit(task)
    assert len(pieces(port, task)) == 25 and task.reader.finished and task.epoch == 3
    assert ends(port, task)[-1] == (3, 10, True)
    say(task, 5, 8)
    assert not task.work() and task.items == 50


def test_a_source_without_an_end_closes_what_it_was_granted_and_ends_at_the_last_grant() -> None:
    task, port = source_task(NONE, item_count=200, window=9, windows=None)
    task.start()
    emit(task, port)
    assert not pieces(port, task), "nothing is granted"
    task.grant(2, False)
    emit(task, port)
    assert ends(port, task) == [(1, 20, False)], "the second may be the last"
    assert len(pieces(port, task)) == 20, "but its items go on their way"
    task.grant(3, False)
    emit(task, port)
    task.grant(3, True)
    emit(task, port)
    assert ends(port, task) == [(1, 20, False), (2, 20, False), (3, 20, True)]
    assert task.items == 60 and not task.work()


def test_a_sink_speaks_of_no_row_that_was_not_told_of() -> None:
    task, port = source_task(NONE, item_count=200, window=9, windows=None)
    task.start()
    task.grant(2, False)
    emit(task)
    assert not task.admits(told(task, 4, 0)), "the word of the fourth row waits for the end of its window"
    assert task.admits(told(task, 3, 0))
    emit(task, port)
    assert task.admits(told(task, 4, 0)) and not task.admits(told(task, 5, 0))


@pytest.mark.parametrize("options", [NONE, ERASURE, COPIES], ids=lambda one: one["scheme"])
def test_what_a_source_emits_is_its_stream(options: dict[str, Any]) -> None:
    task, port = source_task(options, window=9)
    task.start()
    emit(task)
    sent = [(to, block) for to, block in port.sent_on(task.segment.layout.data) if block.kind == Kind.DATA]
    found = {(block.epoch, block.key.row, block.key.s_index): block.arrays[0] for _, block in sent}
    assert np.array_equal(np.concatenate([found[at] for at in sorted(found)]), items(50))
    assert {to for to, _ in sent} == {processor(i) for i in range(6)}
    assert len(sent) == len(found) * options.get("copies", 1)


def parities_before_each_read(incremental: bool, rows: int) -> list[int]:
    """Parity pieces that have left when each piece of one epoch is read."""
    task, port = source_task(ERASURE | {"incremental": incremental, "rows": rows}, block_bytes=1 << 20)
    stream, left = task.reader.source, []
    read, task.entries_max = stream.read, 1

    def noting(start: int, stop: int) -> Any:
        left.append(len(pieces(port, task, Kind.PARITY)))
        return read(start, stop)

    task.start()
    stream.read = noting
    while task.reader.position != task.reader.end(1):
        task.work()
    return left[: -(-20 // (task.reader.block_items // 4))]


def test_parity_of_a_row_leaves_before_later_rows_are_read() -> None:
    assert parities_before_each_read(incremental=True, rows=3) == [0, 0, 0, 0, 2, 2, 2, 2, 4, 4]
    assert parities_before_each_read(incremental=True, rows=1) == [0, 0, 0, 0]


def test_without_incremental_encoding_nothing_of_a_row_leaves_before_its_word() -> None:
    task, port = source_task(ERASURE | {"incremental": False, "rows": 3}, block_bytes=1 << 20)
    task.start()
    emit(task)
    layout = task.segment.layout
    order = [(edge, block.epoch - FIRST) for edge, _, block in port.sent if "begin" not in block.meta]
    first = order[: order.index((layout.punctuation, 1)) + 1]
    assert first == [(layout.data, 1)] * 6 + [(layout.punctuation, 1)], "data and parity, then the word"
    assert parities_before_each_read(incremental=False, rows=3) == [0] * 8 + [2] * 2


def test_a_row_does_not_start_while_too_few_processors_have_room() -> None:
    task, port = source_task(ERASURE)
    task.start()
    for i in range(3):
        port.kill(processor(i))
        task.on_worker_failed(processor(i))
    emit(task)
    assert not pieces(port, task)
    port.restart(processor(0))
    task.on_worker_restored(processor(0))
    emit(task)
    assert pieces(port, task)


def test_a_source_never_waits_for_a_dead_or_slow_processor() -> None:
    task, port = source_task(ERASURE, block_bytes=24)
    task.entries_max = 1
    task.start()
    while not pieces(port, task):
        task.work()
    port.kill(processor(3))
    send: Any = port.send

    def fill_up(edge: Edge, to: WorkerId, block: Block, urgent: bool = False) -> bool:
        """A link that has room again when a row begins."""
        left = send(edge, to, block)
        port.rooms[processor(4)] = int(edge == task.segment.layout.punctuation)
        return left

    port.send = fill_up  # type: ignore[method-assign]
    emit(task)
    lives = [word.meta["participants"] for word in words(port, task)]
    assert lives[0]["processor.3"] == 1, "it got its piece"
    assert all("processor.3" not in life for life in lives[1:])
    assert 0 in [life["processor.4"] for life in lives], "it was let go in the middle of a row"
    assert port.counts["skipped_blocks"] > 2 and ends(port, task) == [(1, 20, False), (2, 20, False)]


def ask(row: int, *places: tuple[int, int]) -> Block:
    return Block(Kind.RESEND, Epoch(FIRST + row), meta={"pieces": [list(place) for place in places]})


def test_lost_pieces_are_sent_again_and_their_place_announced() -> None:
    task, port = source_task(ERASURE)
    task.start()
    emit(task)
    port.sent.clear()
    layout = task.segment.layout
    task.on_block(layout.commit, sink(), ask(2, (0, 0), (0, 2), (0, 0)))
    data, moves = port.sent_on(layout.data), port.sent_on(layout.punctuation)
    assert [(block.epoch - FIRST, block.key.row, block.key.s_index) for _, block in data] == [(2, 0, 0), (2, 0, 2)]
    assert [block.meta["moved"] for _, block in moves] == [[(0, 0, str(data[0][0]), 1), (0, 2, str(data[1][0]), 1)]]


def test_what_cannot_be_sent_again_now_is_owed_until_a_worker_is_back() -> None:
    task, port = source_task(ERASURE)
    task.start()
    emit(task)
    for i in range(6):
        port.kill(processor(i))
        task.on_worker_failed(processor(i))
    port.sent.clear()
    layout, (end,) = task.segment.layout, task.ends
    for _ in range(3):
        task.on_block(layout.commit, sink(), ask(1, (0, 0)))
    assert not port.sent and len(end.half._owed) == 1
    port.restart(processor(5))
    task.on_worker_restored(processor(5))
    assert [(to, block.key.s_index) for to, block in port.sent_on(layout.data)] == [(processor(5), 0)]
    assert port.sent_on(layout.punctuation)[0][1].meta["moved"] == [(0, 0, "processor.5", 2)]


def test_a_source_admits_only_what_its_sink_can_say() -> None:
    task, _ = source_task(ERASURE, item_count=100)
    task.start()
    emit(task)
    assert task.admits(told(task, 2, 0)) and task.admits(ask(1, (0, 0), (0, 3)))
    odd = [told(task, 99, 0), Block(Kind.ACK, Epoch(2**62), meta={"safe": 0}), ask(99, (0, 0)), ask(1, (0, 4))]
    odd += [ask(1, (1, 0)), ask(1, (0, 0), (2**63, 0)), ask(1, (0, 2**63)), told(task, 1, 99), told(task, 1, -1)]
    odd += [Block(Kind.ACK, Epoch(FIRST + 1), meta={"safe": safe}) for safe in (None, "1", 1.0, True)]
    for block in odd:
        assert not task.admits(block), block
    say(task, 1, 1)
    assert task.admits(ask(1, (9, 9))), "a late word on a row that is whole is no error"
    assert task.admits(Block(Kind.REPLY, Epoch(0), meta={"heard": Heard().pack()}))
    assert not task.admits(Block(Kind.REPLY, Epoch(0), meta={"heard": Heard().pack(), "more": 1}))


@pytest.mark.parametrize("wrong", [np.ones((1, 4)), np.ones(3), np.ones((1, 3), "f4"), np.ones((2, 3, 1))])
def test_a_source_that_returns_other_items_than_it_says_fails_the_job(wrong: np.ndarray) -> None:
    class Handing(Source):
        items = 50

        def read(self, start: int, stop: int) -> np.ndarray:
            return wrong

    task, _ = source_task(NONE)
    task.reader.source = SourceRows(Handing(), 3)
    task.start()
    with pytest.raises(JobFailed, match=r"^Handing.read\(0, 2\) .*expected a float64 matrix of 2 rows and 3 columns"):
        emit(task)


class Streaming(Source):
    """Reads `more` rows more than it is asked for."""

    items = 2000

    def __init__(self, more: int) -> None:
        self.more = more

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.zeros((stop - start + self.more, 3)) if self.more < 99 else None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("more", "found"), [(1, r"an array .* \(1251, 3\)"), (-1, r"an array .* \(1249, 3\)"), (99, "None")]
)
def test_a_source_that_reads_too_few_rows_or_too_many_is_named(more: int, found: str) -> None:
    rows, numbered = SourceRows(Streaming(0), 3).read(0, 1250)
    assert len(rows) == 1250 and numbered.tolist() == [0, 1250]
    with pytest.raises(JobFailed, match=rf"^Streaming.read\(0, 1250\) returned {found}.*1,250 rows and 3 columns"):
        SourceRows(Streaming(more), 3).read(0, 1250)


def heard(window: int) -> Heard:
    """What a sink says that has windows of 20 items in two rows up to this one."""
    cause = {(2**31, 0): (20 * window + window - 1, 0), (2**31 + 1, 0): (window, 0)}
    return Heard(At(3 * window, 20 * window), cause if window else {}, True, window)


def test_a_restored_source_goes_on_where_the_sink_says() -> None:
    task, port = source_task(NONE, placed=False)
    task.start()
    place(task, heard(1))
    emit(task)
    assert task.reader.finished and min(first for _, _, first in pieces(port, task)) == 60
    assert ends(port, task) == [(2, 20, False), (3, 10, True)]
    assert words(port, task)[0].meta["heads"][0][1:3] == [4, 20], "numbers go on as if nothing had happened"


def test_a_source_goes_back_for_a_new_life_of_its_sink() -> None:
    """In its input, not in what it keeps: what is safe at the sink is not kept, and may be lost with it."""
    task, port = source_task(NONE, item_count=100, window=3)
    task.start()
    emit(task)
    say(task, 4, 6)
    port.kill(sink())
    task.on_worker_failed(sink())
    port.sent.clear()
    emit(task)
    assert not port.sent, "it waits for the sink's word"
    (end,) = task.ends
    assert not end.unacknowledged and not task.inbox and task.epoch == 0 and not task.outlet.placed
    port.renew(sink())
    task.on_worker_restored(sink())
    place(task, heard(1))
    emit(task)
    assert [first // 60 for _, _, first in pieces(port, task)[::10]] == [1, 2, 3], "windows 2 to 4"
    begin = port.sent_on(task.segment.layout.punctuation)[0][1]
    assert begin.meta["begin"] and begin.epoch == FIRST + 6, "rows go on where they were"
    assert [row for row, _, _ in pieces(port, task)][::10] == [7, 9, 11]
    assert words(port, task)[0].meta["heads"][0][1:3] == [4, 20]


def test_a_source_whose_sink_has_everything_sends_nothing_twice() -> None:
    task, port = source_task(NONE, placed=False)
    task.start()
    place(task, Heard(At(8, 50), {(2**31, 0): (52, 0), (2**31 + 1, 0): (3, 0)}, True, 3))
    emit(task, port)
    assert not pieces(port, task) and task.epoch == 3 and not task.work()
