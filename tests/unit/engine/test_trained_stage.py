"""A task of a coded stage that models come back to: what it computes when, what it holds, and what it drops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fake_port import processor, sink, source
from task_parts import COPIES, ERASURE, FIRST, NONE, feed, give, piece, processor_task, results

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch


def test_a_piece_is_processed_under_the_model_of_the_window_before() -> None:
    task, port = processor_task()
    for block in (piece(1, 1), piece(2, 2), piece(2, 3), piece(3, 4)):
        give(task, block)
    assert results(port, task) == [(1, 0, 6.0)]
    feed(task, 1, 10.0, whole=1)
    assert results(port, task) == [(1, 0, 6.0), (2, 0, 60.0), (3, 0, 60.0)]
    feed(task, 2, 100.0, whole=3)
    assert results(port, task)[3:] == [(4, 0, 600.0)]
    assert task.items == 8 and task.epoch == 2


def test_pieces_of_rows_that_are_whole_are_stale_and_old_models_are_ignored() -> None:
    task, port = processor_task()
    feed(task, 7, 2.0, whole=7)
    give(task, piece(7, 7))
    give(task, piece(1, 1))
    assert results(port, task) == [] and port.counts == {"stale_blocks": 2}
    feed(task, 6, 9.0, whole=6)
    assert task.pairs[0].whole == FIRST + 7
    give(task, piece(8, 8))
    assert results(port, task) == [(8, 0, 12.0)]


def test_a_word_that_skips_rows_drops_what_was_held_for_them() -> None:
    task, port = processor_task()
    for row in (2, 3, 4):
        give(task, piece(row, row))
    feed(task, 3, 2.0, whole=3)
    assert results(port, task) == [(4, 0, 12.0)] and port.counts == {}
    assert [row - FIRST for row, _, _ in task.pairs[0].pieces] == [4]


@pytest.mark.parametrize("attachment", ["eager", "hybrid", "lazy"])
def test_nothing_is_kept_beyond_the_word_that_its_row_is_whole(attachment: str) -> None:
    code = "stable" if attachment == "hybrid" else "gf256"
    task, port = processor_task(options=ERASURE | {"attachment": attachment, "code": code})
    make_linear(task)
    for row in (1, 2, 3):
        give(task, piece(1, row))
        give(task, piece(1, row, 4, kind=Kind.PARITY))
    layout = task.segment.layout
    assert port.acked == [(layout.data, source())] * 6, "should it die, the decoder has it from others"
    feed(task, 1, 2.0, whole=2)
    assert {at[0] for at in task.pairs[0].pieces} == {FIRST + 3} and task.pairs[0].computed <= set(task.pairs[0].pieces)
    assert port.acked[6:] == [(layout.feedback, sink())]
    if attachment == "lazy":
        assert set(task.half.shelf._blocks) == {FIRST + 3}


def make_linear(task: object) -> None:
    """Under hybrid coded computation the operator says what of its work is linear."""
    for pair in task.pairs:  # type: ignore[attr-defined]
        pair.operator.process_linear = lambda items: items
        pair.operator.process_nonlinear = lambda linear, items: [linear.sum(0)]


def test_pairs_do_not_touch_each_other() -> None:
    task, port = processor_task(pairs=2)
    give(task, piece(2, 1, pair=0), pair=0)
    give(task, piece(2, 1, pair=1), pair=1)
    feed(task, 1, 5.0, pair=1)
    assert results(port, task, sink(0)) == [] and results(port, task, sink(1)) == [(1, 0, 30.0)]
    feed(task, 1, 7.0, pair=0)
    assert results(port, task, sink(0)) == [(1, 0, 42.0)]
    feed(task, 2, 8.0, whole=1, pair=1)
    assert len(task.pairs[0].pieces) == 1 and not task.pairs[1].pieces


def test_without_a_feedback_edge_nothing_is_held() -> None:
    task, port = processor_task(feedback=False, begun=False)
    for window in (3, 1, 2):
        give(task, piece(window, window))
    assert [row for row, _, _ in results(port, task)] == [3, 1, 2]
    task.on_block(task.segment.layout.feedback, sink(), Block(Kind.FEEDBACK, Epoch(FIRST + 2)))
    assert [at[0] - FIRST for at in task.pairs[0].pieces] == [3], "the word that rows are whole comes without a model"


@pytest.mark.parametrize(("stale", "at_once"), [(0, 1), (2, 3), (math.inf, 5)])
def test_a_stale_model_is_good_enough_for_so_many_windows(stale: float, at_once: int) -> None:
    lead = {"consistency": "asp"} if stale == math.inf else {"consistency": "ssp", "staleness": stale}
    task, port = processor_task(options=NONE, **(lead if stale else {}))
    for window in range(1, 6):
        give(task, piece(window, window))

    def computed() -> list[int]:
        return [row for row, _, _ in results(port, task)]

    assert computed() == list(range(1, at_once + 1))
    feed(task, 1, 1.0, whole=1)
    assert computed() == list(range(1, min(at_once + 1, 5) + 1)), "and none of them twice"
    task.on_worker_failed(sink())
    feed(task, 1, 1.0, whole=1)
    assert computed()[min(at_once + 1, 5) :] == list(range(2, min(at_once + 1, 5) + 1)), "a new sink has none of them"


def test_results_carry_their_items_and_parity_passes_through() -> None:
    task, port = processor_task()
    data, parity = piece(1, 1), piece(1, 1, 4, kind=Kind.PARITY)
    give(task, data)
    give(task, parity)
    (_, result), (_, passed) = port.sent_on(task.segment.layout.result)
    assert result.attachment is data.arrays[0] and result.meta == data.meta and result.items == 2
    assert passed.kind == Kind.PARITY and passed.arrays[0] is parity.arrays[0] and passed.attachment is None
    assert passed.meta == parity.meta and task.items == 2, "parity is nobody's items"


def test_a_piece_that_comes_again_is_computed_again() -> None:
    """The decoder asked for it: it has no result of it."""
    task, port = processor_task(options=COPIES)
    for _ in range(2):
        give(task, piece(1, 1))
    assert results(port, task) == [(1, 0, 6.0)] * 2


def test_results_wait_for_a_sink_that_is_not_known_yet() -> None:
    task, port = processor_task()
    port.rooms[sink()] = 0
    give(task, piece(1, 1))
    assert not port.sent_on(task.segment.layout.result)
    port.rooms[sink()] = 1
    task.on_worker_restored(sink())
    assert results(port, task) == [(1, 0, 6.0)]


def test_results_that_had_no_room_leave_at_the_next_turn() -> None:
    task, port = processor_task()
    port.rooms[sink()] = 0
    give(task, piece(1, 1))
    assert not task.work() and not results(port, task)
    port.rooms[sink()] = 1
    assert not task.work()
    assert results(port, task) == [(1, 0, 6.0)]


def test_a_new_life_of_the_sink_may_go_back_and_gets_every_result_again() -> None:
    """The sink goes on from its last durable window; it has nothing of what its former life was sent."""
    task, port = processor_task()
    for window in (1, 2, 3):
        give(task, piece(window, window))
    feed(task, 1, 10.0, whole=1)
    assert results(port, task) == [(1, 0, 6.0), (2, 0, 60.0)]
    port.kill(sink())
    task.on_worker_failed(sink())
    port.sent.clear()
    give(task, piece(2, 4))
    assert results(port, task) == [], "the model is unknown until the new life says which"
    port.restart(sink())
    task.on_worker_restored(sink())
    feed(task, 1, 10.0, whole=1)
    assert results(port, task) == [(2, 0, 60.0), (4, 0, 60.0)]
    port.restart(sink())
    task.on_worker_failed(sink())
    port.sent.clear()
    feed(task, 0)
    assert task.pairs[0].operator.factor == 1.0, "a sink without anything durable starts from the beginning"
    give(task, piece(1, 5))
    assert results(port, task) == [(5, 0, 6.0)]


def test_what_was_computed_for_a_life_of_the_sink_that_is_over_is_computed_once_more() -> None:
    """The source may hear of the new life first, and goes back to a window that this task is past."""
    task, port = processor_task()
    for window in range(1, 7):
        feed(task, window, float(window), whole=window)
    give(task, piece(4, 7))
    assert results(port, task) == [(7, 0, 36.0)], "to the life before, whose model it is"
    port.kill(sink())
    task.on_worker_failed(sink())
    port.restart(sink())
    task.on_worker_restored(sink())
    assert len(results(port, task)) == 1
    feed(task, 3, 10.0, whole=6)
    assert results(port, task)[1:] == [(7, 0, 60.0)]


def test_results_of_a_life_of_the_sink_that_is_over_do_not_wait_for_the_next() -> None:
    task, port = processor_task()
    port.rooms[sink()] = 0
    give(task, piece(1, 1))
    port.kill(sink())
    task.on_worker_failed(sink())
    port.rooms[sink()] = 64
    port.restart(sink())
    task.on_worker_restored(sink())
    task.work()
    assert not results(port, task), "under a model that the new life may not know"
    feed(task, 0)
    assert results(port, task) == [(1, 0, 6.0)]


@pytest.mark.parametrize("options", [NONE, COPIES], ids=lambda one: one["scheme"])
def test_parity_is_for_the_erasure_scheme_only(options: dict[str, object]) -> None:
    task, _ = processor_task(options=options)
    assert task.admits(piece(1, 1))
    assert not task.admits(piece(1, 1, kind=Kind.PARITY))


def test_items_of_other_columns_or_types_are_not_admitted() -> None:
    task, _ = processor_task()
    assert task.admits(piece(1, 1)) and task.admits(piece(1, 1, 4, kind=Kind.PARITY))
    key, of = Key(0, 0, 0, 0), {"of": 4, "window": 1}
    for wrong in (np.ones((2, 4)), np.ones((2, 3), "f4"), np.ones((2, 3), "i8"), np.ones((2, 0))):
        assert not task.admits(Block(Kind.DATA, Epoch(FIRST + 1), key, items=2, arrays=(wrong,), meta=of))
        assert not task.admits(Block(Kind.PARITY, Epoch(FIRST + 1), key, arrays=(wrong,), meta=of | {"counts": [2]}))


@pytest.mark.parametrize("kind", [Kind.DATA, Kind.PARITY])
def test_a_piece_that_does_not_say_its_window_is_not_admitted_where_models_come(kind: Kind) -> None:
    for back, admitted in (({}, False), ({"feedback": False}, True)):
        task, _ = processor_task(**back)
        block = piece(1, 1, kind=kind)
        del block.meta["window"]
        assert task.admits(block) == admitted


def test_it_keeps_nothing_that_a_later_life_needs() -> None:
    task, port = processor_task()
    give(task, piece(1, 1))
    assert not task.saves and not task.recovery and not task.model() and not port.saved
    task.restore(None, ())
    task.on_durable(7)
    assert task.part.number == 0 and not task.done


def test_deaths_of_others_change_nothing() -> None:
    task, port = processor_task(pairs=2)
    give(task, piece(1, 1))
    for worker in (source(0), sink(1), processor(0)):
        task.on_worker_failed(worker)
        task.on_worker_restored(worker)
    assert results(port, task) == [(1, 0, 6.0)] and task.pairs[0].known == 0
