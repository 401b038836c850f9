"""Networks for the tests: made, connected, awaited and closed in one place."""

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from riprap.engine.wire.network import Frame, Network

MESSAGE_BYTES_MAX = 16 << 20
DEADLINE_S = 120.0

Message = tuple[int, bytes | int, bytes, list[Frame]]

_numbers = itertools.count()


def endpoint(transport: str) -> str:
    """An unused endpoint to bind: "tcp", or "ipc" for an abstract name."""
    if transport == "tcp":
        return "tcp://127.0.0.1:0"
    return f"ipc://@riprap-test-{os.getpid()}-{next(_numbers)}"


@contextmanager
def network(max_message_bytes: int = MESSAGE_BYTES_MAX, receive_capacity: int = 4096) -> Iterator[Network]:
    """A network that is not started, closed in the end."""
    made = Network(max_message_bytes, receive_capacity)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def listener(
    transport: str = "ipc", max_message_bytes: int = MESSAGE_BYTES_MAX, receive_capacity: int = 4096
) -> Iterator[tuple[Network, str]]:
    """A started network and the endpoint where it is bound."""
    with network(max_message_bytes, receive_capacity) as made:
        bound = made.bind(endpoint(transport))
        made.start()
        yield made, bound


@contextmanager
def pair(transport: str = "ipc") -> Iterator[tuple[Network, int, Network]]:
    """A sender, its link, and the receiver."""
    with listener(transport) as (receiver, bound), network() as sender:
        sender.start()
        yield sender, sender.connect(bound, b"sender"), receiver


def receive(receiver: Network, count: int) -> list[Message]:
    """The next `count` messages, no more; fails when they do not come."""
    messages: list[Message] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages came"
        messages += receiver.receive(100)
    assert len(messages) == count
    return messages


def await_that(condition: Callable[[], bool], *busy: Network) -> None:
    """Let the networks work until the condition holds; fails when it never does."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        for one in busy:
            assert one.receive(1) == []
