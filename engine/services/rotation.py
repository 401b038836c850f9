"""Changes the keys of the cluster of `riprap up` while its jobs run: the steps of `riprap token --rotate`.

Each step can be repeated, and the command may be killed anywhere:

| killed after                        | the cluster meanwhile                     | the next time                     |
|-------------------------------------|-------------------------------------------|-----------------------------------|
| the new one is kept here as `next`  | runs under the old one; nobody uses it    | another takes its place           |
| all agents have it                  | the same                                  | the same                          |
| ZooKeeper's nodes belong to both    | the same; nobody else has the new one     | they are given back, and the same |
| it is the folder's `secret`         | the supervisor of `up` starts the         | waits for them and the agents,    |
|                                     | services under it, the agents follow them | gives the nodes to the new one    |
| a part of the nodes are its own     | runs under the new one                    | the same                          |

So whatever came before, the command first brings the cluster under what is in the folder now, and then changes that.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from kazoo.client import KazooClient

from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.trust.keys import FOLDER_VARIABLE, SECRET_BYTES, Authority, is_off, keys_folder, own_authority
from riprap.codec.trust.rotation import drop_next, follow, keep_next, keyring
from riprap.controller import session
from riprap.controller.ownership import depose_others, give_to
from riprap.controller.phases import TERMINAL
from riprap.engine.services.cluster import open_client
from riprap.engine.services.state import ServiceState, find_zookeeper, locked, read_state

SETTLE_S = 60.0
LOOK_EVERY_S = 0.1
LOCK = "rotation.lock"


class Rotated(NamedTuple):
    """The outcome of a rotation: the hosts whose agents have the new keys, and the backup servers that have not."""

    hosts: list[str]
    foreign_backups: list[str]


def rotate() -> Rotated:
    """Replace the keys of this host's cluster. ConfigError when there is none here; RiprapError when an agent cannot be
    reached (then nothing has changed), or does not come back."""
    state = find_cluster()
    refusal = ConfigError("the keys are being changed already", "wait for the other command")
    with locked(Path(state.folder) / LOCK, refusal):
        settle()
        coming = Authority(secrets.token_bytes(SECRET_BYTES))
        hosts = announce(coming)
        share(coming)
        take_over(coming)
        settle(hosts)
        return Rotated(hosts, _foreign_backups(state))


def find_cluster() -> ServiceState:
    """The services of this host; ConfigError when there are none, or their keys are not ours to change."""
    if is_off():
        raise ConfigError("security is off here, so there are no keys to be changed", f"unset {FOLDER_VARIABLE}")
    find_zookeeper(None)
    state = read_state()
    assert state is not None
    if state.keys not in (authority.id for authority in keyring().all):
        raise ConfigError(
            f"the services of this host have other keys than those in {keys_folder()}",
            f"name the folder with which they were started: {FOLDER_VARIABLE}=DIR",
        )
    return state


def announce(coming: Authority) -> list[str]:
    """Have everybody keep the keys to come; returns the agents' hosts. RiprapError, and nobody here keeps them."""
    keep_next(coming.secret, keys_folder())
    try:
        with open_client(None, timeout_s=20.0) as client:
            return client.rotate(coming.secret)
    except RiprapError:
        drop_next(keys_folder())
        raise


def share(coming: Authority) -> None:
    """Have ZooKeeper's nodes belong to the holders of either keys."""
    with _ensemble() as nodes:
        give_to(nodes, own_authority(), coming)


def take_over(coming: Authority) -> None:
    """Put the new keys in use here; the supervisor follows, then the agents. This cannot be undone."""
    if not follow(coming.id):
        raise RiprapError(f"the keys in {keys_folder()} were changed by somebody else", "give the command again")


def settle(hosts: Collection[str] = ()) -> None:
    """Return when the services are led under the keys in the folder, with these hosts, and ZooKeeper is theirs alone.

    RiprapError that names what is not there in time.
    """
    keys, deadline = own_authority(), time.monotonic() + SETTLE_S
    _await(lambda: (state := read_state()) is not None and state.keys == keys.id, deadline, _not_restarted)
    with _ensemble() as nodes:
        depose_others(nodes, keys)
    with open_client(None, timeout_s=SETTLE_S) as client:
        missing: list[str] = []

        def all_there() -> bool:
            missing[:] = sorted({*hosts} - client.agents().keys())
            return not missing

        _await(all_there, deadline, lambda: _not_back(missing))
    with _ensemble() as nodes:
        give_to(nodes, keys)


@contextlib.contextmanager
def _ensemble() -> Iterator[KazooClient]:
    nodes = session.open_client(find_zookeeper(None))
    try:
        yield nodes
    finally:
        session.disconnect(nodes)


def _foreign_backups(state: ServiceState) -> list[str]:
    """The backup servers that jobs use, and the services of this host do not have."""
    used: set[str] = set()
    with open_client(None) as client:
        for job in client.list_jobs():
            if job["phase"] not in TERMINAL:
                used.update(client.status(job["job"]).get("servers") or ())
    return sorted(used - {*state.backups})


def _await(holds: Callable[[], bool], deadline: float, error: Callable[[], RiprapError]) -> None:
    while not holds():
        if time.monotonic() > deadline:
            raise error()
        time.sleep(LOOK_EVERY_S)


def _not_restarted() -> RiprapError:
    return RiprapError(
        f"the services of this host were not started under the present keys within {SETTLE_S:g} s",
        "see up.log in the folder that `riprap up` names, and give the command again",
    )


def _not_back(missing: Collection[str]) -> RiprapError:
    return RiprapError(
        f"the agents on {', '.join(missing)} have not come back under the new keys within {SETTLE_S:g} s; the"
        " former ones still open ZooKeeper",
        "see their logs; give the command again once they are back, or were ended",
    )
