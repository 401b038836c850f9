"""Starts a service of this host as a process: a fork of this one, which has its imports behind it, or an interpreter.

A fork costs a tenth of an interpreter's start, and is safe only of a process with a single thread. A launcher starts
its services while it has one, and forks them; what dies beside its later threads is started anew as an interpreter.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Never, Protocol

from riprap.codec.trust.keys import own_authority
from riprap.controller.processes import die_with_parent, kill_by_pidfd, show_command

PROGRAM = "riprap.engine.cli.main"
"""The module whose `main` gets the words of a service's command."""
STREAMS = 3
"""The descriptors that a process begins with; those from here on are its own."""


class Process(Protocol):
    """A child, as subprocess.Popen has it."""

    @property
    def pid(self) -> int:
        """Its id, which no other process gets before `poll` or `wait` have told of its end."""

    def poll(self) -> int | None:
        """Its exit code, or minus a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or minus a signal, once it has ended; subprocess.TimeoutExpired when that is not in time."""

    def terminate(self) -> None:
        """SIGTERM it; no effect when it has ended."""

    def kill(self) -> None:
        """SIGKILL it; no effect when it has ended."""


def spawn(words: Sequence[str], log: Path) -> Process:
    """The process of `riprap WORDS`, which appends its output to the log; only for the main thread, with which it ends.

    It has a session of its own: the terminal's Ctrl-C is the launcher's to handle.
    """
    words = [*words, "--die-with-parent", str(os.getpid())]
    with log.open("ab") as stream:
        if has_one_thread():
            return Fork(words, stream.fileno())
        return subprocess.Popen(
            [sys.executable, "-P", "-m", PROGRAM, *words],  # -P: nothing in the current directory replaces ours
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )


def has_one_thread() -> bool:
    """True when this process has no thread, of whatever library, whose locks a fork would inherit for ever."""
    return len(os.listdir("/proc/self/task")) == 1


class Fork:
    """A child that is a fork of this process, and runs a command of ours in it."""

    def __init__(self, words: Sequence[str], output: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or the child would write it once more
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _become(words, output, parent)
        self._pidfd = os.pidfd_open(self.pid)
        self._code: int | None = None

    def poll(self) -> int | None:
        """As Process."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
                os.close(self._pidfd)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """As Process."""
        if self._code is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            poll.poll(None if timeout is None else timeout * 1000)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def terminate(self) -> None:
        """As Process."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """As Process."""
        self._send(signal.SIGKILL)

    def _send(self, signum: int) -> None:
        if self._code is None:
            kill_by_pidfd(self._pidfd, signum)


def _become(words: Sequence[str], output: int, parent: int) -> Never:
    """In the child: be what an interpreter that begins with these words would be, to its end."""
    code = 1
    try:
        die_with_parent(parent)
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.freeze()  # a collection would touch, and so copy, every page that it shares with its parent
        own_authority.cache_clear()  # the keys of a process are those that are in the folder as it starts
        _take_streams(output)
        if not sys.flags.safe_path:
            del sys.path[0]  # as -P has it: nothing beside the launcher's script or in its directory replaces ours
        show_command(words)
        import_module(PROGRAM).main(list(words))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # a full disk; the process must end here all the same
                stream.flush()
        os._exit(code)


def _take_streams(output: int) -> None:
    """Read nothing, write to `output`, and have no other file or socket of the parent's.

    Objects that the parent has left here may still close their descriptors: these lead nowhere, so that a descriptor
    of ours never gets a number of theirs.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd >= STREAMS and fd != nowhere:
            with contextlib.suppress(OSError):  # that of the listing
                os.set_inheritable(os.dup2(nowhere, fd), False)
