"""The coordinator of checkpoints: what it triggers, what makes one whole, and that no number means two."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.controller.checkpoints import RESERVED, CheckpointPace, Coordinator, Marks, checkpoint_fields
from riprap.controller.reports import WorkerReport

PACE = CheckpointPace(interval_s=1.0, min_pause_s=0.25, timeout_s=5.0, failures_max=2)


def made() -> Coordinator:
    coordinator = Coordinator(PACE, Marks(), 0.0)
    coordinator.reserve()
    return coordinator


def test_nothing_is_triggered_before_its_number_is_durably_reserved() -> None:
    coordinator = made()
    assert coordinator.marks.reserved >= RESERVED
    assert coordinator.trigger(Marks(), 10.0, hurried=False) == 0
    assert coordinator.trigger(coordinator.marks, 0.5, hurried=False) == 0, "its time has not come"
    assert coordinator.trigger(coordinator.marks, 0.5, hurried=True) == 1, "but the job's end waits"
    assert coordinator.trigger(coordinator.marks, 10.0, hurried=True) == 0, "one at a time"


def test_one_is_whole_when_all_have_saved_it_and_the_next_waits_until_that_is_durable() -> None:
    coordinator = made()
    durable = coordinator.marks
    assert coordinator.trigger(durable, 1.0, hurried=False) == 1
    assert coordinator.hear({"a": 1, "b": 0}, 1.1) is None
    assert coordinator.hear({"a": 1, "b": 7}, 1.2) is None, "another number is another checkpoint"
    whole = coordinator.hear({"a": 1, "b": 1}, 1.5)
    assert whole is not None and (whole.number, whole.whole_at) == (1, 1.5)
    assert coordinator.marks.completed == 1
    assert coordinator.trigger(durable, 9.0, hurried=False) == 0, "its decision is not durable"
    assert coordinator.trigger(coordinator.marks, 9.0, hurried=False) == 2


def test_workers_are_told_once_that_one_is_over_when_that_is_durable_or_it_is_given_up() -> None:
    coordinator = made()
    durable = coordinator.marks
    coordinator.trigger(durable, 1.0, hurried=False)
    assert coordinator.told(durable) == (1, 0)
    coordinator.hear({"a": 1}, 1.1)
    assert coordinator.told(durable) == (1, 0), "it is whole, and nobody may act on that"
    assert coordinator.told(coordinator.marks) == (0, 1)
    coordinator.abort(1.2)
    assert coordinator.told(durable) == (0, 0), "somebody is lost: all begin anew"


def test_the_slowest_is_whose_part_was_safe_last() -> None:
    coordinator = made()
    coordinator.trigger(coordinator.marks, 1.0, hurried=False)
    whole = coordinator.hear({"source.0": 1, "sink.0": 1, "sink.1": 1}, 1.5)
    moments = {"source.0": 1.1, "sink.0": 1.4, "sink.1": 1.3}
    rows = [WorkerReport("job", name, 1, checkpoint=1, saved_at=at) for name, at in moments.items()]
    assert whole is not None and checkpoint_fields(whole, rows)["slowest"] == "sink.0"


def test_the_time_until_the_next_is_known_unless_something_else_comes_first() -> None:
    coordinator = made()
    assert coordinator.due_in(Marks(), 0.25) == math.inf, "no number is durably reserved"
    durable = coordinator.marks
    assert (coordinator.due_in(durable, 0.25), coordinator.due_in(durable, 5.0)) == (0.75, 0.0)
    coordinator.trigger(durable, 1.0, hurried=False)
    assert coordinator.due_in(durable, 1.5) == math.inf, "one is under way"
    coordinator.hear({"a": 1}, 1.5)
    assert coordinator.due_in(durable, 1.5) == math.inf, "its decision is not durable"
    assert coordinator.due_in(coordinator.marks, 1.5) == 0.5


def test_a_pause_is_kept_after_a_long_one() -> None:
    coordinator = made()
    coordinator.trigger(coordinator.marks, 1.0, hurried=False)
    coordinator.hear({"a": 1}, 3.0)
    assert coordinator.trigger(coordinator.marks, 3.2, hurried=False) == 0
    assert coordinator.trigger(coordinator.marks, 3.25, hurried=False) == 2


def test_what_was_saved_of_one_that_was_aborted_counts_for_no_other() -> None:
    coordinator = made()
    coordinator.trigger(coordinator.marks, 1.0, hurried=False)
    coordinator.hear({"a": 1, "b": 0}, 1.1)
    assert not coordinator.is_late(6.0) and coordinator.is_late(6.1)
    aborted = coordinator.abort(6.1, failed=True)
    assert aborted is not None and aborted.saved == {"a"} and coordinator.failures == 1
    assert coordinator.trigger(coordinator.marks, 7.1, hurried=False) == 2
    assert coordinator.hear({"a": 1, "b": 1}, 7.2) is None
    assert coordinator.hear({"a": 2, "b": 2}, 7.3) is not None and coordinator.failures == 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["trigger", "hear", "abort", "durable", "leader"]), max_size=200))
def test_no_number_is_triggered_twice_whoever_leads(steps: list[str]) -> None:
    clock, durable, triggered = itertools.count(1.0, 10.0), Marks(), []
    coordinator = made()
    for step in steps:
        now = next(clock)
        coordinator.reserve()
        if step == "trigger" and (number := coordinator.trigger(durable, now, hurried=False)):
            triggered.append(number)
        elif step == "hear":
            coordinator.hear({"a": coordinator.triggered}, now)
        elif step == "abort":
            coordinator.abort(now)
        elif step == "durable":
            assert coordinator.marks.completed >= durable.completed
            durable = coordinator.marks
        elif step == "leader":
            coordinator = Coordinator(PACE, durable, now)
    assert triggered == sorted(set(triggered))


@pytest.mark.parametrize("topology", [{}, {"fault_tolerance": {"scheme": "mini_batch"}}])
def test_other_schemes_have_no_pace(topology: dict[str, object]) -> None:
    assert CheckpointPace.of(topology) is None


def test_a_savepoint_is_the_next_checkpoint_and_made_again_until_it_is_whole() -> None:
    coordinator = made()
    coordinator.want("/save", True, 0.1)
    coordinator.want("/save", False, 0.1)  # the client asks again
    assert coordinator.trigger(coordinator.marks, 0.1, hurried=False) == 1, "it does not wait for the interval"
    assert coordinator.savepoint == "/save"
    coordinator.abort(0.2)
    assert coordinator.savepoint == ""
    assert coordinator.trigger(coordinator.marks, 0.3, hurried=False) == 2 and coordinator.savepoint == "/save"
    whole = coordinator.hear({"a": 2}, 0.4)
    assert whole is not None and (whole.savepoint, whole.ends) == ("/save", True)
    assert not coordinator.wanted
    assert coordinator.trigger(coordinator.marks, 0.5, hurried=False) == 0, "the next is a checkpoint in its time"
    assert coordinator.trigger(coordinator.marks, 5.0, hurried=False) == 3 and coordinator.savepoint == ""
