"""An AF_UNIX SEQPACKET channel: whole control messages between processes of one host, with descriptors if need be."""

from __future__ import annotations

import contextlib
import os
import socket

from riprap.controller import messages
from riprap.controller.messages import CHANNEL_BYTES_MAX, Message

SO_SNDBUFFORCE = 32  # <asm-generic/socket.h>: past net.core.wmem_max, for those who may


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends that pass packets of up to CHANNEL_BYTES_MAX."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * CHANNEL_BYTES_MAX)
        with contextlib.suppress(PermissionError):
            end.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 2 * CHANNEL_BYTES_MAX)
    return ends


def send(end: socket.socket, message: Message, fds: tuple[int, ...] = ()) -> None:
    """Send one message, with descriptors that the receiver gets as its own.

    Raises BlockingIOError on a non-blocking end whose peer does not read, and OSError when the peer is gone.
    """
    socket.send_fds(end, [messages.pack(message, CHANNEL_BYTES_MAX)], fds)


def receive(end: socket.socket) -> tuple[Message, list[int]] | None:
    """The next message and its descriptors; None when the peer is gone.

    Raises BlockingIOError on a non-blocking end with nothing to read, FrameError for a malformed packet.
    """
    try:
        data, fds, _, _ = socket.recv_fds(end, CHANNEL_BYTES_MAX + 1, 2)
    except ConnectionResetError:  # the peer went with packets of ours unread
        return None
    if not data:
        return None
    try:
        return messages.unpack(data, CHANNEL_BYTES_MAX), fds
    except ValueError:
        for fd in fds:
            os.close(fd)
        raise
