"""The way of subcommands to the controller of a cluster."""

from __future__ import annotations

import logging

from riprap.controller.client import Client
from riprap.engine.services.state import find_zookeeper


def open_client(zookeeper: str | None, timeout_s: float = 10.0) -> Client:
    """A client of the ensemble given, or of the one that `riprap up` started; ConfigError when there is none."""
    quiet_kazoo()
    return Client(find_zookeeper(zookeeper), timeout_s)


def quiet_kazoo() -> None:
    """Keep kazoo's log off the terminal: all that matters of it comes back as errors."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
