"""An agent's presence in ZooKeeper: its ephemeral node, kept for as long as it lives, and the present leader."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError, NoNodeError

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import to_json
from riprap.controller import paths, session
from riprap.controller.addresses import check_reach
from riprap.controller.election import Leader
from riprap.controller.inbox import Inbox

logger = logging.getLogger(__name__)

JOIN_TIMEOUT_S = 5.0  # at least
SESSION_SHARE = 1.5  # a session ends with a tick of the server's, and has two at least
CHECK_S = 1.0  # how often the node is looked for, should a notice be lost


class HostMembership:
    """Registers `about` under the host's name, again after every lost session, on a thread of its own.

    Leaves (Leader, term) in the inbox whenever another leader is there. Raises ConfigError when ZooKeeper does not
    answer, another live agent holds the name, or the workers of `about`'s address and of another's cannot meet.
    """

    def __init__(self, zookeeper: str, host: str, about: dict[str, Any], inbox: Inbox) -> None:
        self._path = paths.agent(host)
        self._about = about
        self._inbox = inbox
        self._closing = self._shut_out = False
        self._due = threading.Event()
        self._client: KazooClient = session.connect(zookeeper)
        self._client.add_listener(lambda state: self._due.set())
        try:
            self._join()
        except BaseException:
            session.disconnect(self._client)
            raise
        self._client.DataWatch(paths.LEADER, self._on_leader)
        self._thread = threading.Thread(target=self._keep, name="membership", daemon=True)
        self._thread.start()

    def learn_keys(self) -> None:
        """Use the keys that have become known here; as `session.learn`."""
        session.learn(self._client)

    def close(self) -> None:
        """Leave at once."""
        self._closing = True
        self._due.set()
        session.disconnect(self._client)

    def _join(self) -> None:
        """Register for the first time; a dead predecessor of that name is waited for until its session ends."""
        deadline = time.monotonic() + max(JOIN_TIMEOUT_S, SESSION_SHARE * session.granted_s(self._client) + CHECK_S)
        while not self._register():
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"another agent is registered as {self._path.rpartition('/')[2]}",
                    "end it, or give this host another name",
                )
            self._due.wait(0.1)
            self._due.clear()
        host = self._path.rpartition("/")[2]
        others = {other: about for other, about in read_agents(self._client).items() if other != host}
        check_reach(host, self._about["address"], {o: str(about.get("address", "")) for o, about in others.items()})

    def _keep(self) -> None:
        while not self._closing:
            self._due.wait(CHECK_S)
            self._due.clear()
            try:
                if self._client.connected:
                    self._register()
            except NoAuthError:
                self._say_shut_out()
            except KazooException:
                self._due.wait(0.1)  # the connection is being restored

    def _say_shut_out(self) -> None:
        if not self._shut_out:
            logger.error(
                "%s belongs to other keys than ours: if the cluster's were changed without this host, `riprap join` and"
                " start the agent again", self._path,
            )  # fmt: skip
        self._shut_out = True

    def _register(self) -> bool:
        """True when our node is there now and belongs to the present session."""
        try:
            data, stat = self._client.get(self._path, watch=lambda event: self._due.set())
        except NoNodeError:
            try:
                self._client.create(self._path, to_json(self._about).encode(), ephemeral=True)
            except NodeExistsError:
                return False
            return True
        if stat.ephemeralOwner == self._client.client_id[0]:
            return True
        if session.read_map(data).get("instance") == self._about["instance"]:
            self._client.delete(self._path, stat.version)  # of our lost session; the next round registers anew
            self._due.set()
        return False

    def _on_leader(self, data: bytes | None, stat: Any) -> None:
        if data is not None:
            self._inbox.put((Leader.read(data), int(stat.czxid)))


def read_agents(client: KazooClient, on_change: Callable[[], None] | None = None) -> dict[str, dict[str, Any]]:
    """The entries of all agents, by host; `on_change` is called once, on kazoo's thread, at the next change."""
    watch = None if on_change is None else lambda event: on_change()
    agents = {}
    for host in client.get_children(paths.AGENTS, watch=watch):
        with contextlib.suppress(NoNodeError):
            agents[host] = session.read_map(client.get(paths.agent(host))[0])
    return agents
