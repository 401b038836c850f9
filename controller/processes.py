"""Linux ties between processes: a child that dies with its parent, and signals that cannot hit a recycled pid."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import threading
from collections.abc import Callable
from types import FrameType

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
CONTROL_NICENESS = -10
SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""For the environment. Workers are many and each has its own compute threads: libraries must not start more. The others
compute nothing, and starting threads takes a third of the time in which NumPy is imported."""

_libc = ctypes.CDLL(None, use_errno=True)


def allow_open_files() -> None:
    """Let this process, and those that it starts, have as many files open as the system lets them: every shard of an
    input is one. The usual limit, 1024, is for programs that use select(2)."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def die_with_parent(parent: int) -> None:
    """Ask the kernel to SIGKILL this process when its parent, of this pid, dies.

    A parent that is already gone ends this process at once. The kernel ties the child to the *thread*
    that forked it (prctl(2)), so the parent must fork from a thread that lives as long as it does: its main thread.
    """
    if _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def run_before_workers() -> None:
    """Let this process go before the workers when cores are short, where the system permits it (as root).

    Detecting a death takes microseconds of work, but waiting for a core among busy workers takes milliseconds. Its
    children go first too, so a worker until it calls `run_as_worker`: the others wait for one that is being restored.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, CONTROL_NICENESS)


class Ended:
    """True from the first SIGTERM or SIGINT on, when `fileno` becomes readable for a poller; for the main thread."""

    def __init__(self) -> None:
        self._is_true = False
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._end)

    def __bool__(self) -> bool:
        return self._is_true

    def fileno(self) -> int:
        """For a poller."""
        return self._fd

    def _end(self, signum: int, frame: FrameType | None) -> None:
        self._is_true = True
        os.eventfd_write(self._fd, 1)


def begin_service() -> Ended:
    """The first steps of agents and controllers, on the main thread; returns the order to end."""
    run_before_workers()
    return Ended()


def run_as_worker() -> None:
    """Take back, for all threads, the priority inherited from a process that ran `run_before_workers`."""
    for thread in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(ProcessLookupError):
            if os.getpriority(os.PRIO_PROCESS, thread) < 0:
                os.setpriority(os.PRIO_PROCESS, thread, 0)


def tie_to_this_process() -> Callable[[], None]:
    """A preexec function for subprocess.Popen that makes the child die with this process, exec or not.

    Raises RuntimeError on any thread but the main one, where the tie would be to a thread that may end sooner.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("start this child from the main thread: it would die with the thread that starts it")
    parent = os.getpid()
    return lambda: die_with_parent(parent)


def kill_by_pidfd(pidfd: int) -> bool:
    """SIGKILL exactly that process; False when it is gone already."""
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
