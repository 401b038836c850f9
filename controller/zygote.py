"""The agent's child that imports the workers' code once and forks ready interpreters from itself.

It has a single thread, for only then is a fork of it safe, and PR_SET_PDEATHSIG (tied to threads) means what it says.
Messages on its channel: it gets {"type": "start", "id", "log"} with the worker's channel end as a descriptor, and
{"type": "spares", "count"} when another number of interpreters is to wait; it sends "ready" once, or "broken" with the
import error; "started" with id, pid and a pidfd; and "exited" with pid and status.
Run as `python -m riprap.controller.zygote FD MODULE:FUNCTION SPARES`.
"""

from __future__ import annotations

from riprap.codec.start import importing

with importing():
    import contextlib
    import os
    import select
    import signal
    import socket
    import sys
    import traceback
    from collections.abc import Callable, Sequence
    from importlib import import_module
    from types import FrameType
    from typing import Never

    from riprap.codec.trust.paths import open_to_append
    from riprap.controller import channel
    from riprap.controller.processes import die_with_parent

Entry = Callable[[int], int]


class Zygote:
    """Serves start orders until its agent is gone; `entry(control_fd)` is a worker's whole life, and its exit code."""

    def __init__(self, agent: socket.socket, entry: Entry, spares: int) -> None:
        self._agent = agent
        self._entry = entry
        self._spares_wanted = spares
        self._spares: dict[int, socket.socket] = {}
        self._wakeup, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(wake)

    def serve(self) -> None:
        """Fork, hand out and reap until the agent's end is closed."""
        channel.send(self._agent, {"type": "ready"})
        poll = select.poll()
        poll.register(self._agent, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while True:
            # Orders first: spares are replaced when nothing waits.
            ready = dict(poll.poll(0 if len(self._spares) < self._spares_wanted else None))
            if self._wakeup in ready:
                os.read(self._wakeup, 4096)
                self._reap()
            if self._agent.fileno() in ready:
                received = channel.receive(self._agent)
                if received is None:
                    return
                self._obey(*received)
            elif not ready:
                self._fork_spare()

    def _obey(self, order: channel.Message, fds: list[int]) -> None:
        if order["type"] == "start":
            self._start(order, fds)
        elif order["type"] == "spares":
            self._spares_wanted = order["count"]  # what is too many waits for the next orders

    def _start(self, order: channel.Message, fds: list[int]) -> None:
        """Give the order and the descriptor to a spare, and tell the agent its pid, with a pidfd."""
        while True:
            if not self._spares:
                self._fork_spare(fds)
            pid, end = self._spares.popitem()
            try:
                channel.send(end, order, tuple(fds))
                break
            except OSError:  # that spare was killed; it is reaped soon
                end.close()
        end.close()
        for fd in fds:
            os.close(fd)
        pidfd = os.pidfd_open(pid)  # it is our child and not reaped, so this is that process and no other
        channel.send(self._agent, {"type": "started", "id": order["id"], "pid": pid}, (pidfd,))
        os.close(pidfd)

    def _fork_spare(self, foreign: Sequence[int] = ()) -> None:
        """Have one spare more, which does not inherit the `foreign` descriptors."""
        zygote, (ours, theirs) = os.getpid(), channel.pair()
        pid = os.fork()
        if pid == 0:
            for fd in foreign:
                os.close(fd)
            self._become_spare(zygote, theirs, ours)
        theirs.close()
        self._spares[pid] = ours

    def _become_spare(self, zygote: int, order_end: socket.socket, ours: socket.socket) -> Never:
        """In the child: wait for an order, then live as that worker."""
        code = 1
        try:
            die_with_parent(zygote)
            os.close(signal.set_wakeup_fd(-1))
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # who ends a worker is its agent's to say
            os.close(self._wakeup)
            for end in (self._agent, ours, *self._spares.values()):
                end.close()
            received = channel.receive(order_end)
            if received is None:
                os._exit(0)
            order, fds = received
            order_end.close()
            _redirect_output(order["log"])
            code = self._entry(fds[0])
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError):  # a full disk; the process must end here all the same
                    stream.flush()
            os._exit(code)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            spare = self._spares.pop(pid, None)
            if spare is not None:
                spare.close()
            else:
                channel.send(self._agent, {"type": "exited", "pid": pid, "status": os.waitstatus_to_exitcode(status)})


def _ignore(signum: int, frame: FrameType | None) -> None:
    """A handler must be there for the wakeup descriptor to be written."""


def _redirect_output(log: str) -> None:
    fd = open_to_append(log)
    os.dup2(fd, 1)
    os.dup2(fd, 2)


def load(entry: str) -> Entry:
    """The function that `module:function` names; any import error passes through."""
    module, _, name = entry.partition(":")
    function: Entry = getattr(import_module(module), name)
    return function


def main() -> None:
    """The process: import, serve."""
    agent = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with importing():  # a collection in a child would touch, and so copy, every page that it shares with us
            entry = load(sys.argv[2])
    except BaseException as error:
        channel.send(agent, {"type": "broken", "error": f"{type(error).__name__}: {error}"})
        raise
    Zygote(agent, entry, int(sys.argv[3])).serve()


if __name__ == "__main__":
    main()
