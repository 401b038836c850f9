"""Scheme `approximate` where failures are forgotten with the windows that they took from (AF 3.5.2)."""

from __future__ import annotations

from dataflow_parts import chain
from test_approximate import IN, PAUSE_S, Table

from riprap.codec.blocks import Kind


def test_what_a_state_lacks_follows_from_the_limits_of_the_window_of_the_failure() -> None:
    """Hopping windows forget the failure in window 0; the life that dies in window 3 had all of its theta again."""
    table = Table(window="hopping")
    for _ in range(2):
        table.receive(20)
        table.process(by=60.0)
        table.make_durable()
        assert table.saved()[-1] == "state"
        table = table.life_after()
        if len(table.progress.failures) == 1:
            table.progress.epoch = 3
            table.scheme.on_window(3)
            table.make_durable()
            table.receive(20)
            table.process(by=60.0)
            table.make_durable()
            assert table.scheme.limits.theta == 100.0
    assert table.operator.lacks == [(100.0, 10)]


def test_a_failure_counts_in_the_windows_that_its_senders_have_begun() -> None:
    """3.5.2: one sender has closed window 1 and goes on, the other has not. What a failure takes of window 2 is not
    forgotten when window 1 ends, as window 2 is the one that lacks it."""
    table = Table(chain(("a", 2), ("b", 1), ("c", 2)), window="hopping")
    end = table.receive(0, Kind.PUNCTUATION)
    table.process()
    table.progress.done_on(IN).note(end.block)
    table.make_durable(seconds=PAUSE_S)
    table.scheme.on_alarm()
    table.make_durable()
    table.receive(10)
    table.process(by=90.0)
    assert table.acknowledged() == [1, 2] and table.progress.epoch == 0, "of window 2, and nowhere but in the state"
    after = table.life_after()
    after.make_durable()
    after.progress.epoch = 1
    after.scheme.on_window(1)
    after.scheme.on_sender_lost(IN)
    after.receive(10)
    after.process(by=90.0)
    after.make_durable(seconds=PAUSE_S)
    after.make_durable()
    assert after.scheme.limits.theta == 50.0, "90 of window 2 are gone, another 100 may not be"


def test_thresholds_are_raised_for_a_window_that_is_durably_closed() -> None:
    """3.5.2: a life that ends before that goes on from the window before, and has failed in that one. It may not have
    lost more than is left of it there, and what it says of its loss is a bound."""
    table = Table(window="hopping").life_after()
    table.make_durable(seconds=0.0)
    end = table.receive(0, Kind.PUNCTUATION)
    table.progress.epoch = 1
    table.process()
    table.scheme.on_window(1)
    table.send(5)
    table.send(5)
    on_the_way = table.outlet.unacknowledged_items()
    assert table.life_after().scheme.lacks.unacknowledged >= on_the_way
    assert table.scheme.limits == (50.0, 5.0, 5.0, 0.25) and on_the_way == 5 and not end.acknowledged
    table.make_durable(seconds=PAUSE_S)
    table.scheme.on_alarm()
    table.make_durable()
    table.outlet.flush()
    assert table.scheme.limits == (100.0, 10.0, 10.0, 0.5) and table.outlet.unacknowledged_items() == 10
