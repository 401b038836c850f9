"""Scheme `approximate` on a port that records: what it acknowledges and saves, and when (AF 3.4, 3.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from dataflow_parts import DataflowPort, chain, data, layout_of, no_files, topology

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.progress import INPUT, WINDOW, Heard, TaskProgress, link_key
from riprap.engine.flow.scheme import Bench
from riprap.engine.schemes.approximate import MUCH_BYTES, PATIENCE_S, SAVE_EVERY_S, Approximate
from riprap.engine.schemes.parts import copies
from riprap.engine.schemes.parts.copies import PARTS_MAX, RECORD_BYTES
from riprap.engine.schemes.parts.pacing import RECORD_S
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.states import Number

IN = (0, 0)
OPTIONS = {"theta": 200.0, "l": 20.0, "gamma": 20.0, "beta": 1.0, "window": "none", "window_epochs": 1}
"""Of the one task in the middle: theta 100, l 10, gamma 10."""
PAUSE_S = RECORD_S / 0.01
"""From one backup to the next, when making it takes no time."""


class Sum(DataflowOperator):
    """Adds up; notes what it was told when it was restored."""

    def __init__(self) -> None:
        self.state: Number = Number()
        self.lacks: list[tuple[float, float]] = []

    def recovered(self, theta: float, items: float) -> None:
        self.lacks.append((theta, items))


def loop(**consistency: Any) -> Topology:
    """A source a and a destination b that feeds back."""
    back = {"from": "b", "to": "a", "feedback": True} | consistency
    return topology({"a": 1, "b": 1}, [{"from": "a", "to": "b"}, back])


class Table:
    """A task's parts with the scheme on them; the test does what the task would."""

    def __init__(self, of: Topology | None = None, me: str = "b.0", has_state: bool = True, **options: Any) -> None:
        self.layout = layout_of(of or chain(("a", 1), ("b", 1), ("c", 2)), me)
        self.port, self.progress, self.operator = DataflowPort(self.layout), TaskProgress(), Sum()
        self.has_state = has_state
        if not has_state:
            del self.operator.state
        self.outlet = Outlet(self.layout, self.port, self.progress, no_files())
        self.inbox: list[Entry] = []
        self.options = options
        bench = Bench(self.layout, self.port, self.operator, self.progress, self.outlet, self.inbox, 100)
        self.scheme = self.outlet.scheme = Approximate(bench, OPTIONS | options)
        for link in self.outlet.links.values():
            self.outlet.place(link, Heard())

    def receive(self, items: int = 1, kind: Kind = Kind.DATA, **meta: Any) -> Entry:
        """A block comes on the first edge that ends here."""
        self.progress.received += 1
        number, joint = self.progress.received, self.layout.inputs[0]
        block = data(number, 0, items)
        block.kind, block.seq = kind, number
        block.meta |= meta
        sender = joint.workers[0]
        link, life = link_key(joint.edge, sender), self.port.incarnation(sender)
        entry = Entry(number, link, block, joint.edge, sender, block.seq, life)
        self.inbox.append(entry)
        self.scheme.on_receive(entry)
        return entry

    def process(self, by: float = 0.0, entry: Entry | None = None) -> Entry:
        """The oldest block, or feedback, is processed and changes the state by so much; what comes of it has left."""
        entry = entry or self.inbox.pop(0)
        assert self.scheme.may_process(entry)
        if self.has_state:
            self.operator.state.add(np.array([by]))
        if entry.block.kind != Kind.FEEDBACK:
            self.progress.included = entry.number
        if self.has_state and self.operator.state.exceeded:
            self.scheme.on_crossed()
        self.scheme.on_processed(entry)
        self.scheme.on_left()
        return entry

    def read(self, by: float = 0.0) -> None:
        """A block of the input is processed, which changes the state by so much."""
        self.progress.received += 1
        number = self.progress.received
        self.inbox.append(Entry(number, INPUT, Block(Kind.DATA, Epoch(1), Key(0, 0, number, 0), 1)))
        self.process(by)

    def acknowledged(self) -> list[int]:
        """The numbers acknowledged to the sender."""
        return [seq for _, _, seq in self.port.acked]

    def saved(self) -> list[str]:
        """What each record is: "state" or "progress" (whole or in part), "output", or "block"."""
        return [meta.get("what", "block") for _, _, meta, _ in self.port.saved]

    def kept(self) -> int:
        """The number of records that servers keep: the newest whole one, and all behind it."""
        return [kind for kind, *_ in reversed(self.port.saved)].index("state") + 1

    def make_durable(self, seconds: float = 1.0) -> None:
        """All that was saved is durable, and some time has passed."""
        self.port.clock += seconds
        self.scheme.on_durable(len(self.port.saved))

    def send(self, items: int, to: int = 0) -> None:
        """The operator puts out a block, and what may leave leaves."""
        self.outlet.begin(Epoch(1), IN, self.progress.received + 1)
        self.progress.received += 1
        self.outlet.send((np.zeros(items),), items, to=to)
        self.outlet.flush()

    def life_after(self) -> Table:
        """The next life, restored from everything saved so far, in this life and those before."""
        states, items = [], []
        for kind, epoch, meta, arrays in self.port.saved:
            record = Block(Kind.DATA, epoch, arrays=arrays, meta=meta)
            (states if kind == "state" else items).append(record)
        least = states[-1].epoch if states else 0
        table = Table(has_state=self.has_state, **self.options)
        newer = [record for record in items if record.epoch > least]
        table.replayed = table.scheme.restore(states[-1] if states else None, newer)
        table.port.saved[:0] = self.port.saved
        return table

    replayed: Sequence[Entry] = ()


def test_items_are_acknowledged_on_receipt_until_l_of_them_wait() -> None:
    table = Table()
    for _ in range(4):
        table.receive(3)
    assert table.acknowledged() == [1, 2, 3], "9 items wait unsaved; a fourth block would make it 12"
    assert not table.port.saved
    table.receive(1)
    assert table.acknowledged() == [1, 2, 3], "never ahead of one that is kept: a number covers all before it"
    for _ in range(4):
        table.process()
    assert table.acknowledged() == [1, 2, 3, 4], "processed, within theta"
    table.receive(3)
    assert table.acknowledged() == [1, 2, 3, 4], "the fifth still waits"
    table.process()
    table.process()
    assert table.acknowledged() == [1, 2, 3, 4, 5, 6]


def test_when_the_sender_presses_all_that_wait_are_saved_and_acknowledged_once_durable() -> None:
    table = Table()
    table.receive(8)
    table.receive(8)
    assert table.acknowledged() == [1]
    table.receive(1, urgent=True)
    table.scheme.on_alarm()
    assert table.saved() == ["block"] * 3 and table.acknowledged() == [1], "saved, not durable yet"
    table.make_durable()
    assert table.acknowledged() == [1, 2, 3]
    table.receive(8)
    assert table.acknowledged()[-1] == 4, "what is saved does not count as exposed"


def test_an_infinite_theta_demands_no_backup() -> None:
    """However far the state goes, what was processed is acknowledged; L and Gamma still hold."""
    table = Table(theta=math.inf)
    for _ in range(20):
        table.receive(11)
        table.process(by=1e12)
    assert table.acknowledged() == list(range(1, 21)) and not table.port.saved
    table.receive(11)
    assert len(table.acknowledged()) == 20, "more than l"


def test_what_the_store_refuses_is_saved_when_it_has_room() -> None:
    table = Table()
    table.receive(11)
    table.port.full = True
    table.receive(11, urgent=True)
    assert not table.port.saved and not table.acknowledged()
    table.port.full = False
    table.make_durable()
    assert table.saved() == ["block"] * 2 and not table.acknowledged()
    table.make_durable()
    assert table.acknowledged() == [1, 2]


def test_a_backup_begins_at_half_of_theta_and_nobody_waits_for_it() -> None:
    table = Table()
    table.receive(20)
    table.process(by=40.0)
    assert not table.port.saved and table.acknowledged() == [1]
    table.receive(20)
    table.process(by=11.0)
    assert table.saved() == ["state"] and table.acknowledged() == [1, 2], "51 from what is durable: within theta"
    assert not table.scheme.safe
    table.make_durable()
    assert table.scheme.safe


def test_beyond_theta_input_is_acknowledged_when_a_durable_state_includes_it() -> None:
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    table.receive(20)
    table.process(by=60.0)
    assert table.saved() == ["state"] and table.acknowledged() == [1], "120 from what is durable"
    table.receive(1)
    assert table.acknowledged() == [1], "no early acknowledgement beyond theta"
    table.make_durable()
    assert 2 in table.acknowledged(), "the first 60 are durable, so the divergence is 60 again"
    assert table.operator.state.state_divergence() <= 100.0


def test_kernels_stop_at_the_item_only_when_theta_is_near() -> None:
    table, thetas = Table(), []
    for by in (10.0, 20.0, 10.0, 0.0):
        entry = table.receive(20)
        table.scheme.may_process(entry)
        thetas.append(table.operator.state.theta)
        table.process(by=by)
    assert thetas == [math.inf, math.inf, 50.0, 50.0], "beyond half of what starts a backup"
    assert table.acknowledged() == [1, 2, 3, 4] and not table.port.saved


def test_a_block_that_leaps_over_theta_from_afar_is_saved_and_acknowledged_when_durable() -> None:
    table = Table()
    table.receive(20)
    table.process(by=500.0)
    assert table.saved() == ["state"] and not table.acknowledged()
    table.make_durable()
    assert table.acknowledged() == [1]


def test_backups_of_the_state_have_pauses_between_them() -> None:
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    table.make_durable(seconds=PAUSE_S / 2)
    table.receive(20)
    table.process(by=60.0)
    assert table.saved() == ["state"], "too soon"
    table.port.clock += PAUSE_S
    table.receive(20)
    table.process(by=1.0)
    assert table.saved() == ["state"] * 2


def test_a_backup_that_a_sender_waits_for_has_no_pause_before_it() -> None:
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    table.make_durable(seconds=0.0)
    for _ in range(table.scheme.window.blocks // 2):
        table.receive(20)
    table.process(by=150.0)
    assert table.saved() == ["state"], "what waits to be processed waits for no backup"
    for _ in range(table.scheme.window.blocks // 2 - 1):
        table.process(by=1.0)
        table.receive(20)
    assert table.saved() == ["state"], "half of its window is still there"
    table.process(by=1.0)
    assert table.saved() == ["state"] * 2


def test_large_blocks_fill_a_window_before_many_do() -> None:
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    table.make_durable(seconds=0.0)
    table.receive(20).block.arrays = (np.zeros(int(table.scheme.window.nbytes) // 16 + 1),)
    table.process(by=150.0)
    assert table.saved() == ["state"] * 2


def test_punctuation_that_a_sender_waits_for_costs_no_state_that_has_hardly_changed() -> None:
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    table.make_durable(seconds=0.0)
    table.receive(0, Kind.PUNCTUATION)
    table.process()
    table.scheme.on_window(1)
    for _ in range(table.scheme.window.blocks // 2):
        table.receive(20)
        table.process(by=0.01)
    assert table.saved() == ["state", "progress"] and table.acknowledged() == [1], "made, not durable yet"
    table.make_durable(seconds=0.0)
    assert table.acknowledged() == list(range(1, table.scheme.window.blocks // 2 + 3))
    life = table.life_after()
    assert life.progress.included == 1, "the state is the one of before"
    table.receive(20)
    table.process(by=60.0)
    assert table.saved()[2:] == [], "the pause of the state's own backup is not over"


def test_punctuation_is_acknowledged_when_a_durable_state_includes_it() -> None:
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    table.make_durable(seconds=0.0)
    table.receive(0, Kind.PUNCTUATION)
    table.process()
    table.scheme.on_window(1)
    table.receive(20)
    table.process(by=1.0)
    assert table.saved() == ["state"] and table.acknowledged() == [1], "what follows it waits with it"
    table.port.clock += table.port.alarms[-1]
    table.scheme.on_alarm()
    assert table.saved() == ["state", "progress"] and table.acknowledged() == [1], "made, not durable yet"
    table.make_durable()
    assert table.acknowledged() == [1, 2, 3]


def test_many_windows_cost_one_backup() -> None:
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    for epoch in range(1, 30):
        table.make_durable(seconds=PAUSE_S / 40)
        table.receive(0, Kind.PUNCTUATION)
        table.process()
        table.scheme.on_window(epoch)
    assert len(table.port.saved) == 1 and table.acknowledged() == [1]
    table.make_durable(seconds=PAUSE_S)
    table.make_durable()
    assert len(table.port.saved) == 2 and table.acknowledged() == list(range(1, 31))


@pytest.mark.parametrize("urgent", [False, True])
@pytest.mark.parametrize("has_state", [False, True])
def test_what_is_kept_is_bounded_though_the_state_hardly_changes(urgent: bool, has_state: bool) -> None:
    """Progress, and blocks where the sender presses; a state that never comes near theta releases them nevertheless."""
    table = Table(has_state=has_state)
    for epoch in range(1, 4 * PARTS_MAX):
        table.receive(1000, urgent=urgent)
        table.process()
        table.receive(0, Kind.PUNCTUATION, urgent=urgent)
        table.process()
        table.scheme.on_window(epoch)
        table.scheme.on_alarm()
        table.make_durable(seconds=2 * PAUSE_S)
    assert table.kept() <= 2 * PARTS_MAX < len(table.port.saved)
    assert table.life_after().progress.received >= 4 * PARTS_MAX


@pytest.mark.parametrize("items", [0, 1])
@pytest.mark.parametrize("has_state", [False, True])
def test_blocks_that_hold_next_to_nothing_are_released_too(
    has_state: bool, items: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one window, where no progress is saved between them."""
    monkeypatch.setattr(copies, "PARTS_BYTES", 100 * RECORD_BYTES)
    table = Table(has_state=has_state, l=0.0)
    for _ in range(400):
        table.receive(items, Kind.DATA if items else Kind.PUNCTUATION, urgent=True)
        table.process()
        table.make_durable(seconds=2 * PAUSE_S)
    assert table.kept() <= 150 and table.saved().count("block") > 350
    assert table.life_after().progress.received == 400


def test_what_is_put_out_at_the_end_of_a_window_is_acknowledged_like_punctuation() -> None:
    table = Table()
    table.receive(1, cause=[*WINDOW, 1, 0])
    table.process()
    assert table.saved() == ["state"] and not table.acknowledged(), "progress alone is worth nothing before that"
    table.make_durable()
    assert table.acknowledged() == [1]
    table.receive(1, cause=[*WINDOW, 2, 0])
    table.process()
    assert table.saved() == ["state", "progress"] and table.acknowledged() == [1]
    table.make_durable()
    assert table.acknowledged() == [1, 2]


def test_a_state_that_was_emptied_is_not_taken_for_one_that_is_close_to_its_backup() -> None:
    """Its divergence counts from empty now; what came before may be further from what is durable than theta."""
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    table.make_durable(seconds=0.0)
    table.receive(20)
    table.process(by=150.0)
    table.operator.state.clear()
    table.scheme.on_window(1)
    table.scheme.on_alarm()
    assert table.saved() == ["state"] and table.acknowledged() == [1]
    table.port.clock += table.port.alarms[-1]
    table.scheme.on_alarm()
    assert table.acknowledged() == [1], "the state under way is not durable"
    table.make_durable()
    assert table.acknowledged() == [1, 2]


def test_feedback_that_nobody_waits_for_is_acknowledged_at_once() -> None:
    """So it costs no backup of the source; that which windows wait for is kept until one includes it (AF 5)."""
    asp, bsp = (Table(loop(consistency=consistency), "a.0") for consistency in ("asp", "bsp"))
    for table in (asp, bsp):
        table.read()
        table.make_durable(seconds=2 * SAVE_EVERY_S)
        table.receive(1, Kind.FEEDBACK, cause=[*WINDOW, 1, 0])
    assert asp.acknowledged() == [2] and not bsp.acknowledged()
    for table in (asp, bsp):
        table.process()
        table.make_durable()
        table.make_durable()
    assert bsp.acknowledged() == [2] and len(bsp.port.saved) == len(asp.port.saved) + 1


def test_feedback_that_overtakes_what_came_before_it_is_covered_by_the_next_backup() -> None:
    """By its turn, not by its number: else a source that has read its input to the end would be saved for ever."""
    table = Table(loop(consistency="bsp"), "a.0")
    table.read()
    table.make_durable(seconds=2 * SAVE_EVERY_S)
    table.progress.received = 9
    table.receive(1, Kind.FEEDBACK, cause=[*WINDOW, 1, 0])
    table.process()
    for _ in range(5):
        table.make_durable()
    assert table.acknowledged() == [10] and len(table.port.saved) == 3


def test_a_source_is_saved_by_a_timer_whatever_its_state_does() -> None:
    table = Table(loop(), "a.0")
    table.read(by=1000.0)
    table.make_durable(seconds=SAVE_EVERY_S - 0.01)
    for epoch in range(1, 10):
        table.read(by=1000.0)
        table.scheme.on_window(epoch)
    assert table.saved() == ["state"]
    table.port.clock += 0.02
    table.read()
    assert table.saved() == ["state"] * 2


def test_a_sources_backup_waits_while_much_of_its_output_has_not_arrived() -> None:
    table = Table(loop(), "a.0")
    table.read()
    table.make_durable(seconds=2 * SAVE_EVERY_S)
    table.send(MUCH_BYTES // 8 + 1)
    table.read()
    assert table.saved() == ["state"], "it would hold all of that"
    table.port.receive_ack(table.layout.outputs[0].edge, WorkerId("b", 0))
    table.port.clock += SAVE_EVERY_S / 10
    table.read()
    assert table.saved() == ["state"] * 2
    table.send(MUCH_BYTES // 8 + 1)
    table.make_durable(seconds=10 * (SAVE_EVERY_S + PATIENCE_S))
    table.read()
    assert table.saved() == ["state"] * 3, "not for ever"


def test_at_most_gamma_items_are_on_the_way_and_the_sender_presses_beyond_half() -> None:
    table = Table()
    for _ in range(4):
        table.send(3)
    sent = [block for _, _, block in table.port.sent]
    assert len(sent) == 3 and table.outlet.blocked, "9 of gamma's 10"
    assert [block.meta.get("urgent", False) for block in sent] == [False, True, True]
    edge, to = table.layout.outputs[0].edge, WorkerId("c", 0)
    table.port.receive_ack(edge, to)
    table.outlet.flush()
    assert len(table.port.sent) == 4 and not table.outlet.blocked


def test_the_bound_is_for_all_receivers_together() -> None:
    table = Table()
    table.send(6, to=0)
    table.send(6, to=1)
    assert len(table.port.sent) == 1 and table.outlet.blocked


def test_a_block_larger_than_gamma_leaves_alone_once_it_is_durable() -> None:
    table = Table()
    table.send(3)
    table.send(11)
    assert len(table.port.sent) == 1 and not table.port.saved, "not before the others are acknowledged"
    table.port.receive_ack(table.layout.outputs[0].edge, WorkerId("c", 0))
    table.outlet.flush()
    assert table.saved() == ["state"] and len(table.port.sent) == 1, "progress before any state is worth nothing"
    table.make_durable()
    table.outlet.flush()
    assert len(table.port.sent) == 2 and not table.outlet.blocked


def test_a_first_state_that_is_saved_for_such_a_block_is_not_taken_for_durable() -> None:
    table = Table()
    table.receive(20)
    table.process(by=49.0)
    table.send(11)
    assert table.saved() == ["state"] and table.acknowledged() == [1]
    table.receive(20)
    table.process(by=99.0)
    assert table.acknowledged() == [1], "148 from what is durable, which is nothing"
    table.make_durable()
    assert table.acknowledged() == [1, 3]


def test_blocks_larger_than_gamma_to_two_receivers_leave() -> None:
    table = Table()
    table.outlet.begin(Epoch(1), IN, 1)
    for to in (0, 1):
        table.outlet.send((np.zeros(11),), 11, to=to)
    for _ in range(10):
        table.outlet.flush()
        table.make_durable()
    assert table.port.sent, f"{len(table.port.saved)} records were saved and nothing has left"


def test_a_new_life_has_the_state_the_progress_and_half_of_the_thresholds() -> None:
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    table.make_durable()
    after = table.life_after()
    assert after.operator.state.value == 60.0 and after.progress.included == 1 and after.progress.failures == [0]
    assert after.operator.lacks == [(100.0, 10)], "what it may lack: the limits of its former life"
    assert after.scheme.limits == (0.0, 0, 0, 0.0), "it loses nothing before it is known that it failed"
    after.make_durable()
    assert after.scheme.limits == (50.0, 5.0, 5.0, 0.25)


@pytest.mark.parametrize("threshold", ["theta", "l"])
def test_without_a_threshold_a_new_life_knows_no_bound(threshold: str) -> None:
    table = Table(**{threshold: math.inf})
    table.receive(20)
    table.process(by=60.0)
    table.make_durable()
    lacks = {"theta": (math.inf, 10), "l": (100.0, math.inf)}[threshold]
    assert table.life_after().operator.lacks == [lacks]


def test_a_new_life_replays_the_latest_run_and_all_punctuation() -> None:
    table = Table()
    table.receive(0, Kind.PUNCTUATION)
    table.receive(11)
    table.receive(11, urgent=True)
    table.inbox.clear()
    after = table.life_after()
    assert [entry.number for entry in after.replayed] == [1, 2, 3]
    assert after.progress.received == 3


def test_what_was_put_out_of_a_cause_that_the_state_lacks_leaves_once() -> None:
    """Progress was saved alone with the output, and the sender sends the cause again."""
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    table.make_durable()
    table.send(11)
    assert table.saved() == ["state", "output"]
    after = table.life_after()
    after.outlet.begin(Epoch(1), IN, table.progress.received)
    after.outlet.send((np.zeros(11),), 11, to=0)
    after.make_durable()
    after.outlet.flush()
    after.port.receive_ack(after.layout.outputs[0].edge, WorkerId("c", 0))
    for _ in range(2):
        after.outlet.flush()
        after.make_durable()
    assert len(after.port.sent) == 1 and not after.outlet.blocked


def test_each_failure_halves_the_thresholds_also_when_a_life_saved_nothing() -> None:
    table = Table()
    table.receive(20)
    table.process(by=60.0)
    table.make_durable()
    third = table.life_after().life_after()
    third.make_durable()
    assert third.scheme.limits == (25.0, 2.5, 2.5, 0.125)


def test_when_a_sender_dies_what_waits_is_saved_and_it_is_told_when_that_is_safe() -> None:
    table = Table()
    table.receive(11)
    assert not table.scheme.settled(IN)
    table.scheme.on_sender_lost(IN)
    assert "block" in table.saved() and not table.scheme.settled(IN)
    table.make_durable()
    assert table.scheme.settled(IN)
