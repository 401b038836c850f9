"""Tells the processes of one command which file holds the credentials for an ensemble of the user's.

An environment variable names it, which children inherit; the file's content is in no command line.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from riprap.codec.errors import ConfigError

if TYPE_CHECKING:
    from riprap.configs.zookeeper_auth import ZooKeeperAuth

VARIABLE = "RIPRAP_ZOOKEEPER_AUTH"


def use(zookeeper: str | None, file: str | None) -> None:
    """Enter the ensemble that a command names as `file` says, or as the variable does that its user set.

    A command that names no ensemble makes one, or uses that of `riprap up`: then neither applies. ConfigError for an
    address that is none, and for a file that cannot be used, or that comes without an ensemble.
    """
    if not zookeeper:
        if file:
            raise ConfigError(
                "--zookeeper-auth says how to enter an ensemble of yours, and none is named",
                "give --zookeeper HOST:PORT too; for the ensemble of `riprap up` leave out both",
            )
        remember("")
    else:
        _check_address(zookeeper)
        if file:
            os.environ[VARIABLE] = os.path.abspath(file)
    read()


def _check_address(zookeeper: str) -> None:
    """ConfigError for an address that kazoo would not take, now or on a thread of its own."""
    from kazoo.hosts import collect_hosts  # costs its start only those who need it
    from kazoo.protocol.paths import normpath

    try:
        servers, chroot = collect_hosts(zookeeper)
        normpath(chroot or "/")
        for host, _ in servers:
            host.encode("idna")
    except ValueError as error:
        raise ConfigError(
            f"--zookeeper {zookeeper}: {error}", "write HOST:PORT, or several of them with commas between"
        ) from error


def remember(file: str) -> None:
    """Enter ZooKeeper as this file says from now on; empty: without any."""
    if file:
        os.environ[VARIABLE] = file
    else:
        os.environ.pop(VARIABLE, None)


def file_in_use() -> str:
    """The absolute path of the file, empty when there is none."""
    return os.environ.get(VARIABLE, "")


def read() -> ZooKeeperAuth | None:
    """The content of the file, None without one; ConfigError."""
    file = file_in_use()
    if not file:
        return None
    if not os.path.isabs(file):
        raise ConfigError(f"{VARIABLE}={file} is not an absolute path", "name the file from the root, beginning with /")
    from riprap.configs.zookeeper_auth import load  # costs its start only those who need it

    return load(file)
