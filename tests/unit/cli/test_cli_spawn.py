"""Services as forks of their launcher: each is what an interpreter of its own would be."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from riprap.codec.trust.keys import open_authority

SERVICE = """\
import json, os, signal, sys
from riprap.codec.trust.keys import own_authority

def main(words):
    found = {fd: f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")}
    fds = {fd: os.readlink(place) for fd, place in found.items() if os.path.exists(place)}
    seen = {"words": words, "shown": open("/proc/self/cmdline").read().rstrip(chr(0)).split(chr(0)), "fds": fds}
    seen |= {"keys": own_authority().id}
    seen |= {"session": os.getsid(0) == os.getpid(), "path": sys.path, "pid": os.getpid(), "parent": os.getppid()}
    print(json.dumps(seen), flush=True)
    if words[0] == "end":
        sys.exit(int(words[1]))
    signal.pause()
"""
LAUNCHER = """\
import json, os, sys, threading, time
from pathlib import Path
from riprap.codec.trust.keys import own_authority
from riprap.engine.services import spawn

spawn.PROGRAM = "service"
kept = open("kept", "w")
kept.write("not yet written")
sys.stdout.write("once ")
former = own_authority().id
os.environ["RIPRAP_KEYS"] = os.path.abspath("keys that have followed")
log = Path("service.log")

ended = spawn.spawn(["end", "7"], log)
report = {"pid": os.getpid(), "code": ended.wait(30), "again": ended.poll(), "ended": ended.pid, "former": former}
asked = spawn.spawn(["stay", "first"], log)
try:
    asked.wait(0.01)
except spawn.subprocess.TimeoutExpired:
    report["running"] = asked.poll()
while log.read_text().count("first") < 1:
    time.sleep(0.01)
asked.terminate()
report["terminated"] = asked.wait(30)
asked.kill()
killed = spawn.spawn(["stay", "second"], log)
killed.kill()
report["killed"] = killed.wait()
orphan = spawn.spawn(["stay", "third"], log)
threading.Thread(target=threading.Event().wait, daemon=True).start()
interpreter = spawn.spawn(["end", "3"], log)
report |= {"kinds": [type(one).__name__ for one in (orphan, interpreter)], "orphan": orphan.pid}
print(json.dumps(report), flush=True)
threading.Event().wait()
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of a launcher that was killed in the end, and those of its services, by their words."""
    folder = tmp_path_factory.mktemp("launcher")
    (folder / "service.py").write_text(SERVICE)
    (folder / "launcher.py").write_text(LAUNCHER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "launcher", "with", "room", "for", "the words of a service"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        before, _, report = launcher.stdout.readline().partition("{")
        told = json.loads("{" + report)
        orphan = os.pidfd_open(told["orphan"])
        launcher.kill()
    poll = select.poll()
    poll.register(orphan, select.POLLIN)
    told["orphan_ended"] = bool(poll.poll(30_000))
    os.close(orphan)
    reports = [json.loads(line) for line in (folder / "service.log").read_text().splitlines() if line[:1] == "{"]
    return {**told, "before": before, "folder": str(folder), "services": {one["words"][1]: one for one in reports}}


def test_a_fork_runs_its_command_and_is_shown_as_that(seen: dict[str, Any]) -> None:
    service = seen["services"]["7"]
    words = ["end", "7", "--die-with-parent", str(seen["pid"])]
    assert service["words"] == words and service["parent"] == seen["pid"] and service["pid"] == seen["ended"]
    assert service["shown"] == [sys.executable, "-m", "launcher", *words]
    assert service["session"], "of its own, so that the terminal's Ctrl-C does not reach it"


def test_a_fork_has_none_of_its_launchers_descriptors_output_and_path(seen: dict[str, Any]) -> None:
    service = seen["services"]["7"]
    log = f"{seen['folder']}/service.log"
    assert service["fds"].pop("1") == service["fds"].pop("2") == log
    assert set(service["fds"].values()) == {os.devnull}
    assert seen["before"] == "once " and (Path(seen["folder"]) / "kept").read_text() == ""
    assert service["path"].count(seen["folder"]) == 1, "that of PYTHONPATH, not the launcher's directory"


def test_a_fork_has_the_keys_that_are_there_when_it_starts(seen: dict[str, Any]) -> None:
    present = open_authority(Path(seen["folder"]) / "keys that have followed").id
    assert seen["services"]["7"]["keys"] == present != seen["former"]


def test_a_fork_is_waited_for_and_ended_as_other_children(seen: dict[str, Any]) -> None:
    assert (seen["code"], seen["again"], seen["running"]) == (7, 7, None)
    assert (seen["terminated"], seen["killed"]) == (-signal.SIGTERM, -signal.SIGKILL)


def test_a_fork_dies_with_its_launcher(seen: dict[str, Any]) -> None:
    assert seen["orphan_ended"]


def test_beside_a_thread_nothing_is_forked(seen: dict[str, Any]) -> None:
    assert seen["kinds"] == ["Fork", "Popen"]
