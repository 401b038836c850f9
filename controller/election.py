"""The election of the leader: the owner of one ephemeral znode, whose creation number is the leader's term."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from riprap.codec.json_text import to_json
from riprap.codec.trust.keys import own_authority
from riprap.controller import paths, session


class Leader(NamedTuple):
    """The leader's node: its endpoint, and the id of the keys under which it listens."""

    endpoint: str
    keys: str

    @classmethod
    def read(cls, data: bytes) -> Leader:
        """Read it from its node; empty texts for absent fields."""
        about = session.read_map(data)
        return cls(str(about.get("endpoint", "")), str(about.get("keys", "")))


def try_to_lead(client: KazooClient, endpoint: str, pid: int, on_vacant: Callable[[], None]) -> int | None:
    """Become the leader: the term, which is larger than that of every leader before, or None while another leads.

    In the latter case `on_vacant` is called (on kazoo's thread) when the other's node changes; it may not block. May
    raise KazooException when the connection is lost.
    """
    about = to_json({"endpoint": endpoint, "pid": pid, "keys": own_authority().id}).encode()
    # A node that exists may be our own, from a call whose answer was lost: then its owner is our session.
    with contextlib.suppress(NodeExistsError):
        client.create(paths.LEADER, about, ephemeral=True, acl=session.acl_with_readers(own_authority()))
    try:
        _, stat = client.get(paths.LEADER, watch=lambda event: on_vacant())
    except NoNodeError:
        on_vacant()
        return None
    return int(stat.czxid) if stat.ephemeralOwner == client.client_id[0] else None
