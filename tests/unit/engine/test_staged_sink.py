"""The sink of a job that trains, behind a coded stage: what it aggregates, in which order, loses and feeds back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from fake_port import head, items, processor, source, window_end
from task_parts import COPIES, FIRST, NONE, Listing, SinkBench, result

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import JobFailed
from riprap.codec.ids import Epoch
from riprap.engine.flow.port import Boundary
from riprap.engine.spreads.encoder import first_row


def bench_of(options: dict[str, object] = NONE, **fields: object) -> SinkBench:
    """A sink whose source has begun."""
    bench = SinkBench(options, **fields)  # type: ignore[arg-type]
    bench.begin()
    return bench


def test_results_are_aggregated_in_the_order_of_the_stream_whoever_comes_first() -> None:
    bench = bench_of()
    bench.port.clock = 3.5
    for row, place in ((2, 1), (1, 2), (2, 0), (1, 0)):
        bench.result(row, place, 10.0 * row + place)
    bench.word(1, 1, 3)
    bench.word(2, 1, 2, ends=True)
    assert bench.operator.seen == [] and not bench.committed
    bench.result(1, 1, 11.0)
    assert bench.operator.seen == [10, 11, 12, 20, 21]
    assert bench.journal.committed_ == [(Boundary(Epoch(1), 10, 0, False), 2.5)]
    assert [bench.models(processor(i)) for i in range(3)] == [[(0, 0.0), (1, 2.0)]] * 3
    bench.lull()
    told = [block for _, block in bench.port.sent_on(bench.layout.commit)]
    assert told[-1].epoch == FIRST + 2 and told[-1].meta["safe"] == 3
    assert bench.operator.processor.factor == 2.0, "the sink's own processor follows"
    acked = bench.port.acked
    assert (bench.layout.result, processor(0)) in acked and (bench.layout.punctuation, source()) in acked


def test_windows_close_in_order_and_one_row_may_free_the_next() -> None:
    bench = bench_of()
    bench.word(1, 1, 1, ends=True)
    bench.word(2, 2, 1, ends=True, last=True)
    bench.result(2, 0, 7.0)
    assert not bench.committed
    bench.result(1, 0, 5.0)
    assert [(boundary.epoch, boundary.last) for boundary in bench.committed] == [(1, False), (2, True)]
    assert bench.operator.seen == [5, 7] and bench.task.items == 4 and bench.task.progress.last


def test_a_window_may_have_many_rows_or_none() -> None:
    bench = bench_of()
    for row in (1, 2, 3):
        bench.result(row, 0, float(row))
        bench.word(row, 1, 1)
    assert not bench.committed
    bench.word(4, 1, 0, ends=True)
    bench.word(5, 2, 0, ends=True)
    assert [(one.epoch, one.items) for one in bench.committed] == [(1, 6), (2, 0)]
    assert bench.operator.seen == [1, 2, 3] and bench.models() == [(0, 0.0), (1, 2.0), (2, 2.0)]


def test_duplicates_are_dropped_and_counted() -> None:
    bench = bench_of(COPIES)
    for by in range(3):
        bench.result(1, 0, 5.0, by=by)
    bench.word(1, 1, 1, ends=True)
    bench.result(1, 0, 5.0, by=1)
    assert bench.operator.seen == [5] and len(bench.committed) == 1
    assert bench.port.counts["duplicates_dropped"] == 3


def test_what_a_dead_worker_held_is_lost_and_counted_with_scheme_none() -> None:
    bench = bench_of()
    bench.result(1, 0)
    bench.result(1, 2)
    bench.word(1, 1, 3, ends=True)
    assert not bench.committed
    bench.kill(processor(1))
    assert bench.committed == [Boundary(Epoch(1), 6, 2, False)]
    assert bench.task.lost == 2 and bench.task.items == 4 and bench.port.counts["lost_blocks"] == 1
    assert bench.operator.seen == [0, 2]


def test_a_window_of_which_everything_is_lost_is_closed_with_the_model_before() -> None:
    bench = bench_of()
    bench.window(1, 1, 5.0)
    bench.word(2, 2, 1, ends=True)
    bench.kill(processor(0))
    assert bench.committed[1] == Boundary(Epoch(2), 2, 2, False)
    assert bench.task.lost == 2 and bench.operator.seen == [5]
    assert bench.models(processor(1)) == [(0, 0.0), (1, 2.0), (2, 2.0)]


def test_a_late_result_of_a_lost_piece_is_not_aggregated() -> None:
    bench = bench_of()
    bench.word(1, 1, 3, ends=True, lives={"processor.1": 0})
    assert not bench.committed, "processors 0 and 2 are alive"
    bench.result(1, 1, 99.0)
    bench.result(1, 0, 0.0)
    bench.result(1, 2, 2.0)
    assert bench.operator.seen == [0, 2] and bench.committed[0].lost == 2
    assert bench.port.counts["duplicates_dropped"] == 1


def test_a_restarted_processor_gets_the_newest_model_at_once() -> None:
    bench = SinkBench()
    assert bench.models(processor(1)) == [(0, 0.0)], "the state that every processor starts from"
    bench.begin()
    bench.window(1, 1, 5.0)
    bench.port.sent.clear()
    bench.restart(processor(1))
    bench.restart(source())
    assert bench.models(processor(1)) == [(1, 2.0)] and not bench.models(processor(0))
    ((to, heard),) = bench.port.sent_on(bench.task.segment.reply)
    assert to == source() and heard.meta["heard"][:4] == [2, 2, True, 1]


def test_without_a_feedback_edge_nothing_is_fed_back() -> None:
    bench = bench_of(feedback=False)
    bench.window(1, 1, 5.0)
    bench.lull()
    sent = bench.port.sent_on(bench.layout.feedback)
    assert {(block.epoch - FIRST, block.arrays) for _, block in sent} == {(1, ())} and bench.operator.seen == [5]
    assert bench.operator.processor.factor == 1.0


def test_a_new_life_of_the_source_deals_an_open_window_anew() -> None:
    """What is done stays done; of the open row everything comes once more."""
    bench = bench_of(COPIES)
    bench.result(1, 0, 4.0)
    bench.word(1, 1, 1)
    bench.word(2, 1, 2, ends=True)
    bench.result(2, 0, 5.0, by=0)
    bench.kill(source())
    bench.result(2, 1, 6.0, by=0)
    assert not bench.committed, "its word died with it"
    bench.restart(source())
    ((_, heard),) = bench.port.sent_on(bench.task.segment.reply)
    assert heard.meta["heard"][:2] == [1, 2], "its first row has come"
    bench.at, bench.number = (1, 2), 0
    bench.begin(life=2)
    bench.word(1, 1, 2, ends=True)
    bench.result(1, 0, 5.0, by=0)
    bench.result(1, 1, 6.0, by=0)
    assert [boundary.epoch for boundary in bench.committed] == [1] and bench.operator.seen == [4, 5, 6]
    assert bench.committed[0].lost == 0


def test_a_row_that_comes_again_changes_nothing() -> None:
    bench = bench_of()
    bench.window(1, 1, 5.0)
    bench.kill(source())
    bench.restart(source())
    bench.at, bench.number = (0, 0), 0
    bench.begin(life=2)
    bench.window(1, 1, 5.0)
    assert bench.operator.seen == [5] and len(bench.committed) == 1
    assert bench.port.counts["duplicates_dropped"] == 2, "two items"
    bench.window(2, 2, 6.0)
    assert bench.operator.seen == [5, 6] and bench.task.lost == 0


def test_a_sink_admits_only_rows_and_pieces_that_may_be() -> None:
    bench = bench_of()
    row = lambda number: Epoch(FIRST + number)  # noqa: E731
    bench.word(1, 1, 5)

    def end(number: int, blocks: int) -> Block:
        lives = {f"processor.{i}": 1 for i in range(3)}
        heads = [[1, 1, 0, 2 * blocks, 2**31, 0, 1, 0, [0, 2]]]
        meta = {"blocks": blocks, "participants": lives, "active": 3, "heads": heads}
        return Block(Kind.PUNCTUATION, row(number), meta=meta)

    assert bench.task.admits(result(row(1), 4)) and bench.task.admits(result(row(1024), 0))
    assert bench.task.admits(end(1, 5)) and bench.task.admits(end(2, 7))
    odd = [result(row(1), 5), result(row(1), 3, k=4), result(row(1), 2**62), result(row(1025), 0)]
    odd += [result(row(2), 2**62), end(1, 4), end(2, 2**62), end(2**31, 1)]
    odd += [Block(kind, row(1), Key(0, 0, 0, 0), arrays=(items(2),)) for kind in (Kind.PARITY, Kind.DATA)]
    odd += [Block(Kind.PUNCTUATION, row(1), meta={"moved": [[9, 0, "processor.0", 1]]})]
    for block in odd:
        assert not bench.task.admits(block), block
    assert set(bench.decoder.half.ledgers) == {row(1)}, "asking changes nothing"


def test_nothing_is_kept_of_windows_that_are_closed() -> None:
    bench = bench_of()
    for window in range(1, 4):
        bench.window(window, window, float(window))
    decoder = bench.decoder
    assert not decoder._results and not decoder._heads and not decoder.half.ledgers
    assert not bench.task.inbox and not bench.task.progress.windows and not bench.task.operator.state._results


def test_rows_of_a_life_that_is_over_are_late() -> None:
    bench = bench_of()
    bench.kill(source())
    bench.restart(source())
    bench.begin(life=2)
    late = result(Epoch(FIRST + 1), 0)
    assert bench.task.admits(late)
    bench.task.on_block(bench.layout.result, processor(0), late)
    assert bench.decoder.whole == first_row(2) and not bench.decoder.half.ledgers
    assert bench.port.counts["duplicates_dropped"] == 1


@pytest.mark.parametrize("place", [0, 1], ids=["items", "end"])
def test_a_row_of_a_window_that_cannot_be_under_way_is_refused(place: int) -> None:
    """It would close all windows up to there, which nobody has opened."""
    bench = bench_of()
    bench.window(1, 1, 5.0)
    for window, admitted in ((2, True), (1025, True), (1026, False), (2**62, False)):
        heads = [head(2, 3, 2, 2, 2, 2), window_end(2, 4, 4, 2)]
        heads[place][0] = window
        meta = {"blocks": 1, "participants": {"processor.0": 1}, "active": 1, "heads": heads}
        assert bench.task.admits(Block(Kind.PUNCTUATION, bench.row(2), meta=meta)) == admitted


class Diverging(Listing):
    """Its model is the sum of all results."""

    def commit(self, epoch: int) -> Sequence[np.ndarray]:
        return list(self.model().values())

    def model(self) -> dict[str, np.ndarray]:
        return {"sum": np.array([sum(self.seen)])}


@pytest.mark.parametrize("must_be_finite", [True, False])
def test_a_sink_fails_at_the_epoch_whose_model_is_not_finite_unless_that_is_allowed(must_be_finite: bool) -> None:
    bench = SinkBench(operator=Diverging(), must_be_finite=must_be_finite)
    bench.begin()
    bench.window(1, 1, 2.0)
    if must_be_finite:
        with pytest.raises(JobFailed, match="model of epoch 2 is not finite: 1 of 1 sum are"):
            bench.window(2, 2, np.inf)
        assert [boundary.epoch for boundary in bench.committed] == [1] and bench.task.epoch == 1
        assert [model for _, model in bench.models()] == [0.0, 2.0], "no processor hears of it"
    else:
        bench.window(2, 2, np.inf)
        assert [boundary.epoch for boundary in bench.committed] == [1, 2]
        assert bench.models()[-1] == (2, np.inf)
