"""Memory in the network: lent, shared, given back, and never leaked."""

import gc
import os
import weakref

import numpy as np
import psutil
import pytest
from network_pairs import await_that, endpoint, listener, network, pair, receive

from riprap.engine.wire._message import live
from riprap.engine.wire.network import Network

LARGE = 64 * 1024


def test_a_large_buffer_is_lent_until_it_is_sent_and_then_released():
    with pair() as (sender, link, receiver):
        array = np.ones(LARGE)
        gone = weakref.ref(array)
        assert sender.send(link, b"h", [array])
        del array
        [(_, _, _, [frame])] = receive(receiver, 1)
        await_that(lambda: gone() is None, sender)
        assert live()[1] == 0
        assert np.frombuffer(frame).sum() == LARGE


def test_a_small_buffer_is_the_callers_again_at_once():
    where = endpoint("ipc")
    with network() as sender:
        sender.start()
        link = sender.connect(where, b"sender")
        small, large = bytearray(1000), bytearray(LARGE)
        assert sender.send(link, b"h", [small, large])
        small.append(1)
        with pytest.raises(BufferError):
            large.append(1)
        sender.disconnect(link)
        await_that(lambda: live()[1] == 0, sender)
        large.append(1)


def test_a_large_buffer_is_not_copied():
    where = endpoint("ipc")
    with network() as sender, network() as receiver:
        sender.start()
        link = sender.connect(where, b"sender")
        array = np.zeros(LARGE)
        assert sender.send(link, b"h", [array])
        await_that(lambda: sender.counters()["downstream"]["messages_out"] == 1)
        array[:] = 7  # what nobody may do: it shows whose memory goes out
        receiver.bind(where)
        receiver.start()
        [(_, _, _, [frame])] = receive(receiver, 1)
        assert (np.frombuffer(frame) == 7).all()


def test_a_received_frame_goes_on_without_a_copy():
    size, times = 8 << 20, 50
    with pair() as (sender, link, middle), network() as last:
        assert sender.send(link, b"h", [np.full(size, 5, np.uint8)])
        [(_, _, _, [frame])] = receive(middle, 1)
        await_that(lambda: live()[1] == 0, sender)
        where = endpoint("ipc")
        onward = middle.connect(where, b"middle")
        process = psutil.Process()
        before = process.memory_info().rss
        for _ in range(times):
            assert middle.send(onward, b"frame", [frame])
        assert live()[1] == 0
        assert middle.send(onward, b"array", [np.frombuffer(frame)])
        assert live()[1] == 1
        await_that(lambda: middle.counters()["downstream"]["messages_out"] == times + 1)
        assert process.memory_info().rss - before < times * size / 10
        last.bind(where)
        last.start()
        for _, _, _, frames in receive(last, times + 1):
            assert (np.frombuffer(frames[0], np.uint8) == 5).all()


def test_frames_outlive_the_network_and_arrays_keep_them_alive():
    with pair() as (sender, link, receiver):
        assert sender.send(link, b"h", [np.arange(10.0), np.arange(10_000.0)])
        arrays = [np.frombuffer(frame) for frame in receive(receiver, 1)[0][3]]
    gc.collect()
    for array in arrays:
        assert np.array_equal(array, np.arange(float(len(array))))
        assert not array.flags.writeable


def test_a_sender_without_a_downstream_thread_gets_false_and_keeps_nothing():
    with network() as sender:
        link = sender.connect(endpoint("ipc"), b"sender")
        array = np.zeros(LARGE)
        accepted = 0
        while sender.send(link, b"h", [array]):
            accepted += 1
            assert accepted < 10_000
        assert live() == (accepted + 1, accepted)  # and the command to connect
        with pytest.raises(BlockingIOError):
            sender.connect(endpoint("ipc"), b"another")
        assert live() == (accepted + 1, accepted)
    assert live() == (0, 0)


@pytest.mark.parametrize("linger_ms", [0, 50])
def test_closing_under_load_leaks_nothing(linger_ms):
    array = np.zeros(LARGE)
    with listener(receive_capacity=16) as (receiver, bound):
        senders = [Network(1 << 24) for _ in range(3)]
        links = [sender.connect(bound, b"sender-%d" % i) for i, sender in enumerate(senders)]
        for sender in senders:
            sender.start()
        for _ in range(200):
            for sender, link in zip(senders, links):
                sender.send(link, b"header", [array, b"small", array])
        receive_some(receiver)
        for sender in senders:
            sender.close(linger_ms)
        receive_some(receiver)
        receiver.close(linger_ms)
        assert live() == (0, 0)


def receive_some(receiver):
    for _, peer, _, _ in receiver.receive(1000):
        receiver.reply(peer, b"ack")


def test_a_network_that_is_forgotten_frees_its_threads_and_memory():
    threads = psutil.Process().num_threads()
    one = Network(1 << 24)
    one.bind(endpoint("ipc"))
    one.start()
    link = one.connect(endpoint("ipc"), b"me")
    assert one.send(link, b"h", [np.zeros(LARGE)])
    assert psutil.Process().num_threads() > threads
    del one
    assert psutil.Process().num_threads() <= threads
    with network() as other:
        assert other.receive(0) == []
    assert live() == (0, 0)


def test_a_thousand_connections_come_and_go_without_leaving_a_file_descriptor():
    with listener() as (receiver, bound), network() as sender:
        sender.start()
        link = sender.connect(bound, b"warm-up")
        sender.send(link, b"h")
        receive(receiver, 1)
        fds = len(os.listdir("/proc/self/fd"))
        for number in range(1000):
            link = sender.connect(bound, b"peer-%d" % number)
            if number % 10 == 0:
                assert sender.send(link, b"%d" % number, [b"x" * 10_000])
                assert receive(receiver, 1)[0][1] == b"peer-%d" % number
            sender.disconnect(link)
            if number % 50 == 0:
                await_that(lambda: len(os.listdir("/proc/self/fd")) < fds + 50, sender)
        await_that(lambda: len(os.listdir("/proc/self/fd")) <= fds, sender)
        gc.collect()
        assert live() == (0, 0)
