"""The zygote as its agent uses it: real forks, exits and deaths, without ZooKeeper or controller."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from riprap.codec.errors import ConfigError, FrameError
from riprap.controller import channel
from riprap.controller.messages import CHANNEL_BYTES_MAX
from riprap.controller.processes import tie_to_this_process
from riprap.controller.spawner import STARTS_MAX, Exited, Spawner, Started, await_end

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def spawner() -> Iterator[Spawner]:
    spawner = Spawner("spawned_entry:main", spares=2)
    yield spawner
    spawner.close()


heard: defaultdict[Spawner, list[Started | Exited]] = defaultdict(list)


def await_event(spawner: Spawner, kind: type) -> Started | Exited:
    """The next event of that kind; the others are kept for later calls."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for event in heard[spawner]:
            if isinstance(event, kind):
                heard[spawner].remove(event)
                return event
        heard[spawner].extend(spawner.events(1.0) or [])
    raise AssertionError(f"no {kind.__name__} in {PATIENCE_S} s")


def start(spawner: Spawner, log: Path) -> tuple[socket.socket, Started]:
    """A worker, and our end of its channel."""
    ours, theirs = channel.pair()
    ours.settimeout(PATIENCE_S)
    order = spawner.start(str(log), theirs)
    started = await_event(spawner, Started)
    assert isinstance(started, Started) and started.order == order
    return ours, started


def readable(fd: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


@pytest.mark.parametrize(("order", "status"), [(b"exit 0", 0), (b"exit 7", 7), (b"raise oops", 1)])
def test_exit_codes_arrive(spawner: Spawner, tmp_path: Path, order: bytes, status: int) -> None:
    end, started = start(spawner, tmp_path / "log")
    end.send(order)
    assert await_event(spawner, Exited) == Exited(started.pid, status)
    assert readable(started.pidfd, 0)
    os.close(started.pidfd)


def test_a_signal_arrives_and_the_pidfd_tells_at_once(spawner: Spawner, tmp_path: Path) -> None:
    _end, started = start(spawner, tmp_path / "log")
    assert not readable(started.pidfd, 0)
    os.kill(started.pid, signal.SIGKILL)
    assert readable(started.pidfd, PATIENCE_S)
    assert await_event(spawner, Exited) == Exited(started.pid, -signal.SIGKILL)
    os.close(started.pidfd)


def test_output_is_appended_to_the_log(spawner: Spawner, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    end, started = start(spawner, log)
    end.send(b"print hello")
    end.send(b"raise oops")
    await_event(spawner, Exited)
    os.close(started.pidfd)
    lines = log.read_text().splitlines()
    assert lines[:2] == ["before", "hello"]
    assert lines[-1] == "ValueError: oops"


def test_libraries_are_kept_single_threaded_and_nothing_is_inherited(spawner: Spawner, tmp_path: Path) -> None:
    workers = [start(spawner, tmp_path / "log") for _ in range(3)]
    for end, _ in workers:
        end.send(b"getenv OPENBLAS_NUM_THREADS")
        assert end.recv(100) == b"1"
        end.send(b"fds")
        assert int(end.recv(100)) <= 6, "stdin, stdout, stderr, log, channel, and the listing itself"
    assert await_end([started.pidfd for _, started in workers], PATIENCE_S)
    for _, started in workers:
        await_event(spawner, Exited)
        os.close(started.pidfd)


def test_a_worker_forked_for_its_order_inherits_nothing_either(tmp_path: Path) -> None:
    spawner = Spawner("spawned_entry:main", spares=0)
    try:
        end, started = start(spawner, tmp_path / "log")
        end.send(b"fds")
        assert int(end.recv(100)) <= 6
        os.close(started.pidfd)
    finally:
        spawner.close()


def test_many_more_orders_than_spares(spawner: Spawner, tmp_path: Path) -> None:
    ends = []
    for _ in range(10):
        ours, theirs = channel.pair()
        spawner.start(str(tmp_path / "log"), theirs)
        ends.append(ours)
    pids = {await_event(spawner, Started).pid for _ in ends}
    assert len(pids) == 10
    for end in ends:
        end.send(b"exit 0")
    assert {await_event(spawner, Exited).pid for _ in ends} == pids


def test_a_spare_that_was_killed_is_not_given_out(spawner: Spawner, tmp_path: Path) -> None:
    zygote = psutil.Process(spawner.pid)
    deadline = time.monotonic() + PATIENCE_S
    while len(spares := zygote.children()) < 2 and time.monotonic() < deadline:
        spawner.events(0.01)
    for spare in spares:
        spare.kill()
    while {*spares} & {*zygote.children()} and time.monotonic() < deadline:
        spawner.events(0.01)
    end, started = start(spawner, tmp_path / "log")
    assert started.pid not in {spare.pid for spare in spares}
    end.send(b"exit 5")
    assert await_event(spawner, Exited) == Exited(started.pid, 5)


def test_as_many_spares_wait_as_are_asked_for() -> None:
    spawner = Spawner("spawned_entry:main", spares=1)
    try:
        spawner.keep_spares(5)
        zygote, deadline = psutil.Process(spawner.pid), time.monotonic() + PATIENCE_S
        while len(zygote.children()) < 5:
            assert time.monotonic() < deadline, zygote.children()
            spawner.events(0.01)
    finally:
        spawner.close()


def test_workers_die_with_their_zygote_and_the_next_one_works(tmp_path: Path) -> None:
    spawner = Spawner("spawned_entry:main", spares=1)
    try:
        _, started = start(spawner, tmp_path / "log")
        os.kill(spawner.pid, signal.SIGKILL)
        assert readable(started.pidfd, PATIENCE_S), "the worker must die"
        deadline = time.monotonic() + PATIENCE_S
        while (events := spawner.events(0.1)) is not None:
            assert time.monotonic() < deadline, events
        spawner.replace()
        end, started = start(spawner, tmp_path / "log")
        end.send(b"exit 0")
        assert await_event(spawner, Exited) == Exited(started.pid, 0)
    finally:
        spawner.close()


def test_an_entry_that_cannot_be_imported_is_an_error_that_says_why() -> None:
    with pytest.raises(ConfigError, match="no_such_module:main cannot be imported: ModuleNotFoundError"):
        Spawner("no_such_module:main", spares=1)
    with pytest.raises(ConfigError, match="has no attribute 'absent'"):
        Spawner("spawned_entry:absent", spares=1)


KILLED = """\
import os, signal
with open(__file__ + ".starts", "a") as starts:
    starts.write(".")
if os.path.getsize(__file__ + ".starts") < {survives}:
    os.kill(os.getpid(), signal.SIGKILL)

from spawned_entry import main
"""


def test_a_zygote_that_is_killed_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "killed_thrice.py").write_text(KILLED.format(survives=4))
    spawner = Spawner("killed_thrice:main", spares=0)
    try:
        end, _ = start(spawner, tmp_path / "log")
        end.send(b"exit 7")
        status = await_event(spawner, Exited)
        assert isinstance(status, Exited) and status.status == 7
    finally:
        spawner.close()


def test_a_zygote_that_is_always_killed_is_an_error_and_not_one_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "always_killed.py").write_text(KILLED.format(survives=1000))
    with pytest.raises(ConfigError, match=f"was killed {STARTS_MAX} times") as caught:
        Spawner("always_killed:main", spares=0)
    assert "memory" in caught.value.remedy


def test_ties_to_a_thread_that_may_end_are_refused() -> None:
    caught: list[RuntimeError] = []

    def tie() -> None:
        with pytest.raises(RuntimeError, match="main thread") as error:
            tie_to_this_process()
        caught.append(error.value)

    thread = threading.Thread(target=tie)
    thread.start()
    thread.join(PATIENCE_S)
    assert len(caught) == 1


def test_a_child_whose_parent_is_gone_already_does_not_live() -> None:
    code = "from riprap.controller.processes import die_with_parent; die_with_parent(1); print('alive')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


def test_a_channel_passes_half_a_mebibyte_and_no_more() -> None:
    ours, theirs = channel.pair()
    with ours, theirs:
        sent = {"type": "spec", "data": bytes(CHANNEL_BYTES_MAX - 100)}
        thread = threading.Thread(target=lambda: channel.send(ours, sent))
        thread.start()
        assert channel.receive(theirs) == (sent, [])
        thread.join(PATIENCE_S)
        with pytest.raises(FrameError, match="over the limit"):
            channel.send(ours, {"type": "spec", "data": bytes(CHANNEL_BYTES_MAX)})
        ours.send(b"\xc1 not msgpack")
        with pytest.raises(FrameError):
            channel.receive(theirs)
        ours.close()
        assert channel.receive(theirs) is None
