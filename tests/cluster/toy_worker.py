"""A worker that speaks the control channel and computes nothing; the topology's `toy` section orders its faults."""

from __future__ import annotations

import select
import socket
import sys
import time
from pathlib import Path
from typing import Any

import msgpack
import numpy as np  # what a real worker has imported, so that a fork costs what it costs there

BEAT_S = 0.02


def main(control_fd: int) -> int:
    """Live as one worker until told to stop, or gone wrong as ordered."""
    channel = socket.socket(fileno=control_fd)
    spec = msgpack.unpackb(channel.recv(1 << 20))
    worker, incarnation = spec["worker"], spec["incarnation"]
    orders: dict[str, Any] = spec["topology"].get("toy", {}).get(worker, {})
    print(f"{worker} #{incarnation} starts", flush=True)
    if incarnation <= orders.get("exits_at_start", 0):
        return 3
    if orders.get("never_ready"):
        channel.recv(1)  # views come and are not acted on
        while channel.recv(1 << 20):
            pass
    if orders.get("raises"):
        _send(channel, type="failed", error=orders["raises"], remedy="mend the operator")
        return 1
    _send(channel, type="ready", ipc=f"ipc://@{worker}#{incarnation}", tcp="")
    return _live(channel, spec, orders)


def _live(channel: socket.socket, spec: dict[str, Any], orders: dict[str, Any]) -> int:
    run_dir, worker = Path(spec["run_dir"]), spec["worker"]
    beat, items, phase, done, first_item_at = 0, 0, "", False, None
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    while True:
        for _ in poll.poll(BEAT_S * 1000):
            data = channel.recv(1 << 20)
            message = msgpack.unpackb(data) if data else {"type": "stop"}
            if message["type"] == "stop" and not orders.get("ignores_stop"):
                return 0
            if message["type"] == "view":
                phase = message["phase"]
                (run_dir / f"{worker}.view").write_bytes(data)
        beat += 1
        if phase in ("RUNNING", "RECOVERING"):
            items += int(np.int64(10))
            first_item_at = first_item_at or time.monotonic()
        seconds = time.monotonic() - first_item_at if first_item_at else 0.0
        stats = {
            "items": items,
            "seconds": seconds,
            "first_item_at": first_item_at,
            "caught_up_at": first_item_at,
            "finished": done,
        }
        _send(channel, type="progress", beat=beat, epoch=items // 100, items=items, stats=stats)
        if worker.startswith("sink.") and not done and (run_dir / "finish").exists():
            done = True
            _send(channel, type="done", stats={**stats, "finished": True})


def _send(channel: socket.socket, **message: Any) -> None:
    try:
        channel.send(msgpack.packb(message))
    except OSError:
        sys.exit(9)
