"""Decides which backup servers a launcher starts: the address of each, and its storage."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.files import replace
from riprap.codec.json_text import to_json
from riprap.configs.topology import Topology
from riprap.controller.addresses import is_loopback

STORAGE = "backup"
ADDRESSES = "addresses.json"


@dataclass(frozen=True)
class BackupServer:
    """One backup server to be started; `storage` is a directory or an fsspec URL of its own."""

    address: str
    storage: str
    durability: str = "interval"
    interval_ms: int = 100

    def command(self) -> list[str]:
        """The words of `riprap backup`."""
        words = ["backup", "--listen", self.address, "--storage", self.storage]
        return [*words, "--durability", self.durability, "--interval-ms", str(self.interval_ms)]


def servers_of_run(topology: Topology, run_dir: Path, run: str) -> list[BackupServer]:
    """The servers of one `riprap run`, none when the topology names servers that run already.

    Their names are abstract, so that nothing is left behind, and the same in every attempt. Without a storage of the
    topology's own they keep everything in the run directory.
    """
    backup = topology.backup
    if not isinstance(backup.servers, int):
        return []
    base = f"{backup.storage.rstrip('/')}/{topology.job}-{run}" if backup.storage else str(run_dir / STORAGE)
    numbers = range(1, backup.servers + 1)
    return [
        BackupServer(f"ipc://@riprap-backup-{run}-{n}", f"{base}/{n}", backup.durability, backup.interval_ms)
        for n in numbers
    ]


def servers_of_cluster(folder: Path, count: int, address: str) -> list[BackupServer]:
    """The servers of `riprap up`: those that an earlier cluster in this folder used and kept, and more up to `count`.

    Submitted jobs know them by address, so that addresses outlive an unclean end, as their storage does. ConfigError
    where other hosts are to reach this one at `address`, and an earlier cluster had another, or none.
    """
    known = _known(folder)
    if not is_loopback(address) and (elsewhere := [one for one in known if not one.startswith(f"tcp://{address}:")]):
        raise ConfigError(
            f"jobs of an earlier cluster of this host save at {', '.join(elsewhere)}, which is not at {address}",
            "give the address that it had; or forget its jobs with `riprap down`, or, where they are in an ensemble of"
            f" yours, by removing {folder / STORAGE}",
        )
    addresses = known + [_address(address, n) for n in range(len(known) + 1, count + 1)]
    (folder / STORAGE).mkdir(parents=True, exist_ok=True)
    replace(folder / STORAGE / ADDRESSES, to_json(addresses))
    return [BackupServer(one, str(folder / STORAGE / str(n))) for n, one in enumerate(addresses, 1)]


def with_servers(submission: Mapping[str, Any], addresses: Sequence[str]) -> dict[str, Any]:
    """A submission that names the backup servers its workers are to use: the launcher's, or the user's own; or none."""
    backup = submission["backup"]
    wanted = backup["servers"]
    servers = wanted if not isinstance(wanted, int) else addresses if wanted else ()
    return {**submission, "backup": {**backup, "servers": list(servers)}}


def discard_storage(servers: Sequence[BackupServer]) -> None:
    """Remove the folders of servers that have ended and whose job has completed; URLs are the user's to clear."""
    for server in servers:
        if "://" not in server.storage:
            shutil.rmtree(server.storage, ignore_errors=True)
    for parent in {Path(server.storage).parent for server in servers if "://" not in server.storage}:
        with contextlib.suppress(OSError):
            parent.rmdir()  # only when nothing else is in it


def _known(folder: Path) -> list[str]:
    try:
        return [str(address) for address in json.loads((folder / STORAGE / ADDRESSES).read_text())]
    except (OSError, ValueError):
        return []


def _address(host: str, number: int) -> str:
    if not host:
        return f"ipc://@riprap-backup-{uuid.uuid4().hex[:12]}-{number}"
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"tcp://{host}:{probe.getsockname()[1]}"
