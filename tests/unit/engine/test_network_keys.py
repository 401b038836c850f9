"""Networks with keys: each life hears those whom it expects, by their keys, and nobody else whatever their names."""

import time

import pytest
import zmq
from network_pairs import endpoint, receive

from riprap.codec.ids import Incarnation, WorkerId
from riprap.codec.trust.curve import call_with
from riprap.codec.trust.keys import Authority
from riprap.engine.wire.network import UPSTREAM, Network
from riprap.engine.worker.guests import Guests, open_door

OURS, OTHERS = Authority(b"s" * 32), Authority(b"t" * 32)
SINK, SENDER = WorkerId("sink", 0), WorkerId("processor", 1)
MESSAGE_BYTES_MAX = 1 << 20
PATIENCE_S = 120.0


def life(worker, number, authority=OURS, records="words-1a"):
    return authority.life(f"{records}/{worker}", number)


class Receiver:
    """The sink's network, with its doorkeeper."""

    def __init__(self, transport):
        self.keys = life(SINK, 1)
        self.network = Network(MESSAGE_BYTES_MAX, keys=self.keys)
        self.bound = self.network.bind(endpoint(transport))
        self.guests = Guests([SENDER])
        self.door = open_door(self.network, self.guests)
        self.network.start()

    def expect(self, number):
        self.guests.expect(SENDER, Incarnation(number), life(SENDER, number).public)
        self.door.look_again()

    def dropped(self):
        return self.network.counters()["dropped"]["stranger"]

    def close(self):
        self.door.close()
        self.network.close()


@pytest.fixture(params=["ipc", "tcp"])
def receiver(request):
    made = Receiver(request.param)
    yield made
    made.close()


@pytest.fixture
def senders():
    """Makes started networks of lives, which are closed at the end."""
    made = []

    def make(number, worker=SENDER):
        made.append(Network(MESSAGE_BYTES_MAX, keys=life(worker, number)))
        made[-1].start()
        return made[-1]

    yield make
    for network in made:
        network.close()


def say(sender, receiver, identity):
    assert sender.send(sender.connect(receiver.bound, identity, receiver.keys.public), b"header", [b"x" * 100_000])


def heard(receiver):
    [(origin, peer, header, frames)] = receive(receiver.network, 1)
    assert (origin, header, len(frames[0])) == (UPSTREAM, b"header", 100_000)
    return peer


def stranger(context, bound, pair, server):
    """A socket that says it is the sender, and its monitor, which tells of the first failure."""
    caller = context.socket(zmq.DEALER)
    caller.setsockopt(zmq.LINGER, 0)
    caller.setsockopt(zmq.ROUTING_ID, b"processor.1#1")
    if pair is not None:
        call_with(caller, pair, server)
    monitor = caller.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | FAILED)
    caller.connect(bound)
    caller.send(b"forged")
    return caller, monitor


FAILED = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH


@pytest.mark.parametrize(
    ("pair", "server"),
    [
        (None, b""),
        (life(SENDER, 1, OTHERS), life(SINK, 1, OTHERS).public),
        (life(SENDER, 1), life(SINK, 2).public),
        (life(SENDER, 1, records="words-1b"), life(SINK, 1, records="words-1b").public),
        (OURS.pair("agent"), OURS.pair("controller").public),
    ],
    ids=["in plain", "with another secret", "to another life", "of another run", "of another role"],
)
def test_a_stranger_that_comes_first_is_not_heard_and_takes_no_ones_place(receiver, senders, pair, server):
    receiver.expect(1)
    with zmq.Context() as context:
        caller, monitor = stranger(context, receiver.bound, pair, server)
        assert monitor.poll(PATIENCE_S * 1000), "nothing happened"
        event = int.from_bytes(monitor.recv_multipart()[0][:2], "little")
        assert event != zmq.EVENT_HANDSHAKE_SUCCEEDED
        sender = senders(1)
        say(sender, receiver, b"processor.1#1")
        assert heard(receiver) == b"processor.1#1"
        assert receiver.network.reply(b"processor.1#1", b"thanks") and receive(sender, 1)[0][2] == b"thanks"
        caller.disable_monitor()
        caller.close()
    assert receiver.network.counters()["upstream"]["messages_in"] == 1
    receiver.door.close()
    assert receiver.door.refused >= 1


def test_a_life_waits_until_a_view_has_told_of_it_and_is_heard_then(receiver, senders):
    receiver.expect(1)
    say(senders(2), receiver, b"processor.1#2")
    say(senders(1), receiver, b"processor.1#1")
    assert heard(receiver) == b"processor.1#1" and receiver.network.receive(0) == []
    receiver.expect(2)
    assert heard(receiver) == b"processor.1#2" and receiver.door.refused == 0


@pytest.mark.parametrize("over", ["replaced", "down"])
def test_the_key_of_a_life_that_is_over_is_worth_nothing(receiver, senders, over):
    receiver.expect(1)
    if over == "replaced":
        receiver.expect(2)
    else:
        receiver.guests.dismiss(SENDER)
    for name in (b"processor.1#1", b"processor.1#2"):
        say(senders(1), receiver, name)
    deadline = time.monotonic() + PATIENCE_S
    while receiver.door.refused < 2 and time.monotonic() < deadline:
        assert receiver.network.receive(10) == []
    assert receiver.door.refused == 2


def test_a_peer_is_who_its_key_says_and_not_who_it_says(receiver, senders):
    """One life of the job takes another's name; a prefix, a longer one and another case of its own are no better."""
    receiver.expect(1)
    thief = senders(1)
    for name in (b"source.0#1", b"processor.2#1", b"processor.1#11", b"processor.1#", b"Processor.1#1"):
        say(thief, receiver, name)
    say(thief, receiver, b"processor.1#1")
    assert heard(receiver) == b"processor.1#1"
    deadline = time.monotonic() + PATIENCE_S
    while receiver.dropped() < 5 and time.monotonic() < deadline:
        assert receiver.network.receive(10) == []
    assert receiver.dropped() == 5


def test_nothing_is_sent_to_a_false_listener(senders):
    false = Network(MESSAGE_BYTES_MAX, keys=life(SINK, 2))
    bound = false.bind(endpoint("tcp"))
    false.start()
    sender = senders(1)
    sender.send(sender.connect(bound, b"processor.1#1", life(SINK, 1).public), b"header", [b"a secret"])
    assert false.receive(300) == []
    false.close()


@pytest.mark.parametrize("keys", [(b"short", b"short"), (b"x" * 40, b"x" * 39)])
def test_what_is_no_key_is_refused(keys):
    with pytest.raises(ValueError, match="40 characters of Z85"):
        Network(MESSAGE_BYTES_MAX, keys=keys)


def test_a_key_is_called_with_a_key(senders):
    with pytest.raises(ValueError, match="40 characters of Z85"):
        senders(1).connect(endpoint("ipc"), b"processor.1#1", b"short")
    with pytest.raises(ValueError, match="holder of another"):
        senders(1).connect(endpoint("ipc"), b"processor.1#1")
    plain = Network(MESSAGE_BYTES_MAX)
    with pytest.raises(ValueError, match="holder of another"):
        plain.connect(endpoint("ipc"), b"processor.1#1", life(SINK, 1).public)
    plain.close()
