"""The process that runs a job for a program: as `riprap run` does, but told by messages, and gone with the program.

Run as `python -m riprap.engine.api.launcher FD`, with the launcher's end of the channel as a descriptor.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from riprap.codec.start import importing

with importing():
    from riprap.codec.errors import FrameError, RiprapError
    from riprap.controller import channel, ensemble
    from riprap.controller.messages import Message
    from riprap.engine.api import messages
    from riprap.engine.run.execute import Kill, run_to_end
    from riprap.engine.run.snapshot import Snapshot
    from riprap.engine.run.start import Start, start_again, start_anew
    from riprap.engine.run_directory.directory import read_summary
    from riprap.engine.services.hosts import pretended_hosts
    from riprap.operators import by_value

TELL_S = 5.0
"""Longest wait for a program that does not read an important message (it is stopped, say)."""


class Launcher:
    """One job, from the first message to the last."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._kill: Kill | None = None

    def run(self) -> None:
        """Until the job has ended and everything that it needed is gone."""
        received = channel.receive(self._end)
        if received is None:
            return
        order, _ = received
        self._end.setblocking(False)
        threading.Thread(target=self._obey, args=(order["program"],), name="orders", daemon=True).start()
        try:
            start = _start(order)
        except (Exception, KeyboardInterrupt) as error:
            self._tell_last({"type": messages.REFUSED, **_described(error)})
            return
        sinks = sum(start.job.topology.stages[stage].parallelism for stage in start.job.topology.sinks)
        started = {"run_dir": str(start.run_dir), "job": start.job.topology.job, "sinks": sinks}
        self._tell({"type": messages.STARTED, **started})
        self._tell_last({"type": messages.ENDED, **self._run(start, order)})

    def _run(self, start: Start, order: Message) -> dict[str, Any]:
        """Run the job to its end; returns the outcome."""
        try:
            _, failure = run_to_end(start, self, order["zookeeper"], order["standby"], self._take_kill)
        except KeyboardInterrupt:  # it may have come when nothing was left to cancel
            return {"phase": "COMPLETED" if read_summary(start.run_dir).get("completed") else "CANCELLED"}
        except Exception as error:
            return {"phase": "FAILED", **_described(error)}
        return {"phase": "FAILED", **_described(failure)} if failure else {"phase": "COMPLETED"}

    def _take_kill(self, kill: Kill) -> None:
        self._kill = kill

    # what a display does
    def show(self, snapshot: Snapshot) -> None:
        """Tell the program; one that does not read misses it."""
        with suppress(OSError, FrameError):
            channel.send(self._end, {"type": messages.PROGRESS, **asdict(snapshot)})

    def close(self) -> None:
        """The job has ended. To cancel it now would stop the clean-up half way, and leave it without a summary."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    # what the program says
    def _obey(self, program: int) -> None:
        """Carry out orders; interrupt the job when it is cancelled, or when the program has ended."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        with suppress(ProcessLookupError):  # children that it forked may keep its end of the channel open
            poll.register(os.pidfd_open(program), select.POLLIN)
        while os.getppid() == program:
            ready = {fd for fd, _ in poll.poll()}
            received = channel.receive(self._end) if self._end.fileno() in ready else None
            if received is None or received[0]["type"] == messages.CANCEL:
                break
            self._obey_kill(received[0])
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        signal.pthread_kill(main_thread, signal.SIGTERM)

    def _obey_kill(self, order: Message) -> None:
        done = self._kill is not None and self._kill(order["target"])
        self._tell({"type": messages.KILLED, "target": order["target"], "done": done})

    def _tell_last(self, message: Message) -> None:
        """Tell how it ended. A program that then closes its end of the channel has nothing to interrupt any more."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._tell(message)

    def _tell(self, message: Message) -> None:
        """Send an important message to the program; to one that is gone nothing."""
        poll = select.poll()
        poll.register(self._end, select.POLLOUT)
        if poll.poll(TELL_S * 1000):
            with suppress(OSError):
                channel.send(self._end, message)


def _start(order: Message) -> Start:
    ensemble.use(order["zookeeper"], order["zookeeper_auth"])
    hosts, domains = order["hosts"], [f"{label}={values}" for label, values in order["domains"].items()]
    pretended = pretended_hosts(hosts, domains) if hosts != 1 or domains else ()
    if order.get("resume"):
        return start_again(Path(order["resume"]), order["faults"], None, pretended)
    by_value.use(order["classes"])
    start = start_anew(order["topology"], (), order["faults"], None, order["out"], hosts=pretended)
    by_value.keep(start.run_dir)
    return start


def _described(error: BaseException) -> dict[str, str]:
    """An error as the program is told of it; the traceback is told of one that should not happen."""
    if isinstance(error, RiprapError):
        return messages.of_error(error)
    if isinstance(error, KeyboardInterrupt):
        return messages.of_error(RiprapError("interrupted before the job was started", "start it again"))
    trace = "".join(traceback.format_exception(error))
    return messages.of_error(
        RiprapError(f"the launcher of the job failed:\n{trace}", "this should not happen; report it")
    )


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """Interrupt once: the clean-up after it is not to be interrupted."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    """The process."""
    os.umask(0o077)  # what a run writes is its owner's alone, as `riprap run` has it
    signal.signal(signal.SIGTERM, _interrupt)
    Launcher(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
