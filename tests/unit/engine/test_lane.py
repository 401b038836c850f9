"""A tentative lane by itself: exact and tentative blocks of the same link, in the orders in which they may come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dataflow_parts import DataflowPort, chain, layout_of, no_files

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.clock import CLOCK
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import on_our_clock
from riprap.engine.flow.progress import At, TaskProgress
from riprap.engine.schemes.parts.lane import Closed, Inflow, Lane
from riprap.engine.schemes.parts.lane_outlet import LaneOutlet
from riprap.operators.dataflow import DataflowOperator, Emitter, Items

A, B = (0, 0), (0, 1)
TOPOLOGY = chain(("a", 2), ("b", 1), ("c", 1), scheme="partially_active")


class Sum(DataflowOperator):
    """Adds up the values of all items, and hands the sum on with each window."""

    def __init__(self) -> None:
        self.sum = 0

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.sum += int(items.arrays[0].sum())
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        out.send((np.array([self.sum]),), 1)


def lane(**sent: int) -> Lane:
    """The lane of b.0 between a.0 and a.1, both of which have closed window 4 with their block 8."""
    progress = TaskProgress(epoch=4, sent={(1, 0): At(sent.get("number", 0), 0)})
    layout = layout_of(TOPOLOGY, "b.0")
    port = DataflowPort(layout, 64)
    inflows = {link: Inflow("a", f"a.{link[1]}", 8, 4) for link in (A, B)}
    return Lane(port, Sum(), LaneOutlet(layout, port, progress, no_files()), inflows)


def exact(number: int, window: int, value: int) -> Block:
    return Block(Kind.DATA, Epoch(window), Key(0, 0, number, 0), 1, (np.array([value]),))


def end(number: int, window: int, items: int = 1) -> Block:
    meta: dict[str, Any] = {"items": items, "last": False, "opened_at": 0.0}
    return Block(Kind.PUNCTUATION, Epoch(window), Key(0, 0, number, 0), meta=meta)


def tentative(window: int, value: int, after: int = 0) -> Block:
    return Block(Kind.TENTATIVE, Epoch(window), items=1, arrays=(np.array([value]),), meta={"after": after})


def tentative_end(window: int, after: int = 0, items: int = 1) -> Block:
    meta = {"items": items, "last": False, "opened_at": 0.0, "after": after, "absent": ["z.0"]}
    return Block(Kind.TENTATIVE, Epoch(window), meta=meta)


def closed(of: Lane) -> list[tuple[int, int, int, list[str]]]:
    """Of each window that closes now: its number, the sum handed on, its items and the absent."""
    found = []
    while (done := of.step()) is not None:
        if isinstance(done, Closed):
            (value,) = done.blocks[0][1].arrays[0].tolist()
            found.append((int(done.boundary.epoch), value, done.boundary.items, done.absent))
    return found


def test_the_window_of_an_absent_link_counts_as_closed() -> None:
    one = lane()
    one.inflows[A].is_absent = True
    one.inflows[B].waiting.extend([exact(9, 5, 1), end(10, 5), exact(11, 6, 2), end(12, 6)])
    assert closed(one) == [(5, 1, 1, ["a.0"]), (6, 3, 1, ["a.0"])]


def test_it_waits_for_who_is_there_and_closes_nothing_alone() -> None:
    one = lane()
    one.inflows[B].waiting.extend([exact(9, 5, 1), end(10, 5)])
    assert closed(one) == []
    one.inflows[A].is_absent = one.inflows[B].is_absent = True
    assert [window for window, *_ in closed(one)] == [5], "what came before both were lost"
    assert one.is_deserted and closed(one) == []


def test_tentative_items_go_on_behind_the_exact_ones() -> None:
    one = lane()
    one.inflows[A].waiting.extend([exact(9, 5, 10), tentative(5, 100, after=9), tentative_end(5, after=9, items=2)])
    one.inflows[B].waiting.extend([end(9, 5, 0)])
    assert closed(one) == [(5, 110, 2, ["z.0"])]


def test_the_clock_of_another_host_is_left_out_of_the_latency_of_a_tentative_window() -> None:
    one = lane()
    shown = tentative_end(5)
    shown.meta.update({"opened_at": 1e6, "opened_ago": 2.5, "clock": CLOCK + 1})
    assert isinstance(one.port, DataflowPort)
    one.port.clock = 100.0
    on_our_clock(shown, one.port.now())
    one.inflows[A].waiting.append(shown)
    one.inflows[B].is_absent = True
    assert isinstance(one.step(), Block)
    done = one.step()
    assert isinstance(done, Closed) and done.latency_s == 2.5


def test_exact_items_of_a_window_that_was_taken_tentatively_come_too_late() -> None:
    one = lane()
    one.inflows[A].waiting.extend([tentative(5, 100), exact(9, 5, 10), tentative_end(5), exact(10, 5, 10), end(11, 5)])
    one.inflows[A].waiting.extend([exact(12, 6, 7), end(13, 6)])
    one.inflows[B].waiting.extend([end(9, 5, 0), end(10, 6, 0)])
    assert closed(one) == [(5, 100, 1, ["z.0"]), (6, 107, 1, [])]


def test_tentative_items_that_are_here_exactly_are_not_taken() -> None:
    """A sender that started again may show a window of which it had sent more before."""
    one = lane()
    one.inflows[A].waiting.extend([exact(9, 5, 10), exact(10, 5, 20), tentative(5, 100, after=9), tentative_end(5, 9)])
    one.inflows[B].waiting.extend([end(9, 5, 0)])
    assert closed(one) == [(5, 30, 1, ["z.0"])]


def test_what_comes_once_more_counts_once() -> None:
    one = lane()
    one.inflows[A].waiting.extend([exact(9, 5, 10), exact(8, 4, 5), exact(9, 5, 10), exact(10, 5, 20), end(11, 5)])
    one.inflows[B].waiting.extend([end(9, 5, 0)])
    assert closed(one) == [(5, 30, 1, [])]


def test_a_link_that_has_gone_on_to_a_later_window_owes_no_earlier_one() -> None:
    one = lane()
    one.inflows[A].waiting.extend([tentative(6, 100), tentative_end(6)])
    one.inflows[B].waiting.extend([exact(9, 5, 1), end(10, 5), exact(11, 6, 2), end(12, 6)])
    assert closed(one) == [(5, 1, 1, ["a.0"]), (6, 103, 2, ["z.0"])]


@pytest.mark.parametrize(("window", "after"), [(0, 7), (1, 0)])
def test_its_first_window_goes_on_behind_what_was_put_out(window: int, after: int) -> None:
    one = lane(number=7)
    one.inflows[A].is_absent = True
    one.inflows[B].waiting.extend([end(9, 5), end(10, 6)])
    windows = [done for done in iter(one.step, None) if isinstance(done, Closed)]
    assert {block.meta["after"] for _, block in windows[window].blocks} == {after}
    assert all(block.kind == Kind.TENTATIVE for _, block in windows[window].blocks)
