"""What is acknowledged of sources that are ahead of each other."""

from __future__ import annotations

from dataflow_parts import DataflowPort, chain, data, layout_of

from riprap.codec.blocks import Kind
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.progress import link_key
from riprap.engine.flow.receipts import Receipts


class Desk:
    """The receipts of a task behind two tasks a.0 and a.1; `acked` says how far each is acknowledged."""

    def __init__(self, me: str = "b.0") -> None:
        self.layout = layout_of(chain(("a", 2), ("b", 2), ("c", 1)), me)
        self.port = DataflowPort(self.layout)
        self.receipts = Receipts(self.layout, self.port)
        self.last: dict[int, int] = {}

    def take(self, sender: int, end_of: int = 0, closed: int = 0) -> Entry:
        """The next block of a sender comes, a punctuation if it ends a window, and is acknowledged."""
        self.last[sender] = self.last.get(sender, 0) + 1
        joint = self.layout.inputs[0]
        worker = WorkerId(joint.stage, sender)
        block = data(self.last[sender], kind=Kind.PUNCTUATION if end_of else Kind.DATA, epoch=Epoch(end_of or 1))
        life = self.port.incarnation(worker)
        link = link_key(joint.edge, worker)
        entry = Entry(0, link, block, joint.edge, worker, Seq(self.last[sender]), life)
        self.receipts.note(entry, closed)
        self.receipts.acknowledge(entry)
        return entry

    def acked(self, sender: int) -> int:
        return max((seq for _, worker, seq in self.port.acked if worker.index == sender), default=0)


def test_a_source_is_acknowledged_up_to_the_end_of_the_first_open_window() -> None:
    desk = Desk()
    for end_of in (0, 0, 1, 0, 2, 0):
        desk.take(0, end_of)
    assert desk.acked(0) == 2, "its punctuation of window 1, number 3, is the first that is open"
    desk.take(1)
    assert desk.acked(1) == 1, "the other source goes on"
    desk.take(1, end_of=1)
    desk.receipts.close(Epoch(1))
    assert desk.acked(0) == 4 and desk.acked(1) == 2
    desk.take(1, end_of=2)
    desk.receipts.close(Epoch(2))
    assert desk.acked(0) == 6 and desk.acked(1) == 3, "nothing is withheld without an open window"


def test_a_window_that_a_former_life_has_closed_holds_nothing_back() -> None:
    """Nobody would close it again, and its source would wait for ever."""
    desk = Desk()
    for end_of in (0, 1, 0, 2, 0):
        desk.take(0, end_of, closed=1)
    assert desk.acked(0) == 3, "window 2 is open"


def test_operators_between_are_not_held_back() -> None:
    """What they have they got from sources that are."""
    desk = Desk("c.0")
    for end_of in (0, 1, 0, 2):
        desk.take(0, end_of)
    assert desk.acked(0) == 4


def test_a_new_life_of_a_source_is_not_measured_by_the_former_ones_numbers() -> None:
    desk = Desk()
    former = desk.take(0, end_of=1)
    desk.take(0)
    desk.port.renew(WorkerId("a", 0))
    count = len(desk.port.acked)
    desk.receipts.acknowledge(former)
    assert len(desk.port.acked) == count, "its connection is gone"
    desk.last[0] = 0
    desk.take(0)
    desk.take(0)
    assert desk.acked(0) == 2 and desk.port.incarnation(WorkerId("a", 0)) != Incarnation(0)
    desk.receipts.close(Epoch(1))
    assert desk.acked(0) == 2


def test_what_was_restored_has_nobody_who_waits() -> None:
    desk = Desk()
    desk.receipts.acknowledge(Entry(1, (0, 0), data(1)))
    assert not desk.port.acked
