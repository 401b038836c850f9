"""Agents and controllers that are told to end do so at once, not when their poller has waited long enough."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
import zmq

from riprap.controller.processes import Ended

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture
def ended() -> Iterator[Ended]:
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    ended = Ended()
    yield ended
    os.close(ended.fileno())
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_ends_the_wait_of_a_poller(ended: Ended, signum: signal.Signals) -> None:
    poller = zmq.Poller()
    poller.register(ended.fileno(), zmq.POLLIN)
    assert not poller.poll(0) and not ended
    threading.Timer(0.1, os.kill, (os.getpid(), signum)).start()
    begun = time.monotonic()
    assert poller.poll(60_000) and ended
    assert time.monotonic() < begun + 30
