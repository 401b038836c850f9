"""Has backup servers delete the logs of a job that nobody will resume."""

from __future__ import annotations

import time
from collections.abc import Sequence

import zmq

from riprap.backupserver import protocol
from riprap.codec.errors import FrameError
from riprap.codec.trust.curve import call_as
from riprap.codec.trust.keys import BACKUP, CLIENT


def forget(servers: Sequence[str], job: str, deadline_s: float) -> list[str]:
    """Delete the logs of all workers of a job, named as in them; returns the servers that did not confirm it."""
    silent = []
    with zmq.Context() as context:
        deadline = time.monotonic() + deadline_s
        for address in servers:
            with context.socket(zmq.DEALER) as socket:
                socket.setsockopt(zmq.LINGER, 0)
                call_as(socket, CLIENT, BACKUP)
                protocol.bound_frames(socket, protocol.HEAD_BYTES_MAX)
                socket.connect(address)
                socket.send(protocol.pack("forget", job=job))
                if not _confirmed(socket, job, deadline):
                    silent.append(address)
    return silent


def _confirmed(socket: zmq.Socket[bytes], job: str, deadline: float) -> bool:
    while (left_s := deadline - time.monotonic()) > 0:
        if socket.poll(int(left_s * 1000) + 1):
            try:
                answer = protocol.unpack(socket.recv_multipart()[0])
            except FrameError:
                continue  # not one of our servers
            if (answer["type"], answer.get("job")) == ("forgot", job):
                return True
    return False
