"""How many blocks may wait for a task that takes its time."""

from __future__ import annotations

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.backlog import FIRST, LEAST, Backlog
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.entry import Entry

TARGET_S, MOST = 0.125, 256
EDGE = Edge(0, "a->b")


class Receiver:
    """A task with a clock; blocks of a.0 and a.1 come and are processed."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.backlog = Backlog(TARGET_S, MOST, lambda: self.clock)
        self.came = {0: 0, 1: 0}
        self.done = {0: 0, 1: 0}
        self.life = {0: 1, 1: 1}

    def entry(self, sender: int, seq: int) -> Entry:
        block, life = Block(Kind.DATA, Epoch(1)), Incarnation(self.life[sender])
        return Entry(0, (0, sender), block, EDGE, WorkerId("a", sender), Seq(seq), life)

    def take(self, blocks: int, sender: int = 0) -> list[int | None]:
        rooms = []
        for _ in range(blocks):
            self.came[sender] += 1
            rooms.append(self.backlog.came(self.entry(sender, self.came[sender])))
        return rooms

    def hurry(self) -> None:
        """A first block of each sender, so quickly that a whole window may come."""
        for sender in self.came:
            self.take(1, sender)
            assert self.process(1, TARGET_S / MOST / 2, sender) == 0

    def process(self, blocks: int, each_s: float, sender: int = 0) -> int | None:
        """So many blocks, each in so many seconds; what may come behind them."""
        room = None
        for _ in range(blocks):
            self.clock += each_s
            self.done[sender] += 1
            room = self.backlog.done(self.entry(sender, self.done[sender]))
        return room


def test_a_link_begins_with_little_and_has_all_its_window_if_it_is_quick() -> None:
    receiver = Receiver()
    assert receiver.take(3) == [FIRST, None, None]
    assert receiver.process(1, TARGET_S / 32) == 32
    assert receiver.process(1, TARGET_S / MOST / 2) == 32, "no block was timed"
    receiver.take(1)
    assert receiver.process(2, TARGET_S / MOST / 2) == 0, "all that the window takes"
    receiver.take(MOST)
    assert receiver.process(MOST, TARGET_S / MOST / 2) is None, "it is known"


def test_a_slow_one_has_what_is_processed_in_the_time() -> None:
    receiver = Receiver()
    receiver.hurry()
    receiver.take(10)
    assert receiver.process(1, 1 / 64) is None, "one block alone was quick enough"
    receiver.take(10)
    assert receiver.process(8, 1 / 64) is None, "the newest may still be processed in time"
    assert receiver.process(1, 1 / 64) == 8, "it is not: 64 a second, an eighth of a second"


def test_two_may_always_wait_and_room_comes_back_as_fast_as_the_task() -> None:
    receiver = Receiver()
    receiver.take(1)
    assert receiver.process(1, 10.0) == LEAST
    receiver.take(2)
    assert receiver.process(1, TARGET_S / 4) == 4
    assert receiver.process(1, TARGET_S / 4) == 4, "no block was timed"
    receiver.take(4)
    assert receiver.process(1, TARGET_S / MOST / 2) == 0, "all that the window takes"
    assert receiver.process(3, TARGET_S / MOST / 2) is None, "it is known"


def test_a_sender_that_is_slow_keeps_its_room() -> None:
    receiver = Receiver()
    receiver.take(1)
    assert receiver.process(1, 1.0) == LEAST
    for _ in range(3):
        receiver.take(1)
        receiver.process(1, TARGET_S / 64)
        receiver.clock += 1.0
    receiver.take(1)
    assert receiver.process(1, TARGET_S / 2) == 64, "one block that took longer, but not too long, takes nothing back"


def test_time_in_which_others_are_awaited_says_nothing() -> None:
    receiver = Receiver()
    receiver.hurry()
    receiver.take(2)
    receiver.clock += 5.0
    receiver.backlog.pause()
    assert receiver.process(2, TARGET_S) is None
    receiver.take(1)
    assert receiver.process(1, 1.0) == LEAST, "the next is timed again"


def test_links_are_timed_apart_and_begin_anew_with_their_senders() -> None:
    receiver = Receiver()
    receiver.take(4)
    receiver.take(1, sender=1)
    assert receiver.process(4, TARGET_S * 2) == LEAST
    assert receiver.process(1, 0.0, sender=1) == LEAST, "it waited as long"
    late = receiver.entry(0, 5)
    receiver.life[0] += 1
    receiver.came[0] = receiver.done[0] = 0
    receiver.take(1)
    assert receiver.backlog.done(late) is None, "of the connection before"
    assert receiver.process(1, TARGET_S / 2) == FIRST
