"""Launchers and services import little: each job starts them, and most of their CPU time is that of their imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

ZOOKEEPER = ("--zookeeper", "127.0.0.1:1")
SERVICES = {
    "riprap.controller.service.run_controller": ("controller", *ZOOKEEPER),
    "riprap.controller.agent.run_agent": ("agent", *ZOOKEEPER),
    "riprap.backupserver.server.serve": ("backup", "--listen", "tcp://127.0.0.1:0", "--storage", "records"),
}
"""The function that is a service's life, and the command that calls it."""

CODE = """
import sys
import {module}
from riprap.engine.cli.main import main

def live(*arguments, **options):
    for hook in arguments[3:4] if {name!r} == "run_controller" else ():
        hook({{"stages": {{}}}}, "/run", {{"job": "that of a run"}})
    print(*(name for name in ("numpy", "riprap.engine.run.summary", "pandas") if name in sys.modules))

{module}.{name} = live
main({command!r})
"""


@pytest.mark.parametrize("life", SERVICES)
def test_a_service_lives_without_numpy(life: str) -> None:
    module, _, name = life.rpartition(".")
    code = CODE.format(module=module, name=name, command=[*SERVICES[life]])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


LAUNCHER = """
import sys
import riprap.engine.run.execute, riprap.engine.run.start
print(*(name for name in {names} if name in sys.modules))
"""
OF_OTHERS = (
    *("riprap.controller.job", "riprap.engine.flow.task", "riprap.engine.wire.network", "riprap.engine.worker.worker"),
    *("riprap.engine.profile.page", "riprap.operators.learning.estimators", "psutil", "pyarrow", "pandas"),
)
"""The life of controllers and workers, and the needs of few jobs."""


def test_a_plain_run_is_launched_without_the_modules_of_others() -> None:
    code = LAUNCHER.format(names=OF_OTHERS)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
