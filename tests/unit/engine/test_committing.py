"""The scheme of sources and sinks around a coded stage: when states are saved, announced, and gone back to."""

from __future__ import annotations

import pytest
from fake_port import processor, source
from task_parts import FIRST, NONE, Doubling, SinkBench, emit, source_task

from riprap.codec.blocks import Block, Kind
from riprap.engine.schemes.committing import SAVE_EVERY_S, SAVES_MAX
from riprap.operators.base import Sink


def bench_of(**fields: object) -> SinkBench:
    """A sink whose source has begun, at the second 1."""
    bench = SinkBench(**fields)  # type: ignore[arg-type]
    bench.port.clock = 1.0
    bench.begin()
    return bench


def saved(bench: SinkBench) -> list[int]:
    """The window of each state that was saved."""
    return [meta["progress"]["epoch"] for _, _, meta, _ in bench.port.saved]


def run(bench: SinkBench, *windows: int, last: int = 0, apart_s: float = SAVE_EVERY_S) -> None:
    """Windows of one row each, so far apart."""
    for window in windows:
        bench.port.clock += apart_s
        bench.window(window, window, float(window), last=window == last)


def restored(bench: SinkBench, record: int, row: int = 0) -> SinkBench:
    """The next life, from a record of this one; the encoder's next life is behind a row."""
    kinds = [kind for kind, *_ in bench.port.saved[:record]]
    whole = record - 1 - kinds[::-1].index("state")
    found = [Block(Kind.DATA, epoch, arrays=arrays, meta=meta) for _, epoch, meta, arrays in bench.port.saved[:record]]
    again = SinkBench(fresh=False)
    again.task.restore(found[whole], found[whole + 1 :])
    again.at, again.number = (2 * row, 2 * row), 2 * row
    return again


def test_of_commits_that_follow_each_other_closely_the_newest_is_saved() -> None:
    bench = bench_of()
    run(bench, 1, 2, 3, apart_s=0.0)
    assert saved(bench) == [1]
    bench.port.clock += SAVE_EVERY_S / 2
    bench.work()
    assert saved(bench) == [1], "at most one in 20 ms"
    bench.port.clock += SAVE_EVERY_S / 2
    bench.work()
    bench.work()
    assert saved(bench) == [1, 3], "the newest, once"
    run(bench, 4, last=4, apart_s=0.0)
    assert saved(bench) == [1, 3, 4], "the last one does not wait"
    assert all(kind == "state" for kind, *_ in bench.port.saved), "whole, so that the server forgets what came before"


def test_only_so_many_saves_are_under_way_and_a_later_one_makes_up() -> None:
    bench = bench_of()
    run(bench, *range(1, SAVES_MAX + 4))
    assert saved(bench) == list(range(1, SAVES_MAX + 1))
    bench.task.on_durable(2)
    bench.work()
    bench.work()
    assert saved(bench)[SAVES_MAX:] == [SAVES_MAX + 3], "one for those that were left out"
    bench.task.on_durable(SAVES_MAX)
    assert bench.journal.durable_ == list(range(1, SAVES_MAX + 1))
    bench.task.on_durable(SAVES_MAX + 1)
    assert bench.journal.durable_[-2:] == [SAVES_MAX, SAVES_MAX + 3]


def test_a_commit_is_announced_once_it_is_durable() -> None:
    bench = bench_of()
    run(bench, 1, 2, 3, last=3)
    assert [boundary.epoch for boundary in bench.committed] == [1, 2, 3] and bench.journal.durable_ == []
    assert saved(bench) == [1, 2, 3]
    bench.task.on_durable(2)
    assert bench.journal.durable_ == [1, 2] and not bench.task.done and bench.task.scheme.announced == 2
    bench.task.on_durable(3)
    assert bench.journal.durable_ == [1, 2, 3] and bench.task.done


def test_a_window_that_was_left_out_is_announced_with_the_save_that_makes_up() -> None:
    bench = bench_of()
    run(bench, 1, 2, 3, apart_s=0.0)
    bench.task.on_durable(1)
    assert bench.journal.durable_ == [1]
    bench.port.clock += SAVE_EVERY_S
    bench.work()
    bench.task.on_durable(2)
    assert bench.journal.durable_ == [1, 3]


def test_a_state_that_cannot_be_saved_now_is_saved_later_once() -> None:
    bench = bench_of()
    bench.port.full = True
    run(bench, 1, 2)
    assert not bench.port.saved and len(bench.task.scheme._recorder._waiting) == 1, "one state waits, not one a window"
    bench.port.full = False
    bench.work()
    bench.port.clock += SAVE_EVERY_S
    bench.work()
    bench.work()
    assert saved(bench) == [1, 2]
    bench.task.on_durable(2)
    assert bench.journal.durable_ == [1, 2]


def test_a_window_is_acknowledged_as_it_closes_durable_or_not() -> None:
    """The source reads its input again for a new life: it need not keep what is on its way to disk."""
    bench = bench_of()
    bench.result(1, 0, 1.0)
    bench.word(1, 1, 1)
    bench.lull()
    assert bench.decoder._safe == 0
    bench.word(2, 1, 0, ends=True)
    assert bench.decoder._safe == 2 and bench.journal.durable_ == []


class Volatile(Sink):
    """It has no snapshot."""

    def __init__(self) -> None:
        self.processor, self.seen = Doubling(), []

    def aggregate(self, result: object) -> None:
        self.seen.append(float(result[0][0]))  # type: ignore[index]

    def commit(self, epoch: int) -> list[object]:
        return []


def test_a_sink_that_cannot_be_restored_saves_nothing_and_announces_at_once() -> None:
    bench = bench_of(operator=Volatile(), feedback=False)
    run(bench, 1, 2, last=2)
    assert not bench.port.saved and bench.journal.durable_ == [1, 2] and bench.task.done
    assert not bench.task.saves


def test_a_source_saves_nothing() -> None:
    task, port = source_task(NONE)
    task.start()
    emit(task, port)
    assert not port.saved and not task.saves


def test_a_restored_sink_goes_on_as_if_nothing_had_happened() -> None:
    first = bench_of()
    run(first, 1, 2, 3)
    second = restored(first, record=2, row=2)
    assert second.task.epoch == 2 and second.journal.resumed == {"epochs": 2}
    assert second.operator.seen == [1, 2] and second.operator.processor.factor == 3.0
    assert second.journal.durable_ == [2], "what is durable is announced, perhaps again"
    assert second.models() == [(0, 0.0), (2, 3.0)], "the coded stage hears how far it is"
    second.restart(source())
    ((to, heard),) = second.port.sent_on(second.task.segment.reply)
    assert to == source() and heard.meta["heard"][:4] == [4, 4, True, 2], "and the source where to go on"
    second.restart(processor(2))
    assert second.models(processor(2))[-1] == (2, 3.0)
    second.port.clock = 5.0
    second.begin(life=1, row=7)
    for row, window in ((8, 3), (9, 4)):
        second.port.clock += SAVE_EVERY_S
        second.window(row, window, float(window), last=window == 4)
    assert [boundary.epoch for boundary in second.committed] == [3, 4] and second.operator.seen == [1, 2, 3, 4]
    assert [(one.items, one.lost) for one in second.committed] == [(2, 0), (2, 0)]
    versions = [meta["version"] for *_, meta, _ in second.port.saved]
    assert versions == [3, 4], "versions go on from the record"


def test_a_sink_may_be_restored_from_an_older_window_than_it_had_closed() -> None:
    first = bench_of()
    run(first, 1, 2, 3)
    second = restored(first, record=1, row=1)
    assert second.task.epoch == 1 and second.operator.seen == [1] and second.models()[-1] == (1, 2.0)
    second.begin(row=3)
    for row, window in ((4, 2), (5, 3)):
        second.port.clock += SAVE_EVERY_S
        second.window(row, window, float(window))
    assert second.operator.seen == [1, 2, 3] and saved(second) == [2, 3]
    assert second.models()[-1] == (3, first.models()[-1][1]), "the same model comes of it"


def test_what_had_come_of_a_window_that_was_open_comes_again() -> None:
    """Results of an open window may be in the saved state; the source sends their row once more all the same."""
    first = bench_of()
    run(first, 1)
    first.result(2, 0, 5.0)
    first.word(2, 2, 1)
    second = restored(first, record=1, row=1)
    second.restart(source())
    ((_, heard),) = second.port.sent_on(second.task.segment.reply)
    assert heard.meta["heard"][:2] == [2, 2]
    second.begin(row=2)
    second.result(3, 0, 5.0)
    second.word(3, 2, 1)
    second.word(4, 2, 0, ends=True)
    assert second.operator.seen == [1, 5] and second.task.lost == 0


def test_a_sink_without_a_record_begins_anew() -> None:
    bench = SinkBench(fresh=False)
    bench.task.restore(None, ())
    bench.restart(source())
    ((_, heard),) = bench.port.sent_on(bench.task.segment.reply)
    assert heard.meta["heard"][:4] == [0, 0, False, 0] and bench.models() == [(0, 0.0), (0, 0.0)]
    bench.begin(row=4)
    bench.window(5, 1, 5.0)
    assert bench.operator.seen == [5] and bench.task.epoch == 1
    assert bench.task.lost == 0


@pytest.mark.parametrize("windows", [0, 2])
def test_items_that_stay_lost_are_remembered_by_the_next_life(windows: int) -> None:
    first = bench_of()
    for row in range(1, windows + 1):
        first.word(row, row, 1, ends=True, lives={"processor.0": 0})
    run(first, windows + 1)
    second = restored(first, record=len(first.port.saved))
    assert second.task.lost == first.task.lost == 2 * windows


def test_rows_are_behind_the_first_of_their_encoders_life() -> None:
    bench = bench_of()
    run(bench, 1)
    told = [block.epoch for _, block in bench.port.sent_on(bench.layout.commit)]
    assert told[-1] == FIRST + 1
