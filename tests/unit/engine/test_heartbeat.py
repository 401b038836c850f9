"""When a worker tells its agent of its progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.worker import CALM_TURNS, Worker


def test_a_worker_with_nothing_to_do_beats_seldom_but_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000  # in tenths of a second
    monkeypatch.setattr("engine.worker.time", SimpleNamespace(monotonic=lambda: clock))
    worker: Any = SimpleNamespace(beats=0, _beaten=(0, 0.0), _calm_s=4, progress=lambda: {"beat": worker.beats})
    sent = []
    for turns in (CALM_TURNS + 1, 0, 1, 1, 1, 0, CALM_TURNS + 1, 50):
        worker.beats += turns
        sent.append(Worker.heartbeat(worker) is not None)
        clock += 1
    assert sent == [True, False, False, False, True, False, True, True]
