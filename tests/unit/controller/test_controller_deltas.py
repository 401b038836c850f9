"""States sent as changes: what arrives is what was sent, a gap is noticed, and nonsense is a FrameError."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import FrameError
from riprap.controller import messages
from riprap.controller.deltas import DeltaReader, Gap, Writer, applied, difference

LEAVES = st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2) | st.lists(st.integers(0, 2), max_size=2)
KEYS = st.sampled_from("abcd")
STATES = st.recursive(
    st.dictionaries(KEYS, LEAVES, max_size=4), lambda inner: st.dictionaries(KEYS, LEAVES | inner, max_size=4)
)


@settings(max_examples=300)
@given(STATES, STATES)
def test_the_difference_of_two_states_makes_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    changes = difference(before, after)
    assert applied(before, changes) == after
    assert bool(changes) == (before != after)


@given(st.lists(STATES, max_size=6), st.data())
def test_a_reader_has_the_last_state_or_knows_that_it_missed_one(states: list[Any], data: st.DataObject) -> None:
    writer, reader = Writer(), DeltaReader()
    for number, state in enumerate(states, 1):
        message = messages.unpack(messages.pack({"type": "x", **writer.encode(number, state)}))
        fate = data.draw(st.sampled_from(["arrives", "lost", "twice"]))
        for _ in range(["lost", "arrives", "twice"].index(fate)):
            try:
                reader.decode(message)
            except Gap:
                writer.restart()
            else:
                assert (reader.state, reader.number) == (state, number)
    writer.restart()
    assert reader.decode(writer.encode(len(states) + 1, {"a": 1})) == {"a": 1}


def test_what_did_not_change_is_not_sent() -> None:
    writer = Writer()
    workers = {f"processor.{n}": {"state": "up", "host": "h"} for n in range(100)}
    whole = writer.encode(1, {"workers": workers})
    changed = writer.encode(2, {"workers": workers | {"processor.3": {"state": "down", "host": "h"}}})
    assert whole == {"number": 1, "whole": {"workers": workers}}
    changes = {"~": {"workers": {"~": {"processor.3": {"+": {"state": "down"}}}}}}
    assert changed == {"number": 2, "base": 1, "changes": changes}


def test_a_message_sent_again_is_whole_and_an_old_one_is_nothing_new() -> None:
    writer, reader = Writer(), DeltaReader()
    first, second = writer.encode(1, {"a": 1}), writer.encode(2, {"a": 2})
    assert writer.encode(2, {"a": 2}) == {"number": 2, "whole": {"a": 2}}
    with pytest.raises(Gap):
        reader.decode(second)
    assert reader.decode(first) == {"a": 1} and reader.decode(second) == {"a": 2}
    assert reader.decode(first) is None and reader.decode(second) is None


@settings(max_examples=300)
@given(st.recursive(LEAVES, lambda inner: st.dictionaries(st.sampled_from("+~-a"), inner, max_size=4)))
def test_any_changes_are_applied_or_a_frame_error(changes: Any) -> None:
    before = {"a": 1, "b": {"a": 2}}
    with contextlib.suppress(FrameError):
        assert isinstance(applied(before, changes), dict)
    assert before == {"a": 1, "b": {"a": 2}}


@pytest.mark.parametrize(
    "message", [{}, {"number": -1}, {"number": 2, "whole": []}, {"number": 2, "base": 1}, {"number": 2, "base": "1"}]
)
def test_a_malformed_message_changes_nothing(message: dict[str, Any]) -> None:
    reader = DeltaReader()
    reader.decode({"number": 1, "whole": {"a": 1}})
    with pytest.raises(FrameError):
        reader.decode(message)
    assert (reader.number, reader.state) == (1, {"a": 1})


def test_changes_are_bounded_in_depth() -> None:
    deep: dict[str, Any] = {}
    state: dict[str, Any] = {}
    for _ in range(50):
        deep, state = {"~": {"a": deep}}, {"a": state}
    with pytest.raises(FrameError):
        applied(state, deep)
