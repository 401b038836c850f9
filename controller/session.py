"""Sessions with ZooKeeper: one way to connect, with a deadline and an error that says what to do."""

from __future__ import annotations

import json
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from codec.errors import ConfigError
from controller import paths

SESSION_TIMEOUT_S = 1.5  # a dead leader or host is found out after this, and up to one of the server's ticks
CONNECT_TIMEOUT_S = 15.0


def connect(hosts: str, session_timeout_s: float = SESSION_TIMEOUT_S) -> KazooClient:
    """A client as of `open_client`, with our folders in place; ConfigError when they cannot be."""
    client = open_client(hosts, session_timeout_s)
    try:
        client.ensure_path(paths.AGENTS)
        client.ensure_path(paths.JOBS)
    except KazooException as error:
        disconnect(client)
        raise ConfigError(
            f"ZooKeeper at {hosts} refuses to hold {paths.ROOT}: {error!r}",
            "let its access control admit us, or name another chroot (HOST:PORT/PATH)",
        ) from error
    return client


def open_client(hosts: str, session_timeout_s: float = SESSION_TIMEOUT_S) -> KazooClient:
    """A started client for `HOST:PORT[,HOST:PORT...][/CHROOT]`.

    It reconnects for ever, several times a second. Raises ConfigError when no server answers.
    """
    # A restarted server grants a session its timeout anew; to keep it we must be back within that.
    retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.25)
    client = KazooClient(hosts, timeout=session_timeout_s, connection_retry=retry)
    try:
        client.start(timeout=CONNECT_TIMEOUT_S)
    except KazooTimeoutError as error:
        disconnect(client)
        raise ConfigError(
            f"no ZooKeeper server answers at {hosts} within {CONNECT_TIMEOUT_S:g} s",
            "check the address, that the server runs, and that a `riprap up` which other hosts reach has its --address",
        ) from error
    return client


def disconnect(client: KazooClient) -> None:
    """End the session, so that its ephemeral nodes go at once. No effect when it has ended."""
    client.stop()
    client.close()


def read_map(data: bytes) -> dict[str, Any]:
    """The JSON map in a znode; empty for anything else, as if the writer had said nothing."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
