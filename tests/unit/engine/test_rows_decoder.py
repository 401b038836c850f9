"""The decoder of rows of items: when a row goes on, in which form its results do, what is lost, and who gets models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from fake_port import FakePort, head, items, processor, sink, source, window_end
from task_parts import COPIES, ERASURE, FIRST, HYBRID, NONE, segment_of, staged

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.codes import load_code
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.alarms import Alarms
from riprap.engine.flow.progress import TaskProgress
from riprap.engine.spreads.decoder import TELL_ROWS, TELL_S, RowsDecoder
from riprap.engine.spreads.encoder import first_row
from riprap.operators.adapters.stages import ITEMS, LINEAR, RESULT


class Decoding:
    """A decoder before a port, and what is sent to it: rows of pieces of two items, four at the most."""

    def __init__(self, options: Mapping[str, Any] = NONE, sends_linear: bool = False, **back: Any) -> None:
        segment = segment_of(staged(options, processors=6, **back), sink())
        self.port, self.layout = FakePort(segment.layout), segment.layout
        self.alarms = Alarms(self.port)
        linear = options.get("attachment") == "hybrid"
        self.decoder = RowsDecoder(segment, self.port, self.alarms, 3, linear, sends_linear)
        self.options = options

    def begin(self, row: int = FIRST) -> list[Block]:
        return self.punctuate(Block(Kind.PUNCTUATION, Epoch(row), meta={"moved": [], "begin": True}))

    def word(self, row: int, *heads: Any, blocks: int = 0, **lives: int) -> list[Block]:
        """The word of a row; of items, where it has `blocks`, that are those of a window 1."""
        names = {f"processor.{i}": 1 for i in range(6)} | {f"processor.{name[1:]}": at for name, at in lives.items()}
        meta = {"blocks": blocks, "participants": names, "active": 6, "heads": list(heads)}
        return self.punctuate(Block(Kind.PUNCTUATION, Epoch(FIRST + row), meta=meta))

    def punctuate(self, block: Block) -> list[Block]:
        assert self.decoder.admits(block)
        return self.decoder.on_block(self.layout.punctuation, source(), block)

    def answer(self, row: int, place: int, value: float = 0.0, by: int | None = None, **fields: Any) -> list[Block]:
        """The result of a piece."""
        k = self.decoder.half.k if self.decoder.half else 6
        key, meta = Key(0, 0, *divmod(place, k)), {"window": 1, "of": 4}
        block = Block(Kind.RESULT, Epoch(FIRST + row), key, 2, (np.array([value]),), meta=meta)
        for name, field in fields.items():
            setattr(block, name, field)
        assert self.decoder.admits(block)
        return self.decoder.on_block(self.layout.result, processor(place if by is None else by), block)

    def kill(self, worker: WorkerId) -> list[Block]:
        self.port.kill(worker)
        return self.decoder.on_worker_failed(worker)

    def wake(self, seconds: float) -> list[Block]:
        self.port.clock += seconds
        return [block for owner in self.alarms.due() for block in owner()]  # type: ignore[operator]

    def said(self) -> list[tuple[int, int]]:
        """Rows that the encoder was told to be whole, and blocks that are safe."""
        sent = [block for _, block in self.port.sent_on(self.layout.commit) if "safe" in block.meta]
        return [(block.epoch - FIRST, block.meta["safe"]) for block in sent]

    def fed(self) -> list[tuple[int, int, Any]]:
        """Processor, row that is whole and window of each word to the coded stage; None without a model."""
        sent = self.port.sent_on(self.layout.feedback)
        return [(to.index, block.epoch - FIRST, block.meta.get("window")) for to, block in sent]


def rows_of(block: Block) -> list[list[int]]:
    """Where each result of a block begins, its form and its number of arrays."""
    found: list[list[int]] = block.arrays[-1].tolist()
    return found


def begun(options: Mapping[str, Any] = NONE, **back: Any) -> Decoding:
    decoding = Decoding(options, **back)
    assert decoding.begin() == []
    return decoding


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_row_goes_on_as_one_block_with_its_results_in_order_whoever_comes_first(order: tuple[int, ...]) -> None:
    decoding = begun()
    for place in order:
        assert decoding.answer(1, place, 10.0 + place) == []
    (block,) = decoding.word(1, head(7, 4, 30, 6, 30, 2), blocks=3)
    assert (block.kind, block.epoch, block.key, block.items, block.seq) == (Kind.DATA, 7, Key(0, 0, 4, 30), 6, 1)
    assert [float(array[0]) for array in block.arrays[:-1]] == [10.0, 11.0, 12.0]
    assert rows_of(block) == [[30, RESULT, 1], [32, RESULT, 1], [34, RESULT, 1]]
    assert block.meta == {"cause": [2**31, 0, 4, 0]}


def test_a_row_waits_for_its_last_result_and_those_behind_it_for_the_row() -> None:
    decoding = begun()
    decoding.word(1, head(1, 1, 0, 4, 0, 2), blocks=2)
    decoding.answer(1, 0)
    assert decoding.word(2, head(1, 2, 4, 2, 4, 2), window_end(1, 3, 6, 6), blocks=1) == []
    assert decoding.answer(2, 0, 7.0) == []
    through = decoding.answer(1, 1)
    assert [(block.kind, block.key.row, block.seq) for block in through] == [
        (Kind.DATA, 1, 1), (Kind.DATA, 2, 2), (Kind.PUNCTUATION, 3, 3),
    ]  # fmt: skip
    assert through[2].meta["items"] == 6 and through[2].epoch == 1 and not through[2].arrays
    assert not decoding.decoder._results and not decoding.decoder._heads, "what has gone on is not kept"


def test_a_row_of_no_pieces_has_ends_alone() -> None:
    decoding = begun()
    through = decoding.word(1, [], window_end(1, 1, 0, 0), window_end(2, 2, 0, 0, last=True))
    assert [(block.kind, block.epoch, block.meta["last"]) for block in through] == [
        (Kind.PUNCTUATION, 1, False), (Kind.PUNCTUATION, 2, True),
    ]  # fmt: skip


def test_results_of_several_arrays_stay_together() -> None:
    decoding = begun()
    decoding.answer(1, 0, arrays=(np.ones(2), np.zeros((2, 2))))
    decoding.answer(1, 1, arrays=())
    (block,) = decoding.word(1, head(1, 1, 0, 4, 0, 2), blocks=2)
    assert rows_of(block) == [[0, RESULT, 2], [2, RESULT, 0]] and len(block.arrays) == 3


def test_the_second_copy_of_a_result_changes_nothing() -> None:
    decoding = begun(COPIES)
    decoding.word(1, head(1, 1, 0, 2, 0, 2), blocks=1)
    (block,) = decoding.answer(1, 0, 5.0, by=0)
    assert float(block.arrays[0][0]) == 5.0
    assert decoding.answer(1, 0, 6.0, by=1) == [] and decoding.port.counts == {"duplicates_dropped": 1}


def test_what_died_with_a_processor_is_said_by_its_row_and_counted_by_progress() -> None:
    decoding = begun()
    decoding.word(1, head(1, 1, 0, 6, 0, 2), blocks=3)
    for place in (0, 2):
        decoding.answer(1, place, float(place))
    (block,) = decoding.kill(processor(1))
    assert (block.items, block.meta["lost"]) == (6, 2), "numbers on the link are those of the stream"
    assert rows_of(block) == [[0, RESULT, 1], [4, RESULT, 1]]
    (end,) = decoding.word(2, [], window_end(1, 2, 6, 6))
    assert "lost" not in end.meta
    progress = TaskProgress()
    assert progress.note_lost(block) == 2 and progress.close_lost(1) == 2 and progress.lost == {0: 2}
    assert progress.close_lost(2) == 0 and TaskProgress.unpack(progress.pack()).lost == {0: 2}
    assert decoding.port.counts == {"lost_blocks": 1}


def test_a_row_of_which_everything_is_lost_goes_on_without_results() -> None:
    decoding = begun()
    decoding.word(1, head(1, 1, 0, 2, 0, 2), window_end(1, 2, 2, 2), blocks=1)
    block, end = decoding.kill(processor(0))
    assert (block.items, block.meta["lost"], rows_of(block)) == (2, 2, [])
    assert end.kind == Kind.PUNCTUATION


def test_a_late_result_of_what_was_given_up_is_dropped() -> None:
    decoding = begun()
    decoding.word(1, head(1, 1, 0, 4, 0, 2), blocks=2, p1=0)
    decoding.answer(1, 1, 99.0)
    (block,) = decoding.answer(1, 0, 1.0)
    assert block.meta["lost"] == 2, "the encoder's word is that it did not get this piece"
    decoding.word(2, head(1, 2, 4, 4, 4, 2), blocks=2)
    (block,) = [*decoding.answer(2, 0), *decoding.kill(processor(1))]
    assert block.meta["lost"] == 2 and decoding.answer(2, 1, 99.0) == []
    assert decoding.port.counts == {"lost_blocks": 2, "duplicates_dropped": 2}


def coded(options: Mapping[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Four pieces and their two parities."""
    data = [items(2, 2 * i) for i in range(4)]
    return data, load_code(options["code"], 4, 2).encode(data)


def parity(decoding: Decoding, row: int, array: np.ndarray, s_index: int) -> list[Block]:
    meta = {"of": 4, "counts": [2] * 4, "window": 1}
    block = Block(Kind.PARITY, Epoch(FIRST + row), Key(0, 0, 0, s_index), arrays=(array,), meta=meta)
    assert decoding.decoder.admits(block)
    return decoding.decoder.on_block(decoding.layout.result, processor(s_index), block)


@pytest.mark.parametrize(("options", "form"), [(ERASURE, ITEMS), (HYBRID, LINEAR)], ids=["items", "linear parts"])
def test_only_what_is_missing_is_decoded_and_goes_on_in_its_form(options: Mapping[str, Any], form: int) -> None:
    decoding = begun(options)
    data, parities = coded(options)
    decoding.word(1, head(1, 1, 0, 8, 0, 2), blocks=4)
    ledger, row = decoding.decoder.half.ledgers[FIRST + 1], Epoch(FIRST + 1)
    holders = [decoding.decoder.half.places(ledger, row, 0, i)[0] for i in range(4)]
    decoding.answer(1, 0, 1.0, attachment=data[0])
    decoding.answer(1, 2, 1.0, attachment=data[2])
    parity(decoding, 1, parities[0], 4)
    parity(decoding, 1, parities[1], 5)
    assert not decoding.port.counts, "it may come by itself"
    decoding.kill(holders[1])
    (block,) = decoding.kill(holders[3])
    assert [(start, kind) for start, kind, _ in rows_of(block)] == [(0, RESULT), (2, form), (4, RESULT), (6, form)]
    assert block.items == 8
    for array, wanted in ((block.arrays[1], data[1]), (block.arrays[3], data[3])):
        np.testing.assert_allclose(array, wanted, rtol=1e-9, atol=1e-9)
    counts = decoding.port.counts
    assert counts["decoded_items"] == counts["recomputed_items"] == 4 and counts["decoded_rows"] == 1


def test_nothing_is_decoded_when_nothing_is_missing() -> None:
    decoding = begun(ERASURE)
    data, parities = coded(ERASURE)
    decoding.word(1, head(1, 1, 0, 8, 0, 2), blocks=4)
    parity(decoding, 1, parities[0], 4)
    parity(decoding, 1, parities[1], 5)
    through = [block for i in range(4) for block in decoding.answer(1, i, float(i), attachment=data[i])]
    assert [form for _, form, _ in rows_of(through[0])] == [RESULT] * 4
    assert "decoded_items" not in decoding.port.counts


def test_where_all_of_the_work_is_linear_its_parts_are_the_results() -> None:
    decoding = begun(HYBRID, sends_linear=True)
    data, _ = coded(HYBRID)
    decoding.word(1, head(1, 1, 0, 8, 0, 2), blocks=4)
    through = [block for i in range(4) for block in decoding.answer(1, i, arrays=(), attachment=data[i])]
    assert [(form, count) for _, form, count in rows_of(through[0])] == [(LINEAR, 1)] * 4
    assert all(np.array_equal(found, part) for found, part in zip(through[0].arrays, data))


def test_what_comes_before_the_word_of_an_encoders_life_waits_for_it() -> None:
    decoding = Decoding()
    assert decoding.answer(1, 0, 5.0) == []
    assert decoding.word(1, head(1, 1, 0, 2, 0, 2), blocks=1) == []
    (block,) = decoding.begin()
    assert float(block.arrays[0][0]) == 5.0 and not decoding.decoder._early


def test_what_came_early_is_not_acknowledged_before_it_is_looked_at() -> None:
    """So the window of its link bounds how much of it there is."""
    decoding = Decoding()
    decoding.answer(1, 0)
    decoding.answer(1, 1)
    assert not decoding.port.acked
    decoding.begin()
    assert {entry[1] for entry in decoding.port.acked} == {source(), processor(0), processor(1)}


def test_what_a_dead_processor_sent_early_is_forgotten() -> None:
    decoding = Decoding()
    decoding.answer(1, 0, 5.0)
    decoding.port.restart(processor(0))
    assert decoding.begin() == [] and not decoding.decoder._early and not decoding.decoder._results


def test_what_came_early_is_admitted_when_it_begins_or_dropped() -> None:
    """Before that nothing is known to check it by."""
    decoding = Decoding(ERASURE)
    data, _ = coded(ERASURE)
    meta = {"of": 4, "window": 1}
    good = Block(Kind.RESULT, Epoch(FIRST + 1), Key(0, 0, 0, 0), 2, (np.ones(1),), data[0], meta)
    odd = [
        Block(Kind.RESULT, Epoch(FIRST + 1), Key(0, 0, 0, 1), 2, (np.ones(1),), data[0], {"window": 1}),
        Block(Kind.RESULT, Epoch(FIRST + 1), Key(0, 0, 0, 4), 2, (np.ones(1),), data[0], meta),
        Block(Kind.RESULT, Epoch(FIRST + 1), Key(0, 0, 0, 1), 2, (np.ones(1),), np.ones((2, 9)), meta),
        Block(Kind.PUNCTUATION, Epoch(FIRST + 1), meta={"blocks": 4, "participants": {"processor.0": 1}, "active": 1}),
    ]
    for block in (*odd, good):
        assert decoding.decoder.admits(block)
        edge = decoding.layout.punctuation if block.kind == Kind.PUNCTUATION else decoding.layout.result
        assert decoding.decoder.on_block(edge, processor(0), block) == []
    assert decoding.begin() == []
    (ledger,) = decoding.decoder.half.ledgers.values()
    assert ledger.done == {(0, 0)} and ledger.participants is None and not decoding.decoder._heads


def test_a_new_life_of_the_encoder_begins_behind_its_own_first_row() -> None:
    decoding = begun()
    decoding.word(1, head(1, 1, 0, 4, 0, 2), blocks=2)
    decoding.answer(1, 0)
    assert decoding.kill(source()) == []
    assert decoding.decoder.half is None and not decoding.decoder._results and not decoding.decoder._heads
    decoding.port.restart(source())
    assert decoding.decoder.on_worker_restored(source()) == []
    decoding.begin(first_row(2))
    late = Block(Kind.RESULT, Epoch(FIRST + 1), Key(0, 0, 0, 1), 2, (np.ones(1),))
    assert decoding.decoder.admits(late)
    assert decoding.decoder.on_block(decoding.layout.result, processor(1), late) == []
    assert decoding.decoder.whole == first_row(2) and decoding.port.counts == {"duplicates_dropped": 1}


def test_the_encoder_is_told_what_is_whole_and_what_is_safe() -> None:
    decoding = begun()
    decoding.port.clock = 1.0
    decoding.word(1, [], window_end(1, 1, 0, 0))
    assert decoding.said() == [(1, 0)]
    decoding.word(2, [], window_end(2, 2, 0, 0))
    assert decoding.said() == [(1, 0)], "not after each row"
    assert decoding.wake(TELL_S) == [] and decoding.said() == [(1, 0), (2, 0)]
    decoding.decoder.ack(None)
    decoding.wake(TELL_S)
    assert decoding.said()[-1] == (2, 2), "all that came through is safe"
    decoding.decoder.ack(1)
    decoding.wake(TELL_S)
    assert decoding.said()[-1] == (2, 2), "no step back"
    told = len(decoding.said())
    for row in range(3, 4 + TELL_ROWS):
        decoding.word(row, [], window_end(row, row, 0, 0))
    assert [row for row, _ in decoding.said()[told:]] == [3, 3 + TELL_ROWS], "at once after a pause, then after many"


def test_a_word_without_room_is_said_again() -> None:
    decoding = begun()
    decoding.port.clock = 1.0
    decoding.port.rooms[source()] = 0
    decoding.word(1, [], window_end(1, 1, 0, 0))
    assert not decoding.said()
    decoding.port.rooms[source()] = 9
    decoding.wake(TELL_S)
    assert decoding.said() == [(1, 0)]


def test_the_coded_stage_hears_of_rows_by_models_where_there_are_any() -> None:
    for back, words in (({}, []), ({"feedback": False}, [(to, 1, None) for to in range(6)])):
        decoding = begun(**back)
        decoding.port.clock = 1.0
        decoding.word(1, [], window_end(1, 1, 0, 0))
        assert decoding.fed() == words


def test_who_had_no_room_hears_later_of_the_newest_row() -> None:
    decoding = begun(feedback=False)
    decoding.port.clock = 1.0
    full, down = processor(4), processor(2)
    decoding.port.rooms[full] = 0
    decoding.kill(down)
    for row in (1, 2):
        decoding.word(row, [], window_end(row, row, 0, 0))
        decoding.wake(TELL_S)
    decoding.port.sent.clear()
    decoding.decoder.flush()
    assert decoding.fed() == []
    decoding.port.rooms[full] = 9
    decoding.port.restart(down)
    for _ in range(2):
        decoding.decoder.flush()
    assert decoding.fed() == [(4, 2, None)], "once; who was down then holds none of these rows"


def test_a_model_says_which_rows_are_whole() -> None:
    decoding = begun()
    decoding.word(1, [], window_end(1, 1, 0, 0))
    decoding.decoder.feed_back(Epoch(1), [np.array([4.0])])
    assert decoding.fed() == [(to, 1, 1) for to in range(6)] and not decoding.decoder._owed
    assert decoding.said()[-1][0] == 1, "the encoder hears of it at once: it may begin a window"


def test_the_newest_model_goes_to_whoever_starts_again() -> None:
    decoding = begun()
    decoding.decoder.feed_back(Epoch(0), ())
    decoding.kill(processor(2))
    decoding.decoder.feed_back(Epoch(1), [np.array([4.0])])
    decoding.port.sent.clear()
    assert decoding.wake(1.0) == []
    assert decoding.fed() == [], "nobody waits for one that is down"
    decoding.port.restart(processor(2))
    assert decoding.decoder.on_worker_restored(processor(2)) == []
    assert decoding.fed() == [(2, 0, 1)] and not decoding.decoder._owed


def test_a_model_that_had_no_room_is_sent_later_unless_there_is_a_newer_one() -> None:
    decoding = begun()
    decoding.port.rooms[processor(4)] = 0
    for window in (1, 2):
        decoding.decoder.feed_back(Epoch(window), [np.array([float(window)])])
    assert decoding.decoder._owed == {processor(4)}
    decoding.port.rooms[processor(4)] = 9
    decoding.port.sent.clear()
    decoding.wake(TELL_S)
    assert decoding.fed() == [(4, 0, 2)] and not decoding.decoder._owed


def test_events_name_windows_not_rows() -> None:
    decoding = begun(
        COPIES,
    )
    decoding.word(1, head(5, 1, 0, 2, 0, 2), blocks=1)
    for worker in decoding.layout.processors:
        decoding.kill(worker)
    assert [(event, fields["epoch"]) for event, fields in decoding.port.reports] == [("ask", 5)]


ROW, END = head(1, 1, 0, 5, 0, 2), window_end(1, 2, 5, 5)


@pytest.mark.parametrize(
    ("heads", "blocks"),
    [
        (None, 3), ([], 3), ([[]], 3), ([END], 3), ([END, END], 0), ([ROW, ROW], 3), ([ROW, []], 3), ([[], ROW], 0),
        ([ROW], 2), ([ROW], 4), ([ROW], 0), ([[*ROW[:8], [0, 0]]], 3), ([[*ROW[:8], [0, 5]]], 3), ([[], []], 0),
    ],
)  # fmt: skip
def test_a_word_whose_heads_are_not_of_its_row_is_refused(heads: Any, blocks: int) -> None:
    decoding = begun()
    meta: dict[str, Any] = {"blocks": blocks, "participants": {"processor.0": 1}, "active": 1}
    block = Block(Kind.PUNCTUATION, Epoch(FIRST + 1), meta=meta if heads is None else meta | {"heads": heads})
    assert not decoding.decoder.fits(block) and not decoding.decoder.admits(block)


@pytest.mark.parametrize(
    ("heads", "blocks"), [([ROW], 3), ([ROW, END], 3), ([ROW, END, END], 3), ([[]], 0), ([[], END], 0)]
)
def test_a_word_whose_heads_are_of_its_row_is_admitted(heads: Any, blocks: int) -> None:
    meta = {"blocks": blocks, "participants": {"processor.0": 1}, "active": 1, "heads": heads}
    assert begun().decoder.admits(Block(Kind.PUNCTUATION, Epoch(FIRST + 1), meta=meta))


def test_a_word_of_where_pieces_went_needs_no_heads() -> None:
    moved = Block(Kind.PUNCTUATION, Epoch(FIRST + 1), meta={"moved": [[0, 0, "processor.1", 1]]})
    assert begun().decoder.admits(moved)


@pytest.mark.parametrize("wrong", [np.ones((2, 4)), np.ones((2, 3), "f4"), np.ones((2, 3), "i8"), np.ones((2, 0))])
def test_pieces_of_other_columns_or_types_are_refused(wrong: np.ndarray) -> None:
    decoding = begun(ERASURE)
    key, meta = Key(0, 0, 0, 0), {"of": 4, "window": 1}
    result = Block(Kind.RESULT, Epoch(FIRST + 1), key, 2, (np.ones(1),), items(2), meta)
    data = Block(Kind.DATA, Epoch(FIRST + 1), key, 2, (items(2),), meta=meta)
    coded = Block(Kind.PARITY, Epoch(FIRST + 1), Key(0, 0, 0, 4), 0, (items(2),), meta=meta | {"counts": [2] * 4})
    for block in (result, data, coded):
        assert decoding.decoder.admits(block)
    result.attachment, data.arrays, coded.arrays = wrong, (wrong,), (wrong,)
    for block in (result, data, coded):
        assert not decoding.decoder.admits(block), block


@pytest.mark.parametrize("part", [None, np.zeros((1, 2))], ids=["none", "of other rows"])
def test_a_result_without_its_linear_part_is_turned_away(part: np.ndarray | None) -> None:
    decoding = begun(HYBRID)
    block = Block(Kind.RESULT, Epoch(FIRST + 1), Key(0, 0, 0, 0), 2, (), part, {"of": 4, "window": 1})
    assert not decoding.decoder.admits(block)
    block.attachment = np.zeros((2, 2))
    assert decoding.decoder.admits(block)
