"""A job under a schedule of faults: what is waited for, what is expected, and what it may leave behind."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from soaking import Wrong

sys.path.append(str(Path(__file__).parents[1] / "scenarios"))
from cli_harness import Cli

DEADLINE_S = 90.0
GONE_S = 15.0
ACTED_S = 40.0


def words_of(
    command: subprocess.Popen[str], meanwhile: Callable[[], None], deadline: float = math.inf
) -> tuple[str, str]:
    """Output and errors of a command that has ended; Wrong when it hangs, or falls over. A refusal is noted."""
    by = min(time.monotonic() + ACTED_S, deadline)
    while command.poll() is None:
        if time.monotonic() > by:
            command.kill()
            raise Wrong(f"a command hung: {command.args!r}; {command.communicate()[1][-500:]}")
        meanwhile()
        time.sleep(0.005)
    out, err = command.communicate()
    if "Traceback" in err:
        raise Wrong(f"a command fell over: {command.args!r}; {err[-1500:]}")
    if command.returncode:
        print(f"      note: {command.args!r} ended with {command.returncode}: {err.strip()[-400:]}", flush=True)
    return out, err


class Watched:
    """A job with a name that no other job on this machine has, and a run directory of its own; `deadline` for all."""

    def __init__(self, cli: Cli, out: Path) -> None:
        self.cli, self.out = cli, out
        self.job = f"soak-{cli.mark[:12]}"
        self.deadline = time.monotonic() + DEADLINE_S

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until it holds; Wrong when that takes too long."""
        while not condition():
            if time.monotonic() > self.deadline:
                raise Wrong(f"it hung: waited in vain for {what}")
            time.sleep(0.002)

    def expect(self, found: Any, expected: Any, what: str) -> None:
        """Wrong unless this was found."""
        if found != expected:
            raise Wrong(f"{what}: found {str(found)[:600]}, expected {str(expected)[:200]}; see {self.out}")

    def check_traces(self) -> None:
        """Wrong unless all is gone soon."""
        gone_by = time.monotonic() + GONE_S
        while (left := self.cli.processes()) and time.monotonic() < gone_by:
            time.sleep(0.01)
        self.expect(left, [], "processes left behind")
        self.expect(list(self.traces()), [], "traces left behind")

    def traces(self) -> Iterator[str]:
        """Sockets of this job and its backup servers, shared memory, and data of services."""
        run = self.run_name()
        sockets = Path("/proc/net/unix").read_text().split()
        yield from (name for name in sockets if name.startswith("@riprap") and (self.job in name or run in name))
        yield from (name for name in os.listdir("/dev/shm") if self.job in name or run in name)
        yield from (str(path) for path in (self.out / "backup", self.out / "logs/.zookeeper") if path.exists())

    def run_name(self) -> str:
        """The name of its run, which all attempts share."""
        name: str = json.loads(self.lines("attempts.jsonl")[0])["run"]
        return name

    def lines(self, name: str) -> list[str]:
        """The lines of a file of the run directory; none while it is not there."""
        path = self.out / name
        return path.read_text().splitlines() if path.exists() else []
