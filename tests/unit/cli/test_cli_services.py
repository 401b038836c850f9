"""Services that die are started again, but not for ever."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from codec.errors import RiprapError
from engine.cli.services import RESTARTS_MAX, Services


def make(folder: Path, program: str) -> tuple[Services, list[str]]:
    """Services all of whose commands are this program, and the list of those that were started again."""
    restarted: list[str] = []
    launcher = (sys.executable, "-S", "-c", program)
    return Services(folder, "127.0.0.1:1", on_restart=lambda name, code: restarted.append(name), launcher=launcher), (
        restarted
    )


def ended(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_what_dies_is_started_again(tmp_path: Path) -> None:
    services, restarted = make(tmp_path, "import time; time.sleep(60)")
    try:
        services.start()
        before = services.pids()
        assert set(before) == {"agent", "controller"}
        services.supervise()
        assert restarted == [] and services.pids() == before
        os.kill(before["agent"], signal.SIGKILL)
        ended(before["agent"])
        services.supervise()
        assert restarted == ["agent"]
        assert services.pids()["agent"] != before["agent"] and services.pids()["controller"] == before["controller"]
    finally:
        services.stop()
    assert services.pids() == {}


def test_what_keeps_dying_is_an_error_that_shows_its_last_words(tmp_path: Path) -> None:
    services, restarted = make(tmp_path, "import sys; sys.exit('it cannot live like this')")
    try:
        services.start()
        deadline = time.monotonic() + 30
        with pytest.raises(RiprapError, match="keeps dying") as caught:
            while time.monotonic() < deadline:
                services.supervise()
        assert "it cannot live like this" in str(caught.value) and ".log" in caught.value.remedy
        assert len(restarted) == RESTARTS_MAX
    finally:
        services.stop()
