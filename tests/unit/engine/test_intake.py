"""The gate: what each role may get passes, everything else is dropped and counted, and nothing raises."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_port import (
    COMMIT,
    DATA,
    FEEDBACK,
    JOB,
    PUNCTUATION,
    RESULT,
    bundled,
    items,
    layout_of,
    packed,
    processor,
    receiver_of,
    samples,
    sink,
    source,
)  # fmt: skip

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.errors import FrameError
from riprap.codec.header import Header, encode
from riprap.codec.ids import Epoch, Incarnation, Round, Seq, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.intake import LINKS_MAX, Intake, identity
from riprap.engine.flow.segment_gate import SegmentGate

SAMPLES = samples()


def no_fetch(peer: bytes, reference: list[Any], nbytes: int) -> Any:
    raise FrameError("no references in these tests")


def intake_at(me: WorkerId, pairs: int = 1) -> Intake:
    layout = layout_of(me, pairs=pairs)
    return Intake(JOB, layout, SegmentGate(layout), no_fetch)


def reason(edge: Edge, sender: WorkerId, block: Block, *, me: WorkerId | None = None, **changed: Any) -> str:
    """Why a message was dropped; "" when it passed."""
    intake = intake_at(me or receiver_of(edge))
    passed = intake.forward(*packed(edge, sender, block, **changed))
    assert (passed is None) == (sum(intake.malformed.values()) == 1)
    return next(iter(intake.malformed), "")


@pytest.mark.parametrize("name", SAMPLES)
def test_what_each_role_gets_passes_unchanged(name: str) -> None:
    edge, sender, block = SAMPLES[name]
    intake = intake_at(receiver_of(edge))
    passed = intake.forward(*packed(edge, sender, block))
    assert passed is not None and not intake.malformed
    got_edge, got_sender, head, (got,) = passed
    assert (got_edge, got_sender, head.incarnation, head.job) == (edge, sender, 1, JOB)
    assert (got.kind, got.epoch, got.key, got.items, got.seq) == (block.kind, 1, block.key, block.items, block.seq)
    assert all(map(np.array_equal, got.arrays, block.arrays))


@pytest.mark.parametrize("edge", [DATA, RESULT, FEEDBACK, PUNCTUATION, COMMIT], ids=lambda edge: edge.name)
def test_a_hello_passes_on_every_edge(edge: Edge) -> None:
    sender = {DATA: source(), RESULT: processor(0), FEEDBACK: sink(), PUNCTUATION: source(), COMMIT: sink()}[edge]
    assert reason(edge, sender, Block(Kind.HELLO, Epoch(0), seq=Seq(7))) == ""


@pytest.mark.parametrize("name", SAMPLES)
def test_the_wrong_job_sender_life_or_edge(name: str) -> None:
    edge, sender, block = SAMPLES[name]
    assert reason(edge, sender, block, job="another") == "not a worker of this job"
    assert reason(edge, WorkerId("stranger", 0), block) == "not a worker of this job"
    assert reason(edge, WorkerId(sender.stage, 99), block) == "not a worker of this job"
    assert reason(Edge(9, "none"), sender, block, me=receiver_of(edge)) == "no such link ends here"
    me = receiver_of(edge)
    peers = {source(), sink(), processor(0)} - {sender, me}
    senders = layout_of(me).incoming()[edge]
    for stranger in peers - set(senders):
        assert reason(edge, stranger, block) == "no such link ends here"
    intake = intake_at(me)
    _, header, frames = packed(edge, sender, block)
    for peer in (identity(sender, 2), identity(processor(5), 1), b"", b"\xff\x00"):
        assert intake.forward(peer, header, frames) is None
    assert intake.malformed == {"the connection is another worker's": 4}


def test_what_a_connection_has_proved_holds_for_it_alone() -> None:
    edge, sender, block = SAMPLES["data"]
    intake = intake_at(receiver_of(edge))
    peer, header, frames = packed(edge, sender, block)
    assert intake.forward(peer, header, frames)
    for other in (identity(sender, 2), identity(processor(5), 1), b""):
        assert intake.forward(other, header, frames) is None
    for changed in ({"job": "another"}, {"life": 2}):
        assert intake.forward(peer, *packed(edge, sender, block, **changed)[1:]) is None
    assert intake.forward(peer, *packed(PUNCTUATION, sender, block)[1:]) is None
    assert intake.forward(peer, *packed(edge, sender, replace(block, kind=Kind.REPLY))[1:]) is None
    assert sum(intake.malformed.values()) == 7
    assert intake.forward(peer, header, frames)


def test_a_peer_that_names_many_rounds_takes_no_memory() -> None:
    edge, sender, block = SAMPLES["data"]
    intake, back = intake_at(receiver_of(edge)), intake_at(sender)
    _, _, frames = packed(edge, sender, block)
    for number in range(LINKS_MAX + 10):
        header = encode(Header(JOB, str(sender), Incarnation(1), edge.index, Round(number)), block)[0]
        assert intake.forward(identity(sender, 1), header, frames)
        head = Header(JOB, str(WORKER), Incarnation(1), edge.index, Round(number))
        passed = back.backward(encode(head, Block(Kind.ACK, Epoch(0)))[0])
        assert passed is not None and passed[2] == head
    assert 0 < len(intake._proved) <= LINKS_MAX and 0 < len(back._answered) <= LINKS_MAX


@pytest.mark.parametrize("name", SAMPLES)
def test_a_kind_that_the_edge_does_not_carry(name: str) -> None:
    edge, sender, block = SAMPLES[name]
    carried = {its_block.kind for its_edge, _, its_block in SAMPLES.values() if its_edge == edge}
    assert carried
    for kind in set(Kind) - carried - {Kind.HELLO}:
        assert reason(edge, sender, replace(block, kind=kind)) == "a kind that this edge does not carry"


@pytest.mark.parametrize("name", SAMPLES)
def test_blocks_in_a_bundle_pass_one_by_one(name: str) -> None:
    edge, sender, block = SAMPLES[name]
    intake = intake_at(receiver_of(edge))
    blocks = [replace(block, seq=Seq(seq)) for seq in (1, 2, 3)]
    blocks[1].kind = Kind.REPLY
    passed = intake.forward(*bundled(edge, sender, *blocks))
    assert passed is not None and [block.seq for block in passed[3]] == [1, 3]
    assert intake.malformed == {"a kind that this edge does not carry": 1}
    hello = Block(Kind.HELLO, Epoch(0), seq=Seq(7), meta={"shared": {}})
    assert intake.forward(*bundled(edge, sender, hello)) is None, "a HELLO comes alone"
    for changed in ({"job": "another"}, {"life": 2}):
        assert intake.forward(identity(sender, 1), *bundled(edge, sender, *blocks, **changed)[1:]) is None
    assert sum(intake.malformed.values()) == 4


@pytest.mark.parametrize("name", ["data", "parity", "result", "relayed"])
def test_keys_of_another_pair(name: str) -> None:
    edge, sender, block = SAMPLES[name]
    for key in (Key(1, 1, 0, 1), Key(0, 1, 0, 1), Key(1, 0, 0, 1), Key(2**62, 2**62, 0, 0)):
        intake = intake_at(receiver_of(edge), pairs=2)
        assert intake.forward(*packed(edge, sender, replace(block, key=key))) is None
        assert intake.malformed == {"a key of another pair": 1}


def test_a_processor_serves_each_pair_by_its_own_key() -> None:
    edge, _, block = SAMPLES["data"]
    intake = intake_at(processor(1), pairs=2)
    assert intake.forward(*packed(edge, source(1), replace(block, key=Key(1, 1, 0, 0))))
    assert intake.forward(*packed(edge, source(0), replace(block, key=Key(0, 0, 0, 0))))


FLAT, DEEP = np.ones(4), np.ones((2, 2, 3))
ODD_ARRAYS: list[tuple[str, dict[str, Any]]] = [
    ("data", {"arrays": ()}), ("data", {"arrays": (FLAT,)}), ("data", {"arrays": (DEEP,)}), ("data", {"items": 3}),
    ("data", {"arrays": (items(4), items(4))}), ("data", {"arrays": (), "attachment": items(4)}),
    ("parity", {"arrays": ()}), ("parity", {"arrays": (FLAT,)}), ("parity", {"arrays": (items(5),)}),
    ("parity", {"arrays": (items(3),)}), ("relayed", {"arrays": (items(4), items(4))}),
    ("result", {"attachment": FLAT}), ("result", {"attachment": DEEP}), ("result", {"attachment": items(3)}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed"), ODD_ARRAYS)
def test_arrays_that_are_no_items(name: str, changed: dict[str, Any]) -> None:
    edge, sender, block = SAMPLES[name]
    assert reason(edge, sender, replace(block, **changed)) == f"a {block.kind.name} with odd fields"


END = SAMPLES["end"][2].meta
ODD_METAS: list[tuple[str, dict[str, Any]]] = [
    ("parity", {}), ("parity", {"of": 4}), ("parity", {"counts": [4] * 4}), ("parity", {"of": -1, "counts": [4]}),
    ("parity", {"of": 4, "counts": []}), ("parity", {"of": 4, "counts": [-1, 4]}),
    ("parity", {"of": True, "counts": [4]}),
    ("parity", {"of": 4, "counts": [4, "4"]}), ("parity", {"of": 4, "counts": {"4": 4}}),
    ("parity", {"of": 4, "counts": [5]}),
    ("result", {"of": -1}), ("result", {"of": None}), ("result", {"of": 1.0}), ("result", {"of": [4]}),
    ("end", {}), ("end", {"items": 1}), ("end", END | {"participants": {}}), ("end", END | {"participants": []}),
    ("end", END | {"active": 0}), ("end", END | {"active": 2}), ("end", END | {"active": True}),
    ("end", END | {"participants": {"processor.0": -1}}), ("end", END | {"participants": {"processor.0": None}}),
    ("end", END | {"participants": ["processor.0"]}), ("end", END | {"blocks": "4"}), ("end", END | {"blocks": -1}),
    ("end", END | {"heads": 5}), ("end", END | {"heads": None}), ("end", END | {"heads": {}}),
    ("data", {"window": -1}), ("data", {"window": None}), ("parity", {"of": 4, "counts": [4], "window": 1.0}),
    ("feedback", {"window": -1}), ("feedback", {"window": True}), ("begin", {"begin": True}),
    ("avoid", {"avoided": "all"}), ("avoid", {"avoided": [1]}),
    ("end", END | {"moved": 5}), ("end", END | {"moved": [5]}), ("end", END | {"moved": {}}),
    ("moved", {"moved": None}), ("moved", {"moved": [[0, 1, "processor.0"]]}),
    ("moved", {"moved": [[0, 1, [], 1]]}),
    ("moved", {"moved": [[0, 1, 5, 1]]}), ("moved", {"moved": [[-1, 1, "processor.0", 1]]}),
    ("moved", {"moved": [[0, 1, "processor.0", 1.5]]}), ("moved", {"moved": [{}]}),
    ("resend", {}), ("resend", {"pieces": None}), ("resend", {"pieces": [[1]]}), ("resend", {"pieces": [[1, -1]]}),
    ("resend", {"pieces": [[1, 2, 3]]}), ("resend", {"pieces": [5]}), ("resend", {"pieces": [["0", "1"]]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "meta"), ODD_METAS)
def test_control_fields_that_are_odd(name: str, meta: dict[str, Any]) -> None:
    edge, sender, block = SAMPLES[name]
    assert reason(edge, sender, replace(block, meta=meta)) == f"a {block.kind.name} with odd fields"


@pytest.mark.parametrize("name", ["processor.6", "sink.0", "processor", "", "processor.00", "x" * 99])
def test_punctuations_about_workers_that_are_no_processors(name: str) -> None:
    edge, sender, block = SAMPLES["end"]
    words = "it names workers that are no processors"
    assert reason(edge, sender, replace(block, meta=END | {"participants": {name: 1}})) == words
    assert reason(edge, sender, replace(block, meta={"moved": [[0, 0, name, 1]]})) == words
    edge, sender, block = SAMPLES["avoid"]
    assert reason(edge, sender, replace(block, meta={"avoided": [name]})) == words


WORKER = processor(0)


def answer(kind: Kind = Kind.ACK, sender: WorkerId = WORKER, edge: Edge = DATA, job: str = JOB) -> bytes:
    return encode(Header(job, str(sender), Incarnation(1), edge.index), Block(kind, Epoch(0), seq=Seq(3)))[0]


def test_answers_pass_on_links_that_start_here() -> None:
    intake = intake_at(source())
    for kind in (Kind.ACK, Kind.HELLO):
        passed = intake.backward(answer(kind))
        assert passed is not None and passed[0] == DATA and passed[1] == processor(0) and passed[3].seq == 3
    assert intake.backward(answer(edge=PUNCTUATION, sender=sink())) is not None
    assert not intake.malformed


def test_odd_answers_are_dropped_and_counted() -> None:
    intake = intake_at(source())
    odd = [answer(kind) for kind in Kind if kind not in (Kind.ACK, Kind.HELLO)]
    odd += [answer(edge=RESULT), answer(edge=COMMIT), answer(edge=Edge(77, ""))]
    odd += [answer(job="other"), answer(sender=processor(6)), b"", b"\x00", answer()[:-1]]
    for header in odd:
        assert intake.backward(header) is None
    assert sum(intake.malformed.values()) == len(odd)


def random_meta(rng: random.Random, honest: dict[str, Any]) -> dict[str, Any]:
    """An honest meta with one or two things in it replaced, added or taken away, at any depth."""
    odd = (None, True, -1, 2**63, 0.5, float("nan"), "", "sink.0", b"x", [], [[]], [[0] * 4], {}, {"processor.0": -1})
    meta: Any = {key: list(value) if isinstance(value, (list, tuple)) else value for key, value in honest.items()}
    for _ in range(rng.randint(1, 2)):
        names = [*honest, "participants", "active", "moved", "pieces", "counts", "of", "window", "heads", "safe", "x"]
        name = rng.choice(names)
        if isinstance(meta.get(name), list) and meta[name] and rng.random() < 0.6:
            meta[name][rng.randrange(len(meta[name]))] = deepcopy(rng.choice(odd))
        elif rng.random() < 0.2:
            meta.pop(name, None)
        else:
            meta[name] = deepcopy(rng.choice(odd))
    return meta


def test_random_metas_never_raise_and_every_drop_is_counted() -> None:
    rng = random.Random(3)
    passed = dropped = 0
    for _ in range(6_000):
        edge, sender, block = rng.choice(list(SAMPLES.values()))
        intake = intake_at(receiver_of(edge))
        taken = intake.forward(*packed(edge, sender, replace(block, meta=random_meta(rng, block.meta))))
        assert sum(intake.malformed.values()) == (taken is None)
        passed, dropped = passed + (taken is not None), dropped + (taken is None)
    assert passed > 600 and dropped > 600
