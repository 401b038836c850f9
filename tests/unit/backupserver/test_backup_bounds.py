"""Bodies of records travel in frames of a bounded size, to the last bit; what is larger is not read at all."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import msgpack
import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st
from test_backup_servers import WAIT_S, Cluster, await_that

from riprap.backupserver import body, pieces
from riprap.backupserver.body import pack_body
from riprap.backupserver.pieces import Bodies, pieces_of
from riprap.backupserver.protocol import FRAME_BYTES_MAX, FRAMES_MAX, PIECE_BYTES, check_body, frames_of
from riprap.backupserver.record import BODY_BYTES_MAX
from riprap.codec.errors import FrameError
from riprap.codec.trust.curve import call_with
from riprap.codec.trust.keys import BACKUP, own_authority

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + b"\0" + bytes(31)
LARGE = [(3 << 20) + 7, 5, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


def taken(connection: socket.socket, size: int) -> int:
    """How much of a frame that is announced as so large the other side takes before it hangs up."""
    connection.settimeout(WAIT_S)
    connection.sendall(GREETING)
    sent = 0
    try:
        connection.sendall(b"\x06" + struct.pack(">Q", size))
        while sent < size:
            sent += connection.send(bytes(min(1 << 16, size - sent)))
    except OSError:
        pass
    return sent


def test_a_server_hangs_up_on_a_stranger_who_announces_a_large_frame(servers: Cluster) -> None:
    servers.start()
    assert servers.ask()["records"] == 0, "it is up"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(servers.address(1).replace("ipc://@", "\0"))
        assert taken(connection, 64 * FRAME_BYTES_MAX) < FRAME_BYTES_MAX


def test_a_client_hangs_up_on_a_false_server_that_announces_a_large_frame_and_finds_the_true_one(
    servers: Cluster,
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(servers.address(1).replace("ipc://@", "\0"))
        listener.listen()
        client = servers.client(1)
        connection, _ = listener.accept()
        with connection:
            assert taken(connection, 16 * PIECE_BYTES) < PIECE_BYTES
    servers.start()
    assert client.open().state is None


def test_large_records_come_back_to_the_last_bit_from_every_server(servers: Cluster) -> None:
    rng = np.random.default_rng(5)
    arrays = [rng.integers(0, 256, size, np.uint8) for size in LARGE]
    servers.start(1)
    first = servers.client(1)
    first.open()
    first.save("state", 1, {"n": 0}, arrays)
    for number, array in enumerate(arrays):
        first.save("item", 2, {"n": number}, [array, array[:3]])
    assert first.close(WAIT_S)
    servers.start(2, piece_bytes=FRAME_BYTES_MAX)
    second = servers.client(2, 1, 2)
    second.open()  # the other server gets from it what the first one had
    await_that(second, lambda: all(peer.in_sync for peer in second._peers))
    servers.kill(1)
    point = servers.client(3, 2).open()
    assert point.state is not None and point.dropped == ""
    assert all(np.array_equal(a, b) for a, b in zip(point.state.arrays, arrays, strict=True))
    assert [item.meta["n"] for item in point.items] == list(range(len(LARGE)))
    assert all(np.array_equal(item.arrays[0], array) for item, array in zip(point.items, arrays, strict=True))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from([0, 1, 1000, *LARGE]), max_size=5))
def test_bodies_are_sliced_without_a_copy_and_put_together_again(sizes: list[int]) -> None:
    bodies = [np.random.default_rng(7).integers(0, 256, size, np.uint8).data for size in sizes]
    frames = frames_of(bodies)
    assert all(len(frame) <= FRAME_BYTES_MAX for frame in frames)
    assert all(any(frame.obj is body.obj for body in bodies) for frame in frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_BYTES", 2_000_000)
        given = list(pieces_of(bodies))
    assert all(sum(map(len, frames)) < 4_000_000 for _, frames in given)
    assert [size for begun, _ in given for size in begun] == sizes
    arrived = Bodies(3)
    for begun, frames in given:
        arrived.take({"answer": 2, "sizes": [7]}, [zmq.Frame(b"of another answer")])
        arrived.take({"answer": 3, "sizes": begun}, [zmq.Frame(bytes(frame)) for frame in frames])
    assert arrived.whole(sizes) == bodies


def test_a_piece_leaves_before_the_next_body_is_read() -> None:
    read = []

    def bodies() -> Iterator[memoryview]:
        for number in range(3):
            read.append(number)
            yield memoryview(bytes(PIECE_BYTES))

    assert [list(read) for _ in pieces_of(bodies())] == [[0], [0, 1], [0, 1, 2]]


@pytest.mark.parametrize(
    ("sizes", "frames", "why"),
    [
        ([], [b"ab"], "no body has room"),
        ([3], [b"ab", b"cd"], "do not make it up"),
        ([1 << 62], [b"ab"], "a body of"),
        (["2"], [b"ab"], "a body of"),
        ([2, 2], [b"ab"], "do not begin"),
        (None, [b"ab"], "without sizes"),
    ],
)
def test_pieces_that_make_up_no_bodies_are_malformed(sizes: object, frames: list[bytes], why: str) -> None:
    with pytest.raises(FrameError, match=why):
        Bodies(1).take({"answer": 1, "sizes": sizes}, list(map(zmq.Frame, frames)))


def test_an_answer_without_all_its_bodies_is_malformed() -> None:
    found = Bodies(1)
    found.take({"answer": 1, "sizes": [2, 3]}, [zmq.Frame(b"ab"), zmq.Frame(b"cd")])
    with pytest.raises(FrameError, match="bodies that are not those"):
        found.whole([2, 3])
    found.take({"answer": 1, "sizes": []}, [zmq.Frame(b"e")])
    for sizes in ([], [2], [3, 1], [2, 3, 1]):
        with pytest.raises(FrameError, match="bodies that are not those"):
            found.whole(sizes)
    assert found.whole([2, 3]) == [b"ab", b"cde"]
    assert found.whole([]) == [], "they take no memory here once they are given away"


def test_a_body_has_a_most_of_bytes_and_of_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    check_body([range(BODY_BYTES_MAX - 1), b"x", *[b""] * 100])
    for frames in ([range(BODY_BYTES_MAX), b"x"], [b""] * (FRAMES_MAX + 1)):
        with pytest.raises(FrameError, match="a record of"):
            check_body(frames)
    array = np.zeros(100)
    monkeypatch.setattr(body, "BODY_BYTES_MAX", sum(map(len, pack_body({}, [array]))))
    pack_body({}, [array])
    with pytest.raises(ValueError, match="over the limit"):
        pack_body({}, [array, array[:1]])


def test_a_record_of_too_many_frames_is_dropped_and_counted(servers: Cluster) -> None:
    servers.start()
    client = servers.client(1)
    client.open()
    head = {"type": "save", "name": "job/other.0", "fence": 0, "kind": "item", "seq": 1, "epoch": 1, "incarnation": 0}
    with zmq.Context() as context, context.socket(zmq.DEALER) as holder:
        holder.setsockopt(zmq.RCVTIMEO, int(WAIT_S * 1000))
        call_with(holder, own_authority().life("job/other.0", 0), own_authority().pair(BACKUP).public)
        holder.connect(servers.address(1))
        for count in (FRAMES_MAX + 1, 1):
            holder.send_multipart([msgpack.packb({**head, "number": 1}), *[b""] * count])
        assert msgpack.unpackb(holder.recv())["type"] == "unknown", "the second one, who must open first"
    assert servers.ask()["malformed"] == 1
    client.save("state", 1, {}, [])
    await_that(client, lambda: client.durable == 1)
