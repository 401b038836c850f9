"""The sink of the erasure scheme, row by row: what it decodes, when, and what it does not (LEC III-C, Algorithm 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from fake_port import DATA, PUNCTUATION, RESULT, FakePort, items, layout_of, processor, sink, source

from codec.blocks import Block, Kind
from codec.ids import Epoch, Incarnation, WorkerId
from engine.schemes.erasure import ErasureSink, ErasureSource
from engine.schemes.scheme import Boundary

K, R = 4, 2
OPTIONS: dict[str, Any] = {"scheme": "erasure", "code": "gf256", "k": K, "r": R, "hedge_ms": 100}


class Epochs:
    """A source's blocks of some epochs, and a sink to give them to in any order."""

    def __init__(self, counts: Iterable[int], options: dict[str, Any] = OPTIONS, epochs: int = 1) -> None:
        self.counts = list(counts)
        self.port = FakePort(layout_of(sink()))
        self.sink = ErasureSink(layout_of(sink()), options)
        self.ready: list[Block | Boundary] = []
        emitter, scheme = FakePort(layout_of(source())), ErasureSource(layout_of(source()), options)
        for epoch in range(1, epochs + 1):
            assert scheme.on_open(emitter, Epoch(epoch), len(self.counts))
            first = 0
            for count in self.counts:
                block = Block(Kind.DATA, Epoch(epoch), items=count, arrays=(items(count, first + 1),))
                scheme.on_emit(emitter, block)
                first += count
            scheme.on_epoch(emitter, Epoch(epoch), first, last=epoch == epochs)
        self.sent = {
            (block.epoch, block.key.row, block.key.s_index): (to, block) for to, block in emitter.sent_on(DATA)
        }
        self.ends = {block.epoch: block for _, block in emitter.sent_on(PUNCTUATION)}

    def answer(self, row: int, s_index: int, epoch: int = 1) -> list[Block | Boundary]:
        """The processor that got this piece answers."""
        to, block = self.sent[epoch, row, s_index]
        if block.kind == Kind.DATA:
            array = block.arrays[0]
            block = Block(Kind.RESULT, block.epoch, block.key, block.items, (array.sum(0),), array, block.meta)
        return self.give(RESULT, to, block)

    def give(self, edge: Any, sender: WorkerId, block: Block) -> list[Block | Boundary]:
        assert self.sink.admits(block)
        return self._keep(self.sink.on_receive(self.port, edge, sender, block))

    def end(self, epoch: int = 1) -> list[Block | Boundary]:
        return self.give(PUNCTUATION, source(), self.ends[epoch])

    def kill(self, worker: WorkerId) -> list[Block | Boundary]:
        self.port.kill(worker)
        return self._keep(self.sink.on_worker_failed(self.port, worker))

    def alarm(self) -> list[Block | Boundary]:
        return self._keep(self.sink.on_alarm(self.port))

    def holder(self, row: int, s_index: int, epoch: int = 1) -> WorkerId:
        return self.sent[epoch, row, s_index][0]

    def _keep(self, ready: Any) -> list[Block | Boundary]:
        ready = list(ready)
        self.ready += ready
        for entry in ready:
            if isinstance(entry, Boundary):
                self.sink.on_epoch(self.port, entry.epoch, entry.items, entry.last)
        return ready


def decoded(ready: list[Block | Boundary]) -> dict[int, np.ndarray]:
    return {
        entry.key.s_index: entry.arrays[0] for entry in ready if isinstance(entry, Block) and entry.kind == Kind.DATA
    }


def closed(ready: list[Block | Boundary]) -> list[int]:
    return [entry.epoch for entry in ready if isinstance(entry, Boundary)]


def test_nothing_is_decoded_when_nothing_is_missing() -> None:
    job = Epochs([3] * 8)
    job.end()
    for piece in sorted(job.sent, key=lambda piece: -piece[2]):
        job.answer(piece[1], piece[2])
    assert closed(job.ready) == [1] and decoded(job.ready) == {}
    assert not job.port.reports and "decoded_items" not in job.port.counts
    assert not job.sink._pieces and not job.sink._counts, "what a row kept is freed"


@pytest.mark.parametrize("lost", [(0,), (3,), (0, 1), (1, 3), (2, 3)])
@pytest.mark.parametrize(
    "counts", [[3] * 4, [3, 3, 3, 1], [3, 3, 3, 3, 3, 3, 2]], ids=["whole", "short", "short-partial"]
)
def test_lost_blocks_are_decoded_to_the_last_bit(counts: list[int], lost: tuple[int, ...]) -> None:
    """Each row in turn, the short last block and the partial last row among them."""
    job = Epochs(counts)
    row = (len(counts) - 1) // K
    lost = tuple(i for i in lost if row * K + i < len(counts))
    job.end()
    for _, its_row, s_index in job.sent:
        if its_row != row:
            job.answer(its_row, s_index)
    for worker in {job.holder(row, i) for i in lost}:
        job.kill(worker)
    ready = [entry for s in range(K + R) if s not in lost and (1, row, s) in job.sent for entry in job.answer(row, s)]
    assert sorted(decoded(ready)) == list(lost)
    for i, array in decoded(ready).items():
        assert np.array_equal(array, job.sent[1, row, i][1].arrays[0])
    assert closed(job.ready) == [1]
    boundary = next(entry for entry in job.ready if isinstance(entry, Boundary))
    assert (boundary.items, boundary.lost, boundary.last) == (sum(counts), 0, True)
    assert job.port.counts.get("decoded_items", 0) == sum(counts[row * K + i] for i in lost)


def test_a_row_of_one_block_is_its_own_and_its_parity_is_enough() -> None:
    job = Epochs([2])
    job.end()
    job.kill(job.holder(0, 0))
    ready = job.answer(0, 4)
    assert np.array_equal(decoded(ready)[0], job.sent[1, 0, 0][1].arrays[0]) and closed(ready) == [1]


def test_a_death_is_decoded_at_once_when_the_parity_is_already_there() -> None:
    job = Epochs([3] * 4)
    for s in (0, 1, 2, 4):
        job.answer(0, s)
    job.end()
    assert decoded(job.ready) == {}
    ready = job.kill(job.holder(0, 3))
    assert list(decoded(ready)) == [3] and closed(ready) == [1]


def test_before_the_punctuation_nobody_is_known_to_be_gone() -> None:
    job = Epochs([3] * 4)
    for s in (0, 1, 2, 4):
        job.answer(0, s)
    assert job.kill(job.holder(0, 3)) == []
    assert list(decoded(job.end())) == [3]


def test_late_parity_and_late_results_change_nothing() -> None:
    job = Epochs([3] * 4, epochs=2)
    job.end()
    job.kill(job.holder(0, 3))
    for s in (0, 1, 2, 4):
        job.answer(0, s)
    assert closed(job.ready) == [1]
    before = dict(job.port.counts)
    assert job.answer(0, 5) == [] and job.answer(0, 3) == []
    assert job.port.counts == before | {"duplicates_dropped": 1}
    assert not job.sink._pieces and not job.sink._counts


def test_late_parity_of_a_row_that_is_whole_is_not_kept() -> None:
    job = Epochs([3] * 8)
    job.end()
    for s in range(K):
        job.answer(0, s)
    assert job.answer(0, 4) == [] and not job.sink._pieces


def test_a_straggler_is_waited_for_until_the_alarm_and_no_longer() -> None:
    job = Epochs([3] * 4, epochs=2)
    job.end()
    for s in (0, 1, 2, 4, 5):
        job.answer(0, s)
    assert job.port.alarms[-1] == pytest.approx(0.1) and decoded(job.ready) == {}
    ready = job.alarm()
    late = job.holder(0, 3)
    assert list(decoded(ready)) == [3] and closed(ready) == [1]
    assert ("hedge", {"epoch": 1, "workers": [str(late)]}) in job.port.reports
    assert job.sink.straggling == {late}


def test_a_known_straggler_is_not_waited_for_again_until_it_sends_something() -> None:
    job = Epochs([3] * 4, epochs=3)
    job.end()
    for s in (0, 1, 2, 4):
        job.answer(0, s)
    job.alarm()
    late = job.holder(0, 3)
    (slow,) = [s for s in range(K + R) if job.holder(0, s, epoch=2) == late]
    job.end(2)
    ready = [entry for s in range(K + R) if s != slow for entry in job.answer(0, s, epoch=2)]
    assert closed(ready) == [2], "its piece was not waited for"
    job.answer(0, 3)
    assert job.sink.straggling == set()
    (slow,) = [s for s in range(K + R) if job.holder(0, s, epoch=3) == late]
    job.end(3)
    data = [s for s in range(K + R) if s != slow]
    ready = [entry for s in data for entry in job.answer(0, s, epoch=3)]
    assert closed(ready) == ([] if slow < K else [3]), "it is given time again"


def test_the_alarm_waits_at_least_two_epochs_and_repeats_while_something_lacks() -> None:
    job = Epochs([3] * 4, epochs=3)
    for epoch, clock in ((1, 10.0), (2, 12.0)):
        job.port.clock = clock
        job.end(epoch)
        for s in range(K):
            job.answer(0, s, epoch=epoch)
    job.answer(0, 0, epoch=3)
    assert job.port.alarms[-1] == pytest.approx(4.0)
    job.port.alarms.clear()
    assert job.alarm() == [] and job.port.alarms == [pytest.approx(4.0)]
    for s in (1, 2, 3):
        job.answer(0, s, epoch=3)
    job.end(3)
    job.port.alarms.clear()
    assert job.alarm() == [] and not job.port.alarms, "nothing is under way"


def test_more_than_r_deaths_are_asked_for_once() -> None:
    job = Epochs([3] * 4)
    job.end()
    for s in (0, 1, 2):
        job.kill(job.holder(0, s))
    asks = [block for _, block in job.port.sent_on(job.sink.layout.commit)]
    assert [ask.meta["pieces"] for ask in asks] == [[(0, 0), (0, 1), (0, 2)]]
    moved = [[0, i, str(processor(5)), 1] for i in (0, 1, 2)]
    job.give(PUNCTUATION, source(), Block(Kind.PUNCTUATION, Epoch(1), meta={"moved": moved}))
    job.port.lives[processor(5)] = Incarnation(1)
    for s in range(K):
        job.answer(0, s)
    assert closed(job.ready) == [1] and decoded(job.ready) == {}
    assert len(job.port.sent_on(job.sink.layout.commit)) == 1


def test_pieces_that_contradict_their_row_are_refused() -> None:
    job = Epochs([3, 3, 3, 1])
    job.answer(0, 0)
    job.answer(0, 4)
    parity, data = job.sent[1, 0, 5][1], job.sent[1, 0, 3][1]
    assert job.sink.admits(parity)

    def result(array: np.ndarray, s_index: int = 3, of: int = 4, row: int = 0) -> Block:
        key = data.key._replace(s_index=s_index, row=row)
        return Block(Kind.RESULT, Epoch(1), key, len(array), (array,), array, {"of": of})

    def coded(array: np.ndarray, counts: list[int], s_index: int = 5, of: int = 4, row: int = 0) -> Block:
        key = parity.key._replace(s_index=s_index, row=row)
        return Block(Kind.PARITY, Epoch(1), key, 0, (array,), meta={"of": of, "counts": counts})

    assert job.sink.admits(result(items(1))) and job.sink.admits(coded(items(3), [3, 3, 3, 1]))
    odd = [
        result(items(3)), result(items(1, columns=4)), result(items(1).astype("f4")), result(items(1), s_index=4),
        result(items(1), of=5), result(items(1), of=0), result(items(1), row=1), result(items(1), of=2**62),
        coded(items(2), [2, 2, 2, 1]), coded(items(3), [3, 3, 3]), coded(items(3), [3] * 5), coded(items(3), [3] * 4),
        coded(items(3, columns=2), [3, 3, 3, 1]), coded(items(3).astype("i8"), [3, 3, 3, 1]),
        coded(items(3), [3, 3, 3, 1], s_index=6), coded(items(3), [3, 3, 3, 1], s_index=3),
        coded(items(3), [3, 3, 3, 1], row=1), coded(items(3), [], row=2**62),
    ]  # fmt: skip
    for block in odd:
        assert not job.sink.admits(block), block


def test_a_parity_that_contradicts_a_data_block_already_here_is_refused() -> None:
    job = Epochs([3, 3, 3, 1])
    job.answer(0, 3)
    parity = job.sent[1, 0, 4][1]
    wrong = Block(Kind.PARITY, Epoch(1), parity.key, 0, (items(3),), meta={"of": 4, "counts": [3, 3, 3, 3]})
    assert job.sink.admits(parity) and not job.sink.admits(wrong)
