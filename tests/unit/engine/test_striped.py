"""The decoder half of striping, row by row: what it decodes, when, and what it does not (LEC III-C, Algorithm 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from fake_port import COMMIT, DATA, FEEDBACK, PUNCTUATION, RESULT, FakePort, items, layout_of, processor, sink, source

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, Incarnation, WorkerId
from riprap.engine.spreads.half import WholeRow
from riprap.engine.spreads.stripe import Pieces
from riprap.engine.spreads.striped import StripingSource, make_processor, make_sink

K, R = 4, 2
OPTIONS: dict[str, Any] = {"scheme": "erasure", "code": "gf256", "k": K, "r": R, "hedge": 100, "attachment": "eager"}


class Epochs:
    """A source's blocks of some epochs, and a sink to give them to in any order."""

    def __init__(self, counts: Iterable[int], options: dict[str, Any] = OPTIONS, epochs: int = 1) -> None:
        self.counts = list(counts)
        self.port = FakePort(layout_of(sink()))
        self.sink: Any = make_sink(layout_of(sink()), options)
        self.ready: list[Block | WholeRow] = []
        emitter, scheme = FakePort(layout_of(source())), StripingSource(layout_of(source()), options)
        for epoch in range(1, epochs + 1):
            assert scheme.on_open(emitter, Epoch(epoch), len(self.counts))
            first = 0
            for count in self.counts:
                block = Block(Kind.DATA, Epoch(epoch), items=count, arrays=(items(count, first + 1),))
                scheme.on_emit(emitter, block)
                first += count
            scheme.on_epoch(emitter, Epoch(epoch))
        self.sent = {
            (block.epoch, block.key.row, block.key.s_index): (to, block) for to, block in emitter.sent_on(DATA)
        }
        self.ends = {block.epoch: block for _, block in emitter.sent_on(PUNCTUATION)}

    def answer(self, row: int, s_index: int, epoch: int = 1) -> list[Block | WholeRow]:
        """The processor that got this piece answers."""
        to, block = self.sent[epoch, row, s_index]
        if block.kind == Kind.DATA:
            array = block.arrays[0]
            block = Block(Kind.RESULT, block.epoch, block.key, block.items, (array.sum(0),), array, block.meta)
        return self.give(RESULT, to, block)

    def give(self, edge: Any, sender: WorkerId, block: Block) -> list[Block | WholeRow]:
        assert self.sink.admits(block)
        return self._keep(self.sink.on_receive(self.port, edge, sender, block))

    def end(self, epoch: int = 1) -> list[Block | WholeRow]:
        return self.give(PUNCTUATION, source(), self.ends[epoch])

    def kill(self, worker: WorkerId) -> list[Block | WholeRow]:
        self.port.kill(worker)
        return self._keep(self.sink.on_worker_failed(self.port, worker))

    def alarm(self) -> list[Block | WholeRow]:
        return self._keep(self.sink.on_alarm(self.port))

    def holder(self, row: int, s_index: int, epoch: int = 1) -> WorkerId:
        return self.sent[epoch, row, s_index][0]

    def _keep(self, ready: Any) -> list[Block | WholeRow]:
        ready = list(ready)
        self.ready += ready
        for entry in ready:
            if isinstance(entry, WholeRow):
                self.sink.on_epoch(self.port, entry.epoch)
        return ready


def decoded(ready: list[Block | WholeRow]) -> dict[int, np.ndarray]:
    return {
        entry.key.s_index: entry.arrays[0] for entry in ready if isinstance(entry, Block) and entry.kind == Kind.DATA
    }


def is_empty(pieces: Pieces) -> bool:
    return not pieces._pieces and not pieces._counts


def closed(ready: list[Block | WholeRow]) -> list[int]:
    return [entry.epoch for entry in ready if isinstance(entry, WholeRow)]


def test_nothing_is_decoded_when_nothing_is_missing() -> None:
    job = Epochs([3] * 8)
    job.end()
    for piece in sorted(job.sent, key=lambda piece: -piece[2]):
        job.answer(piece[1], piece[2])
    assert closed(job.ready) == [1] and decoded(job.ready) == {}
    assert not job.port.reports and "decoded_items" not in job.port.counts
    assert is_empty(job.sink.pieces), "what a row kept is freed"


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
    assert [entry for entry in job.ready if isinstance(entry, WholeRow)] == [WholeRow(Epoch(1))]
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
    assert is_empty(job.sink.pieces)


def test_late_parity_of_a_row_that_is_whole_is_not_kept() -> None:
    job = Epochs([3] * 8)
    job.end()
    for s in range(K):
        job.answer(0, s)
    assert job.answer(0, 4) == [] and not job.sink.pieces.of((Epoch(1), 0))


def test_a_straggler_is_waited_for_until_the_alarm_and_no_longer() -> None:
    job = Epochs([3] * 4, epochs=2)
    job.end()
    for s in (0, 1, 2, 4, 5):
        job.answer(0, s)
    late = job.holder(0, 3)
    assert job.port.alarms[-1] == pytest.approx(0.1)
    job.port.clock = 0.09
    assert job.alarm() == [] and job.port.alarms[-1] == pytest.approx(0.01), "too early"
    job.port.clock = 0.11
    ready = job.alarm()
    assert list(decoded(ready)) == [3] and closed(ready) == [1]
    assert ("hedge", {"epoch": 1, "workers": [str(late)], "stopped": []}) in job.port.reports
    advice = [block.meta for _, block in job.port.sent_on(job.sink.layout.commit)]
    assert advice == [{"avoided": [str(late)]}], "the source is told to do without it"


def test_a_known_straggler_is_not_waited_for_in_epochs_under_way() -> None:
    job = Epochs([3] * 4, epochs=2)
    job.end()
    for s in (0, 1, 2, 4):
        job.answer(0, s)
    job.port.clock = 1.1
    job.alarm()
    late = job.holder(0, 3)
    (slow,) = [s for s in range(K + R) if job.holder(0, s, epoch=2) == late]
    job.end(2)
    ready = [entry for s in range(K + R) if s != slow for entry in job.answer(0, s, epoch=2)]
    assert closed(ready) == [2] and not job.sink.hedge.stragglers - {late}


def waiting_for_one(hedge: str | int, options: dict[str, Any] = OPTIONS) -> tuple[Epochs, WorkerId]:
    """All pieces of an epoch but one result are at the sink."""
    job = Epochs([3] * 4, options | {"hedge": hedge}, epochs=2)
    job.end()
    for s in (0, 1, 2, 4, 5):
        job.answer(0, s)
    return job, job.holder(0, 3)


def test_a_worker_that_stands_still_is_given_up_at_the_first_look() -> None:
    job, late = waiting_for_one("cost")
    job.port.clock = job.port.alarms[-1]
    assert job.port.clock < 0.001 and job.alarm() == [], "it runs"
    job.port.stopped.add(late)
    job.port.clock += job.port.alarms[-1]
    ready = job.alarm()
    assert list(decoded(ready)) == [3] and closed(ready) == [1]
    assert ("hedge", {"epoch": 1, "workers": [str(late)], "stopped": [str(late)]}) in job.port.reports


def test_nobody_is_given_up_without_a_hedge() -> None:
    job, late = waiting_for_one("none")
    job.port.stopped.add(late)
    job.port.clock = 1e6
    assert not job.port.alarms and job.alarm() == []
    assert list(decoded(job.kill(late))) == [3], "a detector says so"


def test_a_straggler_that_is_heard_again_is_waited_for_again() -> None:
    job, late = waiting_for_one(100)
    job.port.clock = 0.11
    assert closed(job.alarm()) == [1]
    (slow,) = [s for s in range(K + R) if job.holder(0, s, epoch=2) == late]
    assert slow < K
    assert job.answer(0, 3) == [] and not job.sink.hedge.stragglers, "its result of the epoch before, too late"
    job.end(2)
    for s in range(K + R):
        if s != slow:
            assert decoded(job.answer(0, s, epoch=2)) == {}
    assert job.port.alarms[-1] == pytest.approx(0.1)
    assert closed(job.answer(0, slow, epoch=2)) == [2] and job.port.counts["decoded_rows"] == 1


def test_what_decoding_took_is_what_the_next_one_is_expected_to_cost() -> None:
    job, late = waiting_for_one("cost")
    patience, paid = job.sink.hedge.patience, []
    patience.paid = lambda seconds, blocks: paid.append((seconds, blocks))
    job.port.stopped.add(late)
    job.port.clock = 0.1
    closed_ = closed(job.alarm())
    assert closed_ == [1] and paid == [(0.0, 1)]


def test_parity_alone_never_causes_a_decoding() -> None:
    job = Epochs([3] * 4)
    for s in (4, 5, 0, 1):
        job.answer(0, s)
    job.end()
    assert decoded(job.ready) == {} and closed(job.ready) == []
    job.answer(0, 2)
    job.answer(0, 3)
    assert closed(job.ready) == [1] and decoded(job.ready) == {}


LAZY = OPTIONS | {"attachment": "lazy"}


class LazyEpochs(Epochs):
    """The same with processors that keep their blocks; `hand_out` answers what the sink asks of one."""

    def __init__(self, counts: Iterable[int], epochs: int = 1) -> None:
        super().__init__(counts, LAZY, epochs)
        self.ports = {processor(i): FakePort(layout_of(processor(i))) for i in range(6)}
        self.shelves = {w: make_processor(layout_of(w), LAZY) for w in self.ports}
        for to, block in self.sent.values():
            self.shelves[to].on_receive(self.ports[to], DATA, source(), block)

    def answer(self, row: int, s_index: int, epoch: int = 1) -> list[Block | WholeRow]:
        to, block = self.sent[epoch, row, s_index]
        assert block.kind == Kind.DATA
        total = (block.arrays[0].sum(0),)
        return self.give(RESULT, to, Block(Kind.RESULT, block.epoch, block.key, block.items, total, None, block.meta))

    def questions(self) -> list[tuple[WorkerId, list[Any]]]:
        asked = self.port.sent_on(FEEDBACK)
        self.port.sent = [entry for entry in self.port.sent if entry[0] != FEEDBACK]
        return [(to, block.meta["pieces"]) for to, block in asked if block.kind == Kind.RESEND]

    def hand_out(self, worker: WorkerId, pieces: list[Any]) -> list[Block | WholeRow]:
        port, ask = self.ports[worker], Block(Kind.RESEND, self.sink.current, meta={"pieces": pieces})
        port.sent.clear()
        self.shelves[worker].on_receive(port, FEEDBACK, sink(), ask)
        return [entry for _, block in port.sent_on(RESULT) for entry in self.give(RESULT, worker, block)]


def test_lazy_processors_send_results_only_and_drop_what_is_committed() -> None:
    job = LazyEpochs([3] * 8)
    assert not any(port.sent for port in job.ports.values()), "neither items nor parity travel on"
    for worker, shelf in job.shelves.items():
        shelf.on_commit(job.ports[worker], 0, Epoch(1))
        assert not shelf.shelf._blocks
    job.end()
    for _, row, s_index in job.sent:
        if s_index < K:
            job.answer(row, s_index)
    assert closed(job.ready) == [1] and not job.questions()


@pytest.mark.parametrize("lost", [(0,), (3,), (0, 1), (1, 3), (2, 3)])
def test_a_lazy_sink_asks_the_living_for_k_pieces(lost: tuple[int, ...]) -> None:
    job = LazyEpochs([3, 3, 3, 1])
    job.end()
    for i in set(range(K)) - set(lost):
        job.answer(0, i)
    for i in lost:
        job.kill(job.holder(0, i))
    questions = job.questions()
    holders = {job.holder(0, s): s for s in range(K + R)}
    assert all(pieces == [(0, holders[worker])] for worker, pieces in questions)
    latest = {worker: pieces for worker, pieces in questions if holders[worker] not in lost}
    assert len(latest) == K, "k of those that live, each asked once"
    ready = [entry for worker, pieces in latest.items() for entry in job.hand_out(worker, pieces)]
    assert sorted(decoded(ready)) == list(lost) and closed(ready) == [1]
    for i, array in decoded(ready).items():
        assert np.array_equal(array, job.sent[1, 0, i][1].arrays[0])


def test_a_question_that_a_full_link_does_not_take_is_asked_again() -> None:
    """Nothing else need come that would have the row looked at."""
    job = LazyEpochs([3] * 4)
    job.end()
    for i in (1, 2, 3):
        job.answer(0, i)
    job.port.rooms = dict.fromkeys(job.port.rooms, 0)
    job.kill(job.holder(0, 0))
    job.sink.flush(job.port)
    assert not job.questions()
    job.port.rooms = dict.fromkeys(job.port.rooms, 64)
    job.sink.flush(job.port)
    questions = job.questions()
    assert len(questions) == K
    ready = [entry for worker, pieces in questions for entry in job.hand_out(worker, pieces)]
    assert list(decoded(ready)) == [0] and closed(ready) == [1]
    job.sink.flush(job.port)
    assert not job.questions()


def test_a_question_to_the_source_waits_for_room_and_is_asked_once() -> None:
    """More died than parity makes up for, and nothing else need come."""
    job = Epochs([3] * 4)
    job.end()
    job.port.rooms[source()] = 0
    for i in range(R + 1):
        job.kill(job.holder(0, i))
    sent = []
    for room in (0, 1, 1):
        job.port.rooms[source()] = room
        job.sink.flush(job.port)
        sent.append([block.meta["pieces"] for _, block in job.port.sent_on(COMMIT) if block.kind == Kind.RESEND])
    assert not sent[0] and sent[1][:1] == [[(0, 0), (0, 1), (0, 2)]] and sent[2][:2] == sent[1]


def test_a_question_that_waits_dies_with_its_source() -> None:
    job = Epochs([3] * 4)
    job.end()
    job.port.rooms[source()] = 0
    for i in range(R + 1):
        job.kill(job.holder(0, i))
    job.kill(source())
    job.port.restart(source())
    job.port.rooms[source()] = 64
    job.sink.flush(job.port)
    assert not [block for _, block in job.port.sent_on(COMMIT) if block.kind == Kind.RESEND], "it deals all anew"


def test_another_is_asked_when_one_that_was_asked_dies() -> None:
    job = LazyEpochs([3] * 4)
    job.end()
    for i in (1, 2, 3):
        job.answer(0, i)
    job.kill(job.holder(0, 0))
    asked = dict(job.questions())
    victim = next(worker for worker in asked if job.holder(0, 1) == worker)
    job.kill(victim)
    more = dict(job.questions())
    assert len(more) == 1 and not set(more) & set(asked), "the piece that nobody was asked for yet"
    ready = []
    for worker, pieces in {**asked, **more}.items():
        if worker != victim:
            ready += job.hand_out(worker, pieces)
    assert list(decoded(ready)) == [0] and closed(ready) == [1]


def test_a_lazy_sink_asks_the_source_beyond_r_deaths() -> None:
    job = LazyEpochs([3] * 4)
    job.end()
    for i in (0, 1, 2):
        job.kill(job.holder(0, i))
    asks = [block.meta["pieces"] for _, block in job.port.sent_on(job.sink.layout.commit) if block.kind == Kind.RESEND]
    assert asks == [[(0, 0), (0, 1), (0, 2)]]


def test_a_piece_that_is_asked_for_too_early_is_sent_when_it_comes() -> None:
    shelf, port = make_processor(layout_of(processor(0)), LAZY), FakePort(layout_of(processor(0)))
    job = Epochs([3] * 4, LAZY)
    (s_index,) = [s for s in range(K + R) if job.holder(0, s) == processor(0)]
    ask = Block(Kind.RESEND, Epoch(1), meta={"pieces": [(0, s_index)]})
    shelf.on_receive(port, FEEDBACK, sink(), ask)
    assert not port.sent
    block = job.sent[1, 0, s_index][1]
    shelf.on_receive(port, DATA, source(), block)
    assert [sent for _, sent in port.sent_on(RESULT)] == [block]


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


def test_an_avoided_worker_still_holds_the_parity_of_every_row() -> None:
    layout = layout_of(source())
    port = FakePort(layout)
    scheme = StripingSource(layout, {"k": 5, "r": 1, "code": "xor"})
    scheme.on_receive(port, COMMIT, sink(), Block(Kind.ACK, Epoch(0), meta={"avoided": [str(processor(2))]}))
    assert scheme.on_open(port, Epoch(1), 20)
    for _ in range(20):
        scheme.on_emit(port, Block(Kind.DATA, Epoch(1), items=3, arrays=(items(3),)))
    scheme.on_epoch(port, Epoch(1))
    kinds = {to: {block.kind for at, block in port.sent_on(DATA) if at == to} for to in layout.processors}
    assert kinds.pop(processor(2)) == {Kind.PARITY}, "so a death among the others costs no pause"
    assert set(map(frozenset, kinds.values())) == {frozenset({Kind.DATA})}
    (end,) = [block.meta for _, block in port.sent_on(PUNCTUATION)]
    assert end["active"] == 5 and list(end["participants"])[-1] == str(processor(2))


@pytest.mark.parametrize(("code", "spreads"), [("stable", True), ("gf256", False)])
def test_what_is_not_finite_spreads_under_real_codes_and_is_reported(code: str, spreads: bool) -> None:
    job = Epochs([3] * 4, OPTIONS | {"code": code})
    for (_, _, s_index), (_, block) in job.sent.items():
        if s_index != 0:
            block.arrays[0].flags.writeable = True
            block.arrays[0][1, 0] = np.nan if s_index == 2 else block.arrays[0][1, 0]
    job.end()
    for s_index in range(1, K + R):
        job.answer(0, s_index)
    job.kill(job.holder(0, 0))
    (found,) = decoded(job.ready).values()
    assert np.isnan(found[1, 0]) == spreads and np.isfinite(np.delete(found, 1, axis=0)).all()
    told = [fields for event, fields in job.port.reports if event == "decoded_not_finite"]
    assert [fields["s_indexes"] for fields in told] == ([[0]] if spreads else [])
