"""Payloads by reference: what is named instead of sent, what a receiver makes of it, and what it refuses."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError
from riprap.codec.header import Header, decode, encode
from riprap.codec.ids import Epoch, Incarnation, WorkerId
from riprap.engine.schemes.parts.spool import Spool
from riprap.engine.wire.origins import origin_of
from riprap.engine.wire.sharing import SLOT_BYTES_MIN, Borrower, Lender, Roots, is_borrowed, open_arena

PEER, OTHER = WorkerId("processor", 0), WorkerId("processor", 1)
NAME = b"source.0#1"
LARGE = SLOT_BYTES_MIN // 8


class Pair:
    """A sender and a receiver that have agreed."""

    def __init__(self, lender_roots: Roots, borrower_roots: Roots, arena_bytes: int = 1 << 20) -> None:
        self.lender = Lender(lender_roots, [PEER, OTHER], *open_arena(2, 0, arena_bytes))
        self.borrower = Borrower(borrower_roots)
        self.answer = self.borrower.accept(NAME, self.lender.offer(PEER))
        self.lender.accepted(PEER, self.answer)

    def send(self, block: Block) -> tuple[Block, int]:
        """The block as it arrives, and how many bytes of payload went along."""
        header, frames = encode(HEAD, block, self.lender.refer(PEER, block))
        there = decode(header, [bytes(f.data) for f in frames], lambda ref, n: self.borrower.fetch(NAME, ref, n))[1]
        return there, sum(frame.nbytes for frame in frames)


HEAD = Header("job", "source.0", Incarnation(1), 0)


def data(array: np.ndarray, attachment: np.ndarray | None = None) -> Block:
    return Block(Kind.DATA, Epoch(1), Key(0, 0, 0, 0), len(array), (array,), attachment)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    folder = tmp_path / "shards"
    folder.mkdir()
    np.arange(8 * LARGE, dtype=np.float64).tofile(folder / "part-0")
    return folder


def mapped(path: Path) -> np.ndarray:
    with open(path, "rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.float64)


@pytest.fixture
def pair(shards: Path) -> Pair:
    return Pair(Roots([str(shards)]), Roots([str(shards)]))


def test_a_piece_of_a_mapped_input_is_named_not_sent(pair: Pair, shards: Path) -> None:
    whole = mapped(shards / "part-0")
    piece = whole[LARGE : 3 * LARGE].reshape(-1, 2)
    there, sent = pair.send(data(piece))
    assert sent == 0 and np.array_equal(there.arrays[0], piece) and not is_borrowed(there.arrays[0])


def test_what_was_computed_travels_by_a_slot_that_the_block_keeps(pair: Pair) -> None:
    block = data(np.random.default_rng(1).random((LARGE, 2)))
    values = block.arrays[0].copy()
    there, sent = pair.send(block)
    assert sent == 0 and np.array_equal(there.arrays[0], values) and is_borrowed(there.arrays[0])
    again, sent = pair.send(block)  # a replay names the same slot
    assert sent == 0 and again.arrays[0].__array_interface__["data"] == there.arrays[0].__array_interface__["data"]


def test_a_replay_after_the_release_goes_as_a_frame(pair: Pair) -> None:
    block = data(np.ones((LARGE, 1)))
    there, sent = pair.send(block)
    assert sent == 0
    del there
    there, sent = pair.send(block)
    assert sent == block.nbytes and there.arrays[0].sum() == LARGE


def test_a_mapping_that_was_sent_goes_with_the_last_of_its_arrays(pair: Pair, shards: Path) -> None:
    """A spool's file takes room on disk as long as it is mapped."""
    kept = Spool().put(np.ones(2 * LARGE))
    read = mapped(shards / "part-0")
    mappings = [weakref.ref(origin_of(array)) for array in (kept, read)]
    for _ in range(2):
        pair.send(data(kept))
        pair.send(data(read))
    assert all(mapping() is not None for mapping in mappings)
    del kept, read
    gc.collect()
    assert [mapping() for mapping in mappings] == [None, None] and not pair.lender._pieces


def test_attachments_and_small_arrays(pair: Pair, shards: Path) -> None:
    attached = mapped(shards / "part-0")[: 2 * LARGE].reshape(-1, 2)
    block = Block(Kind.RESULT, Epoch(1), Key(0, 0, 0, 0), LARGE, (np.arange(13.0), np.arange(3.0)), attached)
    there, sent = pair.send(block)
    assert sent == 16 * 8 and there.attachment is not None and np.array_equal(there.attachment, attached)
    assert [array.tolist() for array in there.arrays] == [list(range(13)), list(range(3))]


def test_what_is_made_in_the_arena_needs_no_copy(pair: Pair) -> None:
    array = pair.lender.empty((LARGE, 2), np.dtype(float))
    array[:] = 3.0
    block = data(array)
    there, sent = pair.send(block)
    assert sent == 0 and block.arrays[0] is array and there.arrays[0].sum() == 6 * LARGE
    assert pair.lender.empty((1 << 18,), np.dtype(float)).shape == (1 << 18,)  # no room: any memory will do
    assert pair.lender.empty((0, 2), np.dtype(float)).shape == (0, 2)


def test_a_full_arena_falls_back_on_frames(pair: Pair) -> None:
    blocks = [data(np.full((LARGE, 16), i, float)) for i in range(5)]  # 256 KiB each, of 1 MiB
    sent = [pair.send(block)[1] for block in blocks]
    assert sent == [0, 0, 0, 0, blocks[4].nbytes]
    assert pair.lender.refused == ""


def test_without_an_agreement_all_is_sent(shards: Path) -> None:
    lender = Lender(Roots([str(shards)]), [PEER], *open_arena(1, 0, 1 << 20))
    block = data(mapped(shards / "part-0").reshape(-1, 2))
    assert lender.refer(PEER, block) is None
    lender.offer(PEER)
    assert lender.refer(PEER, block) is None


@pytest.mark.parametrize("answer", [None, 1, [], [True], [1, 1], [True, "yes"], {"arena": True}])
def test_an_odd_answer_is_none(shards: Path, answer: Any) -> None:
    lender = Lender(Roots([str(shards)]), [PEER], *open_arena(1, 0, 1 << 20))
    lender.offer(PEER)
    lender.accepted(PEER, answer)
    assert lender.refer(PEER, data(np.ones((LARGE, 1)))) is None


def test_a_receiver_that_sees_another_input_gets_copies_by_slots(shards: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    pair = Pair(Roots([str(shards)]), Roots([str(elsewhere)]))
    assert pair.answer == [True, False]
    piece = mapped(shards / "part-0")[:LARGE].reshape(-1, 1)
    there, sent = pair.send(data(piece))
    assert sent == piece.nbytes and np.array_equal(there.arrays[0], piece)


def test_only_inputs_mapped_for_reading_are_named(pair: Pair, shards: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(bytes(8 * LARGE))
    other = mapped(tmp_path / "other").reshape(-1, 1)
    with open(shards / "part-0", "rb+") as file:
        writable = np.frombuffer(mmap.mmap(file.fileno(), 0), np.float64)[:LARGE].reshape(-1, 1)
    for array in (other, writable):
        there, sent = pair.send(data(array))
        assert sent == 0 and is_borrowed(there.arrays[0])  # by a slot: the file itself is not reachable


def inode(shards: Path) -> int:
    return os.stat(shards / "part-0").st_ino


@pytest.mark.parametrize(
    "reference",
    [
        [],
        ["x"],
        [0, 1, 2, 3],
        [0, 1],
        [0, -1, 0],
        [1 << 40, 1, 0],
        [True, 1, 0],
        [1, "part-0", 0, 0],
        [-1, "part-0", 0, 0],
        [0, "../secret", 0, 0],
        [0, "/etc/passwd", 0, 0],
        [0, "link", 0, 0],
        [0, "missing", 0, 0],
        [0, ".", 0, 0],
        [0, "part-0\0", 0, 0],
    ],
)
def test_what_a_peer_may_not_name_is_refused(pair: Pair, shards: Path, reference: list[Any]) -> None:
    (shards.parent / "secret").write_bytes(bytes(100))
    (shards / "link").symlink_to(shards.parent / "secret")
    with pytest.raises(FrameError):
        pair.borrower.fetch(NAME, reference, 8)


def test_a_file_that_was_replaced_or_is_too_short_is_refused(pair: Pair, shards: Path) -> None:
    number = inode(shards)
    assert len(pair.borrower.fetch(NAME, [0, "part-0", number, 0], 8)) == 8
    for wrong in ([0, "part-0", number + 1, 0], [0, "part-0", number, 64 * LARGE - 7], [0, "part-0", number, -8]):
        with pytest.raises(FrameError, match="differs"):
            pair.borrower.fetch(NAME, wrong, 8)


@pytest.mark.parametrize(
    "offer",
    [None, [], {"arena": 1}, {"arena": [1, 2, b"", 0, 1]}, {"arena": [0, 0, b"x" * 16, 0, 1]}, {"inputs": [[0, 0]]}]
)  # fmt: skip
def test_an_odd_offer_is_declined(shards: Path, offer: Any) -> None:
    assert Borrower(Roots([str(shards)])).accept(NAME, offer) == [False, False]


def test_a_worker_that_was_given_up_may_let_nothing_leave(pair: Pair) -> None:
    there, _ = pair.send(data(np.ones((LARGE, 1))))
    assert pair.borrower.is_current
    pair.lender.close(PEER)
    assert not pair.borrower.is_current
    pair.borrower.drop(NAME)
    assert not pair.borrower.is_current  # it still reads what may be overwritten
    del there
    assert pair.borrower.is_current


def test_a_new_life_of_the_receiver_is_offered_anew(pair: Pair) -> None:
    held, _ = pair.send(data(np.ones((LARGE, 1))))
    pair.lender.close(PEER)
    assert pair.lender.refer(PEER, data(np.ones((LARGE, 1)))) is None
    life = Borrower(pair.borrower.roots)
    pair.lender.accepted(PEER, life.accept(NAME, pair.lender.offer(PEER)))
    header, frames = encode(HEAD, block := data(np.ones((LARGE, 2))), pair.lender.refer(PEER, block))
    there = decode(header, frames, lambda ref, n: life.fetch(NAME, ref, n))[1]
    assert not frames and there.arrays[0].sum() == 2 * LARGE
    assert held.arrays[0].shape == (LARGE, 1)


def test_no_shared_memory_is_said_and_survived(monkeypatch: pytest.MonkeyPatch, shards: Path) -> None:
    def fail(*arguments: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("riprap.engine.wire.sharing.Arena", fail)
    pair = Pair(Roots([str(shards)]), Roots([str(shards)]))
    assert pair.answer == [False, True] and "No space left" in pair.lender.refused
    there, sent = pair.send(data(np.ones((LARGE, 1))))
    assert sent == 8 * LARGE and there.arrays[0].sum() == LARGE
    assert pair.send(data(mapped(shards / "part-0").reshape(-1, 2)))[1] == 0


def test_a_lender_that_stands_still_is_known_by_its_process(pair: Pair) -> None:
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    try:
        offer = pair.lender.offer(PEER)
        offer["arena"][0] = child  # it has inherited the segment
        assert pair.borrower.accept(NAME, offer) == [True, True] and not pair.borrower.stands_still(NAME)
        os.kill(child, signal.SIGSTOP)
        os.waitpid(child, os.WUNTRACED)
        assert pair.borrower.stands_still(NAME) and not pair.borrower.stands_still(b"processor.9#1")
        os.kill(child, signal.SIGCONT)
        os.waitpid(child, os.WCONTINUED)
        assert not pair.borrower.stands_still(NAME)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not pair.borrower.stands_still(NAME), "it is gone"
