"""Kills processes at named steps of the code: an interpreter that has this folder in its PYTHONPATH imports it first.

FAULT_POINTS names a JSON file with a list of kills (fault_points.py says what their fields mean). Each happens once; a
file of its name beside that one, made before anybody dies, says that it has. Nothing of ours knows of this: a function
of a module that a kill names is replaced by one that kills before or behind it, as the module is imported.
"""

import importlib.abc
import importlib.util
import json
import os
import re
import signal
import sys
from contextlib import suppress
from functools import reduce, wraps
from pathlib import Path

FILE = os.environ.get("FAULT_POINTS", "")
ROOT = "FAULT_POINTS_ROOT"
"""The first process of all: when it dies, all do."""


class Hook(importlib.abc.MetaPathFinder):
    """Arms the kills of a module once it is loaded."""

    def __init__(self, kills):
        self.kills = kills

    def find_spec(self, name, path, target=None):
        mine = [kill for kill in self.kills if kill["place"].partition(":")[0] == name]
        if not mine:
            return None
        self.kills = [kill for kill in self.kills if kill not in mine]
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            for kill in mine:
                arm(module, kill)

        spec.loader.exec_module = exec_module
        return spec


def arm(module, kill):
    """Replace the function that a kill names."""
    *way, name = kill["place"].partition(":")[2].split(".")
    owner = reduce(getattr, way, module)
    function, calls = getattr(owner, name), [0]

    @wraps(function)
    def armed(*args, **kwargs):
        if kill["when"] == "before":
            count(kill, calls, args)
        if kill["holds"] and is_meant(kill, args):
            hold(kill)
        result = function(*args, **kwargs)
        if kill["when"] == "after" or (kill["when"] == "true" and result):
            count(kill, calls, args)
        return result

    setattr(owner, name, armed)


def count(kill, calls, args):
    """Note a call, and kill if it is the one."""
    if not is_meant(kill, args):
        return
    calls[0] += 1
    if calls[0] >= kill["call"]:
        strike(Path(FILE).parent / kill["name"], kill["victim"])


def is_meant(kill, args):
    """True for a call that counts."""
    if kill["behind"] and not (Path(FILE).parent / kill["behind"]).exists():
        return False
    if role_of("self") != kill["process"] or (kill["within"] and caller() != kill["within"]):
        return False
    return not kill["arguments"] or bool(re.search(kill["arguments"], repr(args)))


def hold(kill):
    """Stop the victim, if it is still to be killed: it cannot end by itself before that."""
    if not (Path(FILE).parent / kill["name"]).exists() and (pid := pid_of(kill["victim"])):
        os.kill(pid, signal.SIGSTOP)


def caller():
    """The function that called the replaced one, as FILE.FUNCTION."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"


def role_of(pid):
    """A worker's or a service's name: that of the file that its output goes to; empty for one that is gone."""
    with suppress(OSError):
        role = Path(os.readlink(f"/proc/{pid}/fd/1")).stem
        is_forked = b"zygote" in Path(f"/proc/{pid}/cmdline").read_bytes()
        return "zygote" if role == "agent" and is_forked else role
    return ""


def pid_of(role):
    """The process of that role, 0 where none runs."""
    if role == "launcher":
        return int(os.environ[ROOT])
    mark = f"{ROOT}={os.environ[ROOT]}\0".encode()
    for pid in sorted(map(int, filter(str.isdecimal, os.listdir("/proc")))):
        with suppress(OSError):
            if role_of(pid) == role and mark in Path(f"/proc/{pid}/environ").read_bytes():
                return pid
    return 0


def strike(marker, victim):
    """Kill the victim (empty: this process), unless that has happened or it does not run."""
    if marker.exists() or not (pid := pid_of(victim) if victim else os.getpid()):
        return
    with suppress(FileExistsError):
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.kill(pid, signal.SIGKILL)


if FILE:
    os.environ.setdefault(ROOT, str(os.getpid()))
    sys.meta_path.insert(0, Hook(json.loads(Path(FILE).read_text())))
