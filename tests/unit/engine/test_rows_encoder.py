"""The encoder of rows of items: what goes along with a word, how long one waits, and how many windows are under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from fake_port import FakePort, processor, sink, source
from task_parts import COPIES, ERASURE, FIRST, NONE, segment_of, staged

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.alarms import Alarms
from riprap.engine.spreads.encoder import LINGER_S, ROWS_MAX, RowsEncoder, first_row
from riprap.engine.spreads.rows import Head


class Encoding:
    """An encoder before a port, and blocks of a source with three pieces each."""

    def __init__(self, options: Mapping[str, Any] = NONE, windows: int = 2, life: int = 1) -> None:
        segment = segment_of(staged(options, processors=6), source())
        self.port, self.layout = FakePort(segment.layout, 1000), segment.layout
        self.alarms = Alarms(self.port)
        self.encoder = RowsEncoder(segment, self.port, self.alarms, life, windows)
        self.number = self.items = 0

    def row(self, window: int, pieces: int = 3) -> bool:
        """Send a block of pieces of two items."""
        arrays = (*(np.full((2, 3), float(self.items + 2 * i)) for i in range(pieces)), np.array([self.items, 2]))
        block = self._block(Kind.DATA, window)
        block.items, block.arrays = 2 * pieces, arrays
        return self._send(block)

    def end(self, window: int, last: bool = False) -> bool:
        """Send the end of a window."""
        block = self._block(Kind.PUNCTUATION, window)
        block.meta |= {"items": 6, "last": last, "opened_at": 1.0}
        return self._send(block)

    def _block(self, kind: Kind, window: int) -> Block:
        meta = {"cause": (2**31, 0, self.number + 1, 0)}
        return Block(kind, Epoch(window), Key(0, 0, self.number + 1, self.items), meta=meta)

    def _send(self, block: Block) -> bool:
        if not self.encoder.send(block):
            return False
        self.number, self.items = self.number + 1, self.items + block.items
        return True

    def pieces(self) -> list[Block]:
        return [block for _, block in self.port.sent_on(self.layout.data)]

    def words(self) -> list[tuple[int, list[Head]]]:
        """Row and heads of each word."""
        sent = [block for _, block in self.port.sent_on(self.layout.punctuation)]
        return [(block.epoch - FIRST, block.meta["heads"]) for block in sent if "participants" in block.meta]

    def wake(self, seconds: float) -> None:
        """So much later, whoever's time has come is woken."""
        self.port.clock += seconds
        for owner in self.alarms.due():
            assert owner() == []  # type: ignore[operator]

    def say(self, rows: int, safe: int) -> None:
        word = Block(Kind.ACK, Epoch(FIRST + rows), meta={"safe": safe})
        assert self.encoder.admits(word)
        assert self.encoder.on_block(self.layout.commit, sink(), word) == []


@pytest.fixture
def encoding() -> Encoding:
    return Encoding()


def windows_of(heads: list[Head]) -> list[tuple[int, str]]:
    """Window and form of each head."""
    return [(h[0], "end" if isinstance(h[8], dict) else "items") if h else (0, "none") for h in heads]


def test_the_first_word_says_where_the_rows_of_this_life_begin() -> None:
    encoding = Encoding(life=3)
    assert encoding.row(1)
    first = encoding.port.sent_on(encoding.layout.punctuation)[0][1]
    assert first.epoch == first_row(3) and first.meta["begin"] and first.meta["moved"] == []
    assert {block.epoch for block in encoding.pieces()} == {first_row(3) + 1}


def test_a_block_is_a_row_and_its_pieces_name_their_window(encoding: Encoding) -> None:
    encoding.row(7)
    assert [(block.kind, block.items, block.meta["window"]) for block in encoding.pieces()] == [(Kind.DATA, 2, 7)] * 3
    assert [block.arrays[0][0, 0] for block in encoding.pieces()] == [0, 2, 4]
    assert {to for to, _ in encoding.port.sent_on(encoding.layout.data)} == set(map(processor, range(3)))
    assert not encoding.words(), "it waits for what may go along"
    encoding.wake(LINGER_S)
    assert encoding.words() == [(1, [[7, 1, 0, 6, 2**31, 0, 1, 0, [0, 2]]])]


def test_the_end_of_a_window_goes_along_with_the_word_of_the_row_before_it(encoding: Encoding) -> None:
    encoding.row(1)
    encoding.row(1)
    assert [windows_of(heads) for _, heads in encoding.words()] == [[(1, "items")]], "the next row sends the word"
    assert encoding.end(1)
    assert [windows_of(heads) for _, heads in encoding.words()] == [[(1, "items")], [(1, "items"), (1, "end")]]
    assert encoding.words()[1][1][1][8] == {"items": 6, "last": False, "opened_at": 1.0}
    encoding.wake(LINGER_S)
    assert len(encoding.words()) == 2, "and it is said once"


def test_a_word_waits_for_no_longer_than_it_lingers(encoding: Encoding) -> None:
    encoding.row(1)
    assert encoding.port.alarms[-1] == pytest.approx(LINGER_S)
    encoding.wake(LINGER_S / 2)
    assert not encoding.words()
    encoding.wake(LINGER_S / 2)
    assert [row for row, _ in encoding.words()] == [1]


def test_an_end_that_comes_too_late_for_a_word_is_a_row_of_no_pieces(encoding: Encoding) -> None:
    encoding.row(1)
    encoding.wake(LINGER_S)
    assert encoding.end(1)
    assert [(row, windows_of(heads)) for row, heads in encoding.words()] == [
        (1, [(1, "items")]), (2, [(0, "none"), (1, "end")]),
    ]  # fmt: skip
    assert len(encoding.pieces()) == 3


def test_a_window_without_items_is_a_row_of_no_pieces(encoding: Encoding) -> None:
    assert encoding.end(1) and encoding.end(2, last=True)
    assert [(row, windows_of(heads)) for row, heads in encoding.words()] == [
        (1, [(0, "none"), (1, "end")]), (2, [(0, "none"), (2, "end")]),
    ]  # fmt: skip
    words = [block for _, block in encoding.port.sent_on(encoding.layout.punctuation)][1:]
    assert [word.meta["blocks"] for word in words] == [0, 0] and not encoding.pieces()
    assert words[1].meta["heads"][1][8]["last"] is True


@pytest.mark.parametrize("windows", [1, 2, 5])
def test_only_so_many_windows_are_under_way(windows: int) -> None:
    encoding = Encoding(windows=windows)
    for window in range(1, windows + 1):
        assert encoding.row(window) and encoding.end(window)
    blocks = encoding.encoder.unacknowledged
    assert not encoding.row(windows + 1) and not encoding.end(windows + 1)
    assert encoding.encoder.unacknowledged == blocks, "what did not leave does not count"
    encoding.say(1, 0)
    assert encoding.row(windows + 1) and encoding.row(windows + 1), "within a window there is no end to rows"
    assert encoding.end(windows + 1) and not encoding.row(windows + 2)


def test_empty_windows_count_like_others() -> None:
    encoding = Encoding(windows=2)
    assert encoding.end(1) and encoding.end(2) and not encoding.end(3)
    encoding.say(1, 1)
    assert encoding.end(3) and not encoding.end(4)


def test_only_so_many_rows_are_under_way(encoding: Encoding) -> None:
    assert [encoding.row(1) for _ in range(ROWS_MAX + 3)] == [True] * ROWS_MAX + [False] * 3
    encoding.say(ROWS_MAX - 1, 0)
    assert encoding.row(1)


def test_a_window_may_have_any_number_of_rows() -> None:
    """A decoder says that rows are whole, and that nothing is safe before the window has ended."""
    encoding = Encoding(windows=1)
    for row in range(1, 10 * ROWS_MAX + 1):
        assert encoding.row(1)
        encoding.wake(LINGER_S)
        encoding.say(row, 0)
        encoding.port.rooms = dict.fromkeys(encoding.port.rooms, encoding.port.window)
    assert encoding.end(1) and encoding.encoder.unacknowledged == 10 * ROWS_MAX + 1
    assert len(encoding.encoder.half._log) == 1 and not encoding.encoder.kept, "nothing but the newest row is kept"


def test_what_is_safe_is_forgotten_and_what_is_whole_too(encoding: Encoding) -> None:
    for _ in range(3):
        encoding.row(1)
    encoding.end(1)
    encoding.say(2, 2)
    assert encoding.encoder.unacknowledged == 2
    assert set(encoding.encoder.half._log) == {FIRST + 3}
    encoding.say(3, 4)
    assert not encoding.encoder.unacknowledged and not encoding.encoder.half._log


def test_a_word_that_came_before_is_no_step_back(encoding: Encoding) -> None:
    for _ in range(3):
        encoding.row(1)
    encoding.wake(LINGER_S)
    encoding.say(3, 3)
    encoding.say(1, 1)
    assert encoding.encoder.half.committed == FIRST + 3 and not encoding.encoder.unacknowledged
    assert encoding.encoder._safe == 3


def test_a_row_whose_word_has_not_left_cannot_be_whole(encoding: Encoding) -> None:
    encoding.row(1)
    word = Block(Kind.ACK, Epoch(FIRST + 1), meta={"safe": 0})
    assert not encoding.encoder.admits(word)
    encoding.wake(LINGER_S)
    assert encoding.encoder.admits(word)


def test_a_decoder_that_dies_takes_what_was_under_way(encoding: Encoding) -> None:
    encoding.row(1)
    encoding.end(1)
    encoding.row(2)
    encoding.port.kill(sink())
    assert encoding.encoder.on_worker_failed(sink()) == []
    encoding.port.sent.clear()
    assert not encoding.encoder.unacknowledged and not encoding.row(2)
    encoding.wake(LINGER_S)
    assert not encoding.port.sent, "a word that lingered is nobody's"
    encoding.port.restart(sink())
    assert encoding.encoder.on_worker_restored(sink()) == []
    assert encoding.row(1) and encoding.end(1) and encoding.row(2) and encoding.end(2)
    assert not encoding.end(3), "windows are counted anew"
    begin = encoding.port.sent_on(encoding.layout.punctuation)[0][1]
    assert begin.meta["begin"] and begin.epoch == FIRST + 2 == encoding.pieces()[0].epoch - 1
    assert encoding.encoder.half.committed == FIRST + 2


def test_a_late_word_of_a_decoders_life_that_is_over_is_no_error() -> None:
    """Its link knows whose it is, and does not hand it on."""
    encoding = Encoding()
    for _ in range(3):
        encoding.row(1)
    encoding.wake(LINGER_S)
    encoding.port.kill(sink())
    encoding.encoder.on_worker_failed(sink())
    encoding.port.restart(sink())
    encoding.row(1)
    encoding.wake(LINGER_S)
    late, own, odd = (
        Block(Kind.ACK, Epoch(FIRST + row), meta={"safe": safe}) for row, safe in ((3, 3), (4, 1), (4, 2))
    )
    assert encoding.encoder.admits(late) and encoding.encoder.admits(own)
    assert not encoding.encoder.admits(odd), "of this life, which was sent one block"


def test_words_of_a_decoder_that_has_not_begun_say_nothing(encoding: Encoding) -> None:
    word = Block(Kind.ACK, Epoch(FIRST + 9), meta={"safe": 9})
    assert encoding.encoder.admits(word), "of a life that is over"
    assert encoding.encoder.on_block(encoding.layout.commit, sink(), word) == []
    assert encoding.encoder.half.committed == 0 and encoding.encoder._safe == 0


def test_a_row_that_cannot_begin_leaves_nothing_behind() -> None:
    encoding = Encoding(ERASURE)
    for i in range(3):
        encoding.port.kill(processor(i))
    assert not encoding.row(1) and not encoding.end(1)
    assert not encoding.pieces() and not encoding.words() and not encoding.encoder.unacknowledged
    assert encoding.encoder.row == FIRST
    encoding.port.restart(processor(0))
    assert encoding.row(1) and encoding.encoder.row == FIRST + 1


@pytest.mark.parametrize(
    ("options", "data", "parity"), [(NONE, 3, 0), (ERASURE, 3, 2), (COPIES, 9, 0)], ids=["none", "erasure", "copies"]
)
def test_each_scheme_deals_a_row_its_own_way(options: Mapping[str, Any], data: int, parity: int) -> None:
    encoding = Encoding(options)
    encoding.row(1)
    kinds = [block.kind for block in encoding.pieces()]
    assert (kinds.count(Kind.DATA), kinds.count(Kind.PARITY)) == (data, parity)
    if parity:
        told = encoding.pieces()[-1].meta
        assert told["counts"] == [2, 2, 2] and told["of"] == 3 and told["window"] == 1


@pytest.mark.parametrize("dies", [False, True])
def test_where_a_piece_is_sent_once_it_waits_for_a_link_that_is_full_by_bytes(encoding: Encoding, dies: bool) -> None:
    send: Any = encoding.port.send

    def fill_up(edge: Any, to: Any, block: Block, urgent: bool = False) -> bool:
        """A link has no room behind its first piece."""
        had_room: bool = send(edge, to, block)
        encoding.port.heavy.add(to)
        return had_room

    encoding.port.send = fill_up  # type: ignore[method-assign]
    assert encoding.row(1, pieces=12) and len(encoding.pieces()) == 6
    encoding.port.send = send  # type: ignore[method-assign]
    encoding.port.heavy.clear()
    if dies:
        encoding.port.kill(processor(4))
        encoding.encoder.on_worker_failed(processor(4))
        encoding.port.restart(processor(4))
        encoding.encoder.on_worker_restored(processor(4))
    encoding.encoder.flush()
    first = [block.arrays[0][0, 0] for block in encoding.pieces()]
    assert sorted(first) == [2.0 * i for i in range(12) if not (dies and i == 10)], "an incarnation that is over had it"
    encoding.wake(LINGER_S)
    (word,) = [b for _, b in encoding.port.sent_on(encoding.layout.punctuation) if "participants" in b.meta]
    assert set(word.meta["participants"].values()) == {1}, "all are awaited"
    assert "skipped_blocks" not in encoding.port.counts
