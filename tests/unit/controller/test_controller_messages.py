"""Control messages and reports from strangers: whatever comes, it is a checked message or a FrameError."""

from __future__ import annotations

import contextlib
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import FrameError
from riprap.controller import messages
from riprap.controller.reports import EXITED, UP, AgentReport, WorkerReport

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def a_report() -> AgentReport:
    row = WorkerReport(
        "job", "processor.3", 2, UP, pid=7, ipc="ipc://x", beat=9, started_at=1.5, stats={"items": 3}, peers=["sink.0"]
    )
    dead = WorkerReport("job", "sink.0", 1, EXITED, pid=8, status=-9, error="boom", exited_at=2.5)
    return AgentReport("h1", "abc", 5, "10.0.0.1", 99, 3, 4, True, {"job": 17}, [row, dead])


@given(st.text(st.characters(), max_size=60), st.integers(20, 40))
def test_words_are_made_sayable_once(words: str, most: int) -> None:
    said = messages.sayable(words, most)
    assert len(said.encode().decode()) <= most and messages.sayable(said, most) == said
    if len(words) <= most and "\\ud" not in said:
        assert said == words


def test_a_report_comes_back_as_it_was_sent() -> None:
    assert AgentReport.read(messages.unpack(messages.pack({"type": "report", **a_report().state()}))) == a_report()


def test_numpy_scalars_travel_as_numbers() -> None:
    assert messages.unpack(messages.pack({"type": "x", "n": np.int64(3)})) == {"type": "x", "n": 3}


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**70])
def test_what_msgpack_cannot_carry_is_refused(value: Any) -> None:
    with pytest.raises(FrameError):
        messages.pack({"type": "x", "value": value})


def test_sizes_are_bounded_both_ways() -> None:
    with pytest.raises(FrameError, match="over the limit"):
        messages.pack({"type": "x", "data": bytes(messages.MESSAGE_BYTES_MAX)})
    with pytest.raises(FrameError, match="over the limit"):
        messages.unpack(bytes(messages.MESSAGE_BYTES_MAX + 1))


@settings(max_examples=150)
@given(st.binary(max_size=200) | PLAIN.map(msgpack.packb))
def test_any_bytes_are_a_message_or_a_frame_error(data: bytes) -> None:
    try:
        message = messages.unpack(data)
    except FrameError:
        return
    assert isinstance(message["type"], str)


@settings(max_examples=150)
@given(st.data())
def test_any_mangled_report_is_a_report_or_a_frame_error(data: st.DataObject) -> None:
    message = a_report().state()
    target = data.draw(st.sampled_from([message, *message["rows"].values()]))
    target[data.draw(st.sampled_from([*target, "unknown"]))] = data.draw(PLAIN)
    with contextlib.suppress(FrameError):
        report = AgentReport.read(message)
        for row in report.rows:
            assert row.incarnation >= 1 and str(row.id) == row.worker and isinstance(row.stats, dict)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", "asleep"),
        ("incarnation", 0),
        ("beat", -1),
        ("worker", "nobody"),
        ("pid", "7"),
        ("done", 1),
        ("stats", []),
        ("peers", [1]),
        ("peers", "sink.0"),
    ],
)
def test_a_row_out_of_range_is_refused(field: str, value: Any) -> None:
    message = a_report().state()
    next(iter(message["rows"].values()))[field] = value
    with pytest.raises(FrameError):
        AgentReport.read(message)
