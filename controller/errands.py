"""Talks with ZooKeeper on a thread that may wait, so that the leader's loop never does."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from riprap.codec.errors import DataError
from riprap.controller.actions import Persist
from riprap.controller.inbox import Inbox
from riprap.controller.logs import append
from riprap.controller.membership import read_agents
from riprap.controller.store import Deposed, JobStore

logger = logging.getLogger(__name__)

RETRY_S = 0.1


class Errands:
    """Does one errand after another, and leaves each outcome in the inbox.

    Left there: ("members", {host: instance}), ("persisted", Persist), ("persist_failed", Persist), ("purged", name),
    ("purge_failed", name), ("deposed", why), ("unreadable", (name, error)).
    """

    def __init__(self, client: KazooClient, store: JobStore, inbox: Inbox) -> None:
        self._client = client
        self._store = store
        self._inbox = inbox
        self._errands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._unlogged: set[str] = set()
        """The jobs that wait for their log, as far as that was said."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="errands", daemon=True)
        self._thread.start()

    def persist(self, action: Persist) -> None:
        """Write a record."""
        self._errands.put(lambda: self._persist(action))

    def purge(self, name: str) -> None:
        """Remove the nodes of a job."""
        self._errands.put(lambda: self._purge(name))

    def watch_members(self) -> None:
        """Leave the membership in the inbox, now and after every change."""
        self._errands.put(self._read_members)

    def close(self) -> None:
        """Do no further errand; one under way may end later, and its outcome is of no interest then."""
        self._closing.set()
        self._errands.put(None)

    def _run(self) -> None:
        while (errand := self._errands.get()) is not None and not self._closing.is_set():
            errand()

    def _persist(self, action: Persist) -> None:
        try:
            self._store.save(action.spec, action.record, action.create)
            if action.log is not None:
                append(action.log)
        except OSError as error:
            if action.spec.name not in self._unlogged:
                logger.warning("job %s waits until its decisions can be logged: %s", action.spec.name, error)
            self._unlogged.add(action.spec.name)
            self._inbox.put(("persist_failed", action))
        except Deposed as error:
            self._inbox.put(("deposed", str(error)))
        except DataError as error:
            self._inbox.put(("unreadable", (action.spec.name, error)))
        except KazooException:
            self._inbox.put(("persist_failed", action))
        else:
            self._unlogged.discard(action.spec.name)
            self._inbox.put(("persisted", action))

    def _purge(self, name: str) -> None:
        try:
            self._store.purge(name)
        except Deposed as error:
            self._inbox.put(("deposed", str(error)))
        except KazooException:
            self._inbox.put(("purge_failed", name))
        else:
            self._inbox.put(("purged", name))

    def _read_members(self) -> None:
        try:
            self._inbox.put(("members", read_members(self._client, self.watch_members)))
        except KazooException:
            self._closing.wait(RETRY_S)
            self.watch_members()


def read_members(client: KazooClient, on_change: Callable[[], None] | None = None) -> dict[str, str]:
    """The instance of every member agent by host. `on_change` is called once, on kazoo's thread, when that changes."""
    return {host: str(about.get("instance", "")) for host, about in read_agents(client, on_change).items()}
