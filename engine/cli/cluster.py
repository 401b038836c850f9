"""How subcommands reach the controller of a cluster."""

from __future__ import annotations

import logging

from controller.client import Client
from engine.cli.state import find_zookeeper


def open_client(zookeeper: str | None, timeout_s: float = 10.0) -> Client:
    """A client of the ensemble given, or of the one that `riprap up` started; ConfigError when there is none."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # what matters of it comes back as errors
    return Client(find_zookeeper(zookeeper), timeout_s)
