"""Entries for a zygote under test: what the worker does is the first message on its channel."""

from __future__ import annotations

import os
import socket
import sys


def main(control_fd: int) -> int:
    """Obey orders, one a packet, until one ends the process."""
    channel = socket.socket(fileno=control_fd)
    while order := channel.recv(1024).decode():
        verb, _, argument = order.partition(" ")
        if verb == "exit":
            return int(argument)
        if verb == "raise":
            raise ValueError(argument)
        if verb == "print":
            print(argument)
            sys.stdout.flush()
        if verb == "getenv":
            channel.send(os.environ.get(argument, "").encode())
        if verb == "fds":
            channel.send(str(len(os.listdir("/proc/self/fd"))).encode())
    return 0
