"""Heads in the word of a row: those that encoders write get in, others are refused before anything is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dataflow_parts import edge_of
from fake_port import head, layout_of, processor, receiver_of, samples, sink, source, window_end
from task_parts import NONE, staged

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.gate import TaskGate
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.segment_gate import SegmentGate
from riprap.engine.spreads.rows import block_of, head_of, is_end

END = window_end(1, 2, 6, 6)
ITEMS = head(1, 1, 0, 6, 0, 2)


def word(*heads: Any, **changed: Any) -> Block:
    """The word of a row whose three pieces went to one processor."""
    meta = {"blocks": 3, "participants": {"processor.0": 1}, "active": 1, "heads": list(heads)}
    return Block(Kind.PUNCTUATION, Epoch(1), meta=meta | changed)


SINK, SOURCE = sink(), source()


def check(block: Block, me: WorkerId = SINK, sender: WorkerId = SOURCE) -> None:
    SegmentGate(layout_of(me)).check(sender, block)


def data_block() -> Block:
    """Items as a source puts them out: pieces, and behind them where they begin and how many make one."""
    arrays = (np.ones((2, 3)), np.ones((2, 3)), np.ones((1, 3)), np.array([40, 2]))
    return Block(Kind.DATA, Epoch(7), Key(1, 1, 9, 40), 5, arrays, meta={"cause": (2**31, 0, 9, 0)})


def end_block(**told: Any) -> Block:
    meta = {"cause": (2**31, 0, 9, 1), "items": 5, "last": True, "opened_at": 1.5, "opened_ago": 0.5, "clock": 7}
    return Block(Kind.PUNCTUATION, Epoch(7), Key(1, 1, 10, 45), meta=meta | told)


@pytest.mark.parametrize("block", [data_block(), end_block(), end_block(time=-5), end_block(idle=True)])
def test_a_head_says_all_of_a_block_but_its_pieces(block: Block) -> None:
    written = head_of(block)
    check(word(written))
    found = block_of(written, 1, 1)
    assert (found.kind, found.epoch, found.key, found.items) == (block.kind, 7, block.key, block.items)
    assert found.meta == block.meta | {"cause": list(block.meta["cause"])} and not found.arrays
    assert is_end(written) == (block.kind == Kind.PUNCTUATION)
    assert not is_end([])


@pytest.mark.parametrize("heads", [[ITEMS], [ITEMS, END], [ITEMS, END, END], [[]], [[], END], []])
def test_the_words_that_encoders_write_get_in(heads: list[Any]) -> None:
    check(word(*heads))


ODD_NUMBERS = (-1, None, 1.0, True, "1", [1])
ODD_HEADS: list[Any] = [
    *([*ITEMS[:at], odd, *ITEMS[at + 1 :]] for at in range(len(ITEMS) - 1) for odd in ODD_NUMBERS),
    ITEMS[:-1], [*ITEMS, 0], [*ITEMS, END[-1]], [*ITEMS[:-1], None], [*ITEMS[:-1], []], [*ITEMS[:-1], [0]],
    [*ITEMS[:-1], [0, 2, 0]], [*ITEMS[:-1], [-1, 2]], [*ITEMS[:-1], [0, -2]], [*ITEMS[:-1], [0, 2.0]],
    None, 5, "head", {}, [[]],
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_HEADS, ids=str)
def test_a_head_that_is_no_head_is_refused(odd: Any) -> None:
    for heads in ([odd], [ITEMS, odd]):
        with pytest.raises(FrameError, match="PUNCTUATION with odd fields"):
            check(word(*heads))


ODD_ENDS: list[dict[str, Any]] = [
    {"items": -1}, {"items": None}, {"items": 1.5}, {"last": 1}, {"last": None}, {"opened_at": "now"},
    {"opened_at": None}, {"opened_at": 1}, {"opened_ago": None}, {"clock": 0.5}, {"time": 1.5}, {"time": 2**70},
    {"idle": False}, {"idle": 1},
]  # fmt: skip


@pytest.mark.parametrize("changed", ODD_ENDS, ids=str)
def test_an_end_that_says_odd_things_is_refused(changed: dict[str, Any]) -> None:
    for heads in ([[*END[:-1], END[-1] | changed]], [ITEMS, [*END[:-1], END[-1] | changed]]):
        with pytest.raises(FrameError, match="PUNCTUATION with odd fields"):
            check(word(*heads))


@pytest.mark.parametrize("name", ["items", "last", "opened_at"])
def test_an_end_that_lacks_something_is_refused(name: str) -> None:
    lacking = {key: value for key, value in END[-1].items() if key != name}
    with pytest.raises(FrameError, match="PUNCTUATION with odd fields"):
        check(word(ITEMS, [*END[:-1], lacking]))


def test_a_window_of_pieces_and_models_is_a_count() -> None:
    piece = Block(Kind.DATA, Epoch(1), Key(0, 0, 0, 0), 2, (np.ones((2, 3)),), meta={"window": 4})
    model = Block(Kind.FEEDBACK, Epoch(1), meta={"window": 4})
    for block, sender in ((piece, source()), (model, sink())):
        check(block, processor(0), sender)
        for odd in ODD_NUMBERS:
            block.meta["window"] = odd
            with pytest.raises(FrameError, match="odd fields"):
                check(block, processor(0), sender)


MOVED = [[0, 0, "processor.0", 1]]
OF_WORDS = {"participants": {"processor.0": 1}, "heads": [ITEMS], "moved": MOVED, "begin": True}


@pytest.mark.parametrize("field", OF_WORDS)
@pytest.mark.parametrize("name", ["data", "parity", "feedback", "result", "relayed", "ask", "commit", "resend"])
def test_no_other_message_says_what_words_of_rows_do(name: str, field: str) -> None:
    edge, sender, block = samples()[name]
    gate = SegmentGate(layout_of(receiver_of(edge)))
    gate.check(sender, block)
    block.meta[field] = OF_WORDS[field]
    with pytest.raises(FrameError, match="a field of a row's word"):
        gate.check(sender, block)


@pytest.mark.parametrize("name", ["data", "parity", "feedback", "result", "relayed", "ask", "commit", "resend", "end"])
def test_only_blocks_of_links_name_a_cause(name: str) -> None:
    """By it the task at an end of a segment tells them from a row's messages."""
    edge, sender, block = samples()[name]
    block.meta["cause"] = [0, 0, 1, 0]
    with pytest.raises(FrameError, match="the cause that blocks of links have"):
        SegmentGate(layout_of(receiver_of(edge))).check(sender, block)


def test_heads_come_with_those_who_took_part() -> None:
    moved = Block(Kind.PUNCTUATION, Epoch(1), meta={"moved": MOVED})
    check(moved)
    moved.meta["heads"] = [ITEMS]
    with pytest.raises(FrameError, match="odd fields"):
        check(moved)


@pytest.mark.parametrize(
    ("me", "sender", "block"),
    [
        (processor(1), source(), Block(Kind.DATA, Epoch(1), Key(0, 1, 1, 0), 1)),
        (sink(), processor(0), Block(Kind.RESULT, Epoch(1), Key(0, 0, 1, 0), 1)),
        (sink(), source(), Block(Kind.PUNCTUATION, Epoch(1), Key(0, 0, 1, 0), meta=END[-1] | {"participants": 5})),
    ],
)
def test_a_cause_does_not_get_a_message_past_the_gate(me: WorkerId, sender: WorkerId, block: Block) -> None:
    """By its look it is of a link, but between these two there is none that is not coded."""
    block.meta["cause"] = [0, 0, 1, 0]
    if block.kind == Kind.RESULT:
        block.meta["of"] = "all"
    layout = Layout.of(staged(NONE), me)
    gate = TaskGate(layout)
    with pytest.raises(FrameError):
        gate.checks[edge_of(gate, layout, sender, block)](sender, block)
