"""The network between two ends in one process: what is sent arrives, and mistakes are told."""

import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_pairs import await_that, endpoint, listener, network, pair, receive

from riprap.engine.wire._zmq import version
from riprap.engine.wire.network import DOWNSTREAM, UPSTREAM, Network

TRANSPORTS = ["ipc", "tcp"]
SIZES = st.one_of(st.integers(0, 100), st.sampled_from([2047, 2048, 2049, 8192, 65536]), st.integers(0, 300_000))


def test_one_libzmq_of_a_known_version_is_bound():
    assert version() >= (4, 3, 0)
    with open("/proc/self/maps") as maps:
        libraries = {line.split()[-1] for line in maps if "libzmq" in line}
    assert len(libraries) <= 1


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_message_arrives_whole_and_its_reply_comes_back(transport):
    with pair(transport) as (sender, link, receiver):
        array = np.arange(50_000.0).reshape(100, 500)
        assert sender.send(link, b"header", [array, b"small", bytearray(), memoryview(b"x" * 10_000)])
        [(origin, peer, header, frames)] = receive(receiver, 1)
        assert (origin, peer, header) == (UPSTREAM, b"sender", b"header")
        assert np.array_equal(np.frombuffer(frames[0]).reshape(array.shape), array)
        assert [bytes(frame) for frame in frames[1:]] == [b"small", b"", b"x" * 10_000]
        assert [len(frame) for frame in frames] == [array.nbytes, 5, 0, 10_000]
        assert receiver.reply(peer, b"thanks")
        assert receive(sender, 1) == [(DOWNSTREAM, link, b"thanks", [])]
        # Counted as sent a moment after libzmq has it.
        await_that(lambda: receiver.counters()["upstream"]["messages_out"] == 1)
        size = len(b"header") + array.nbytes + 5 + 10_000
        forth, back = sender.counters()["downstream"], receiver.counters()["upstream"]
        assert (forth["messages_out"], forth["bytes_out"]) == (back["messages_in"], back["bytes_in"]) == (1, size)
        assert (back["messages_out"], back["bytes_out"]) == (forth["messages_in"], forth["bytes_in"]) == (1, 6)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_messages_of_any_shape_arrive_unchanged_and_in_order(transport):
    with pair(transport) as (sender, link, receiver):

        @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(messages=st.lists(st.lists(SIZES, max_size=16), min_size=1, max_size=5), seed=st.integers(0, 2**32))
        def check(messages, seed):
            random = np.random.default_rng(seed)
            sent = [[random.bytes(size) for size in sizes] for sizes in messages]
            for number, frames in enumerate(sent):
                assert sender.send(link, b"%d" % number, frames)
            for number, (_, _, header, frames) in enumerate(receive(receiver, len(sent))):
                assert header == b"%d" % number
                assert [bytes(frame) for frame in frames] == sent[number]

        check()


def test_the_largest_message_arrives_and_one_byte_more_is_refused():
    size = 8 << 20
    with listener(max_message_bytes=size + 1) as (receiver, bound), network(size + 1) as sender:
        sender.start()
        link = sender.connect(bound, b"sender")
        content = np.random.default_rng(7).bytes(size)
        assert sender.send(link, b"h", [content])
        assert bytes(receive(receiver, 1)[0][3][0]) == content
        with pytest.raises(ValueError, match="over the bound of 8388609"):
            sender.send(link, b"hh", [content])
        with pytest.raises(ValueError, match="over the bound"):
            receiver.reply(b"sender", content + b"hh")


def test_many_senders_keep_their_own_order():
    senders, count = 6, 400
    with listener() as (receiver, bound):

        def run(name):
            with network() as sender:
                sender.start()
                link = sender.connect(bound, name)
                for number in range(count):
                    assert sender.send(link, b"%d" % number, [b"f" * (number % 7 * 3000)])
                receive(sender, 1)

        threads = [threading.Thread(target=run, args=(b"sender-%d" % i,)) for i in range(senders)]
        for thread in threads:
            thread.start()
        seen = {}
        for _, peer, header, frames in receive(receiver, senders * count):
            assert int(header) == seen.get(peer, 0)
            assert len(frames[0]) == int(header) % 7 * 3000
            seen[peer] = int(header) + 1
        assert seen == {b"sender-%d" % i: count for i in range(senders)}
        for peer in seen:
            assert receiver.reply(peer, b"done")
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()


def test_a_full_ring_of_arrivals_holds_the_sender_back_and_loses_nothing():
    count = 5_000
    with listener(receive_capacity=4) as (receiver, bound), network() as sender:
        sender.start()
        link = sender.connect(bound, b"sender")
        sent = 0
        while sent < count:
            sent += sender.send(link, b"%d" % sent, [b"x" * 500])
        await_that(lambda: sender.counters()["downstream"]["messages_out"] == count)
        # Read so far: what fits into the ring, and the one in the thread's hand.
        assert receiver.counters()["upstream"]["messages_in"] <= 5
        assert [int(message[2]) for message in receive(receiver, count)] == list(range(count))


def test_a_link_sends_what_it_was_given_before_the_peer_was_bound():
    where = endpoint("ipc")
    with network() as sender, network() as receiver:
        link = sender.connect(where, b"early")
        assert sender.send(link, b"first")
        sender.start()
        assert receiver.bind(where) == where
        receiver.start()
        assert [message[2] for message in receive(receiver, 1)] == [b"first"]


def test_one_network_listens_at_several_endpoints(tmp_path):
    with network() as receiver, network() as sender:
        bound = [receiver.bind(where) for where in (endpoint("ipc"), endpoint("tcp"), f"ipc://{tmp_path}/socket")]
        assert bound[1].startswith("tcp://127.0.0.1:") and not bound[1].endswith(":0")
        receiver.start()
        sender.start()
        for number, where in enumerate(bound):
            assert sender.send(sender.connect(where, b"p%d" % number), b"hello")
        assert {message[1] for message in receive(receiver, 3)} == {b"p0", b"p1", b"p2"}


def test_wake_ends_the_present_wait_or_the_next():
    with network() as one:
        one.start()
        one.wake()
        assert one.receive(60_000) == []
        waker = threading.Timer(0.05, one.wake)
        waker.start()
        assert one.receive(60_000) == []
        waker.join()


def test_an_empty_receive_waits_its_time_and_a_zero_one_does_not():
    with network() as one:
        one.start()
        start = time.monotonic()
        assert one.receive(0) == []
        assert one.receive(12.5) == []
        assert time.monotonic() - start >= 0.0125


def test_what_is_queued_at_close_is_sent_within_the_linger():
    with listener() as (receiver, bound):
        sender = Network(1 << 20)
        sender.start()
        link = sender.connect(bound, b"sender")
        for number in range(100):
            assert sender.send(link, b"%d" % number, [b"x" * 20_000])
        sender.close(10_000)
        assert [int(message[2]) for message in receive(receiver, 100)] == list(range(100))


def test_a_closed_network_refuses_work_and_may_be_closed_again():
    one = Network(1000)
    link = one.connect(endpoint("ipc"), b"me")
    assert one.send(link, b"never")
    one.close()
    one.close(5)
    one.wake()
    assert one.counters()["downstream"]["messages_out"] == 1  # libzmq had it, and dropped it
    for call in (one.start, one.receive, lambda: one.send(link, b"h"), lambda: one.reply(b"p", b"h")):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_a_port_in_use_is_told_with_its_endpoint():
    with network() as first, network() as second:
        bound = first.bind("tcp://127.0.0.1:0")
        with pytest.raises(OSError, match="Address already in use") as caught:
            second.bind(bound)
        assert bound in str(caught.value)


@pytest.mark.parametrize(
    "where", ["inproc://x", "127.0.0.1:5000", "", "tcp://127.0.0.1:70000", "tcp://127.0.0.1", "tcp://127.0.0.1:port"]
)
def test_what_is_no_endpoint_is_refused(where):
    with network() as one:
        for call in (one.bind, lambda endpoint: one.connect(endpoint, b"me")):
            with pytest.raises((ValueError, OSError)) as caught:
                call(where)
            assert repr(where) in str(caught.value)


def test_wrong_arguments_are_refused_and_leave_the_network_usable():
    with pair() as (sender, link, receiver):
        with pytest.raises(ValueError, match="16 frames"):
            sender.send(link, b"h", [b""] * 17)
        with pytest.raises(ValueError, match="header"):
            sender.send(link, b"", [b"frame"])
        with pytest.raises(ValueError, match="contiguous"):
            sender.send(link, b"h", [b"x" * 9000, np.zeros((100, 100))[:, ::2]])
        with pytest.raises(TypeError):
            sender.send(link, b"h", ["text"])
        with pytest.raises(ValueError, match="timeout_ms"):
            sender.receive(float("nan"))
        for identity in (b"", b"\0x", b"i" * 256):
            with pytest.raises(ValueError, match="identity"):
                sender.connect(endpoint("ipc"), identity)
        with pytest.raises(ValueError, match="power of two"):
            Network(1000, 1000)
        with pytest.raises(RuntimeError, match="before start"):
            sender.bind(endpoint("ipc"))
        assert sender.send(link, b"good")
        assert [message[2] for message in receive(receiver, 1)] == [b"good"]


def test_a_message_for_nobody_is_dropped_and_counted():
    with pair() as (sender, link, receiver):
        assert sender.send(link + 1, b"to a link that is not there")
        assert receiver.reply(b"stranger", b"to a peer that is not there")
        sender.disconnect(link + 7)
        assert sender.send(link, b"good")
        receive(receiver, 1)
        assert sender.counters()["dropped"]["unroutable"] == 1
        assert receiver.reply(b"sender", b"good")
        receive(sender, 1)
        assert receiver.counters()["dropped"]["unroutable"] == 1
