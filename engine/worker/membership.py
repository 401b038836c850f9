"""How a worker follows the controller's views: whom it connects to, and what its task is told of deaths and births."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller.phases import Phase
from riprap.engine.flow.three_stage.task import Runs
from riprap.engine.worker.guests import Guests
from riprap.engine.worker.port import Fenced, WorkerPort


class Membership:
    """Applies views in order of their revision, and tells who may connect.

    A view tells of peers that changed since the last: all, in the first. What changed twice between two views is told
    once, as it is now: the moments between do not matter.

    With `transport` "auto" peers of the same host are offered payloads by reference, with "zeromq" none is.
    """

    def __init__(self, port: WorkerPort, task: Runs, guests: Guests, host: str, transport: str) -> None:
        self.port, self.task, self.guests, self.host, self.transport = port, task, guests, host, transport
        self.revision = -1
        self._receivers = set(port.layout.receivers())

    def peers(self) -> list[str]:
        """The workers of whom views must tell."""
        ends = [*self.port.layout.receivers(), *chain.from_iterable(self.port.layout.incoming().values())]
        return [str(worker) for worker in dict.fromkeys(ends)]

    def on_view(self, view: Mapping[str, Any]) -> None:
        """Raises Fenced when the view says so."""
        if view["revision"] < self.revision:
            return
        self.revision = view["revision"]
        for name, entry in view["workers"].items():
            worker = WorkerId.parse(name)
            if worker == self.port.layout.me:
                if entry["incarnation"] > self.port.life:
                    raise Fenced
            else:
                self._on_peer(worker, entry)
        if "horizon" in view:
            self.task.grant(*view["horizon"])
        if view["phase"] in (Phase.RUNNING, Phase.RECOVERING):
            self.task.start()

    def _on_peer(self, worker: WorkerId, entry: Mapping[str, Any]) -> None:
        links, life = self.port.links, Incarnation(entry["incarnation"])
        up = entry["state"] == "up"
        if links.is_up(worker) and not (up and links.incarnation(worker) == life):
            links.lower(worker)
            self.guests.dismiss(worker)
            self.port.disconnect(worker)
            self.task.on_worker_failed(worker)
        if up and links.incarnation(worker) < life:
            key = entry["key"].encode()
            if worker in self._receivers:
                near = entry["host"] == self.host
                endpoint = entry["ipc"] if near else entry["tcp"]
                self.port.connect(worker, endpoint, key, near and self.transport == "auto")
            links.raise_(worker, life)
            self.task.on_worker_restored(worker)
            self.guests.expect(worker, life, key)
