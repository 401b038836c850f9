"""What strangers may say on a link: nothing but what honest workers say, and nothing breaks the gate."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from dataflow_parts import edge_of, layout_of, topology
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.digests import Trail
from riprap.engine.flow.gate import BACK, FORWARD, REPLY, TaskGate
from riprap.engine.flow.progress import At, Heard, TaskProgress

LOOP = topology({"a": 2, "b": 2}, [{"from": "a", "to": "b"}, {"from": "b", "to": "a", "feedback": True}])
LAYOUT = layout_of(LOOP, "b.1")
GATE = TaskGate(LAYOUT)
SENDER = WorkerId("a", 0)
CAUSE = [0, 0, 1, 0]
KEY = Key(0, 1, 1, 0)
END = {"items": 3, "opened_at": 0.5, "last": False, "cause": CAUSE}
HEARD = Heard(At(3, 9), {(0, 1): (4, 2)}, True, 2).pack()

NEWS = [[3, [2, bytes(8)]]]
ODD_DIGESTS: list[Any] = [
    None, b"", [], [2], [2, bytes(7)], [2, bytes(12)], [1, bytes(8)], [0, b""], [-1, bytes(4)], [True, bytes(4)],
    [1.0, bytes(4)], [1, "abcd"], [1, [1]], [1, bytes(4), 1], [65, bytes(260)], {1: bytes(4)},
]  # fmt: skip


def message(
    kind: Kind, key: Key = KEY, meta: dict[str, Any] | None = None, arrays: tuple[np.ndarray, ...] = ()
) -> Block:
    return Block(kind, Epoch(1), key, arrays=arrays, meta={"cause": CAUSE} if meta is None else meta)


def told(place: Any, turns: Any) -> Block:
    """What was heard of a sender, and what is known of its turns."""
    return message(Kind.REPLY, meta={"heard": HEARD}, arrays=(np.asarray(place), np.asarray(turns)))


END_OF_LANE = {"items": 3, "opened_at": 0.5, "last": False, "after": 0, "absent": ["a.1"]}


def tentative(**meta: Any) -> Block:
    """A block of a window from which items are missing."""
    return Block(Kind.TENTATIVE, Epoch(1), meta=meta)


@pytest.mark.parametrize(
    "block",
    [
        tentative(),
        tentative(after=-1),
        tentative(after=3, cause=CAUSE),
        tentative(absent="a.1"),
        tentative(absent=[1]),
        tentative(absent=["x" * 300]),
        tentative(absent=["a.1"] * 300),
        tentative(absent=["a.1"], after=3),
        tentative(**END_OF_LANE | {"after": None}),
        tentative(**END_OF_LANE | {"items": -1}),
        Block(Kind.TENTATIVE, Epoch(0), meta={"after": 3}),
        Block(Kind.TENTATIVE, Epoch(1), KEY, meta={"after": 3}),
    ],
)
def test_tentative_blocks_with_odd_fields(block: Block) -> None:
    with pytest.raises(FrameError, match="a TENTATIVE with odd fields"):
        GATE.checks[edge_of(GATE, LAYOUT, SENDER, block)](SENDER, block)


@pytest.mark.parametrize(
    "block",
    [
        message(Kind.DATA),
        message(Kind.FEEDBACK),
        message(Kind.DATA, meta={"cause": CAUSE, "urgent": True}),
        message(Kind.DATA, meta={"cause": CAUSE, "turns": [7, 1, b"ab"]}),
        message(Kind.PUNCTUATION, meta=END),
        message(Kind.PUNCTUATION, meta=END | {"time": -5, "idle": True}),
        message(Kind.PUNCTUATION, meta=END | {"digests": [2, bytes(8)]}),
        message(Kind.PUNCTUATION, meta=END | {"digests": [2**40, bytes(256)]}),
        message(Kind.REPLY, meta={"digests": NEWS}),
        message(Kind.REPLY, meta={"digests": NEWS * 64}),
        message(Kind.REPLY, meta={"heard": HEARD}),
        message(Kind.REPLY, meta={"heard": Heard(known=False).pack()}),
        told(np.array([3]), np.zeros(4, np.uint8)),
        message(Kind.REPLY, meta={"heard": HEARD, "silent": True}),
        message(Kind.REPLY, meta={"heard": HEARD, "silent": True, "was": 7}),
        message(Kind.REPLY, meta={"needed": 3}),
        tentative(after=3),
        tentative(absent=["a.1"]),
        tentative(**END_OF_LANE),
        tentative(**END_OF_LANE, time=-5, idle=True),
    ],
)
def test_what_honest_workers_send_is_let_through(block: Block) -> None:
    GATE.checks[edge_of(GATE, LAYOUT, SENDER, block)](SENDER, block)


@pytest.mark.parametrize(
    "block",
    [
        message(Kind.DATA, Key(1, 1, 1, 0)),
        message(Kind.DATA, Key(0, 0, 1, 0)),
        message(Kind.DATA, Key(0, 1, 0, 0)),
        message(Kind.DATA, meta={}),
        message(Kind.DATA, meta={"cause": [0, 0, 1]}),
        message(Kind.DATA, meta={"cause": [0, 0, 1, -1]}),
        message(Kind.DATA, meta={"cause": [0, 0, True, 1]}),
        message(Kind.DATA, meta={"cause": "0010"}),
        message(Kind.FEEDBACK, meta={"cause": None}),
        *(
            message(Kind.PUNCTUATION, meta=END | {name: value})
            for name, value in [
                ("items", -1), ("items", 1.0), ("items", True), ("opened_at", 1), ("opened_at", None), ("last", 1),
                ("time", 1.0), ("time", None), ("time", True), ("time", 2**62 + 1), ("idle", False), ("idle", 1),
            ]
        ),
        *(
            message(Kind.PUNCTUATION, meta={name: value for name, value in END.items() if name != left_out})
            for left_out in END
        ),
        message(Kind.REPLY, meta={}),
        message(Kind.REPLY, meta={"heard": HEARD, "more": 1}),
        *(message(Kind.REPLY, meta={"heard": HEARD, "silent": wrong}) for wrong in (False, 1, None)),
        *(message(Kind.REPLY, meta={"needed": wrong}) for wrong in (-1, 1.0, True, None, [1])),
        *(message(Kind.REPLY, meta={"heard": HEARD, "was": wrong}) for wrong in (-1, 1.0, True, None, [1])),
        message(Kind.REPLY, meta={"needed": 1, "was": 1}),
        message(Kind.REPLY, meta={"needed": 1, "silent": True}),
        message(Kind.REPLY, meta={"needed": 1}, arrays=(np.zeros(1),)),
        message(Kind.REPLY, meta={"heard": HEARD[:4]}),
        *(
            message(Kind.REPLY, meta={"heard": [*HEARD[:i], wrong, *HEARD[i + 1 :]]})
            for i, wrong in [
                (0, -1), (0, None), (1, 1.5), (2, 1), (3, False), (4, {}), (4, [7]), (4, [[1, 2, 3]]),
                (4, [[1, 2, 3, -4]]),
            ]
        ),
        message(Kind.DATA, meta={"cause": CAUSE, "turns": [7, 2, b"ab"]}),
        message(Kind.PUNCTUATION, meta=END | {"turns": None}),
        *(message(Kind.PUNCTUATION, meta=END | {"digests": wrong}) for wrong in ODD_DIGESTS),
        *(message(Kind.REPLY, meta={"digests": [[3, wrong]]}) for wrong in ODD_DIGESTS),
        *(message(Kind.REPLY, meta={"digests": [[wrong, [2, bytes(8)]]]}) for wrong in (0, -1, True, 1.0, None)),
        *(message(Kind.REPLY, meta={"digests": wrong}) for wrong in ([], NEWS * 65, [3], [[3]], [2, bytes(8)], None)),
        message(Kind.REPLY, meta={"digests": NEWS, "silent": True}),
        message(Kind.REPLY, meta={"digests": NEWS, "heard": HEARD}),
        message(Kind.REPLY, meta={"digests": NEWS}, arrays=(np.zeros(1),)),
        message(Kind.DATA, meta={"cause": CAUSE, "digests": [2, bytes(8)]}),
        message(Kind.REPLY, meta={"heard": HEARD}, arrays=(np.array([3]),)),
        told(np.array([-1]), np.zeros(4, np.uint8)),
        told(np.array([3]), np.zeros(3, np.uint8)),
        told(np.array([3, 4]), np.zeros(4, np.uint8)),
        told(np.array([3]), np.zeros(4, np.int8)),
        told(np.array([3.0]), np.zeros(4, np.uint8)),
        told(np.array([[3]]), np.zeros(4, np.uint8)),
    ],
)  # fmt: skip
def test_each_malformed_message_is_refused(block: Block) -> None:
    with pytest.raises(FrameError):
        GATE.checks[edge_of(GATE, LAYOUT, SENDER, block)](SENDER, block)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
FIELD = st.sampled_from(["cause", "items", "opened_at", "last", "heard", "turns", "digests", "urgent", "x"])
SOUND = st.sampled_from([CAUSE, HEARD, 3, 0.5, False, [3, 1, b"ab"], [1, b"abcd"], NEWS])


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([Kind.DATA, Kind.FEEDBACK, Kind.PUNCTUATION, Kind.REPLY]),
    st.tuples(*[st.integers(0, 2)] * 4).map(lambda key: Key(*key)),
    st.dictionaries(FIELD, ANYTHING | SOUND, max_size=5),
)
def test_no_fields_raise_anything_but_a_frame_error(kind: Kind, key: Key, meta: dict[str, Any]) -> None:
    """What is let through can be taken in: its fields have the types that the links rely on."""
    block = message(kind, key, meta)
    try:
        GATE.checks[edge_of(GATE, LAYOUT, SENDER, block)](SENDER, block)
    except FrameError:
        return
    if kind == Kind.REPLY and "digests" in meta:
        assert all(Trail().difference(told) for _, told in meta["digests"])
    elif kind == Kind.REPLY:
        Heard.unpack(meta["heard"]).pack()
    else:
        Heard().note(block)


def test_kinds_go_by_edges() -> None:
    sink = TaskGate(layout_of(LOOP, "b.0"))
    source = TaskGate(layout_of(LOOP, "a.0"))
    assert {edge.index: kinds for edge, kinds in sink.kinds.items()} == {0: FORWARD, 3: REPLY}
    assert {edge.index: kinds for edge, kinds in source.kinds.items()} == {1: BACK, 2: REPLY}
    assert set(sink.workers) == {WorkerId("a", 0), WorkerId("a", 1)}


LINK = st.tuples(st.integers(0, 2**31 + 1), st.integers(0, 9))
COUNT = st.integers(0, 2**40)
AT = st.tuples(COUNT, COUNT).map(lambda pair: At(*pair))
HEARDS = st.builds(Heard, AT, st.dictionaries(LINK, st.tuples(COUNT, COUNT), max_size=4), st.booleans(), COUNT)
PROGRESS = st.builds(
    TaskProgress,
    received=COUNT,
    included=COUNT,
    epoch=COUNT,
    last=st.booleans(),
    done=st.dictionaries(LINK, HEARDS, max_size=3),
    closed=st.dictionaries(LINK, COUNT, max_size=3),
    sent=st.dictionaries(LINK, AT, max_size=3),
    feedback=st.dictionaries(LINK, COUNT, max_size=3),
    failures=st.lists(COUNT, max_size=4),
)


@given(HEARDS)
def test_heard_survives_the_wire(heard: Heard) -> None:
    assert Heard.unpack(msgpack.unpackb(msgpack.packb(heard.pack()))) == heard


@given(PROGRESS)
def test_progress_survives_a_record(progress: TaskProgress) -> None:
    """All of it does, but for what was heard and is not processed: that may come again."""
    found = TaskProgress.unpack(msgpack.unpackb(msgpack.packb(progress.pack()), strict_map_key=False))
    assert found.heard == found.done
    found.heard = progress.heard
    assert found == progress


@pytest.mark.parametrize("absent", ["a.1", [1], ["x" * 300], ["a.1"] * 300, None])
def test_a_window_says_in_names_who_was_absent(absent: Any) -> None:
    end = {"items": 3, "opened_at": 0.5, "last": False, "cause": CAUSE}
    GATE.checks[edge_of(GATE, LAYOUT, SENDER, block := _end(end | {"absent": ["a.1"]}))](SENDER, block)
    block = _end(end | {"absent": absent})
    with pytest.raises(FrameError, match="a block with odd names"):
        GATE.checks[edge_of(GATE, LAYOUT, SENDER, block)](SENDER, block)


def _end(meta: dict[str, Any]) -> Block:
    return Block(Kind.PUNCTUATION, Epoch(1), KEY, meta=meta)
