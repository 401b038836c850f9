"""Follows the controller's views at a worker: whom it connects to, and what its task is told of deaths and births."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from riprap.codec.ids import Incarnation, Round, WorkerId
from riprap.controller.phases import Phase
from riprap.controller.view import OFF
from riprap.engine.flow.runs import Runs
from riprap.engine.worker.guests import Guests
from riprap.engine.worker.port import Fenced, WorkerPort


class Membership:
    """Applies views in order of their revision, and tells who may connect.

    A view tells of peers that changed since the last: all, in the first. What changed twice between two views is told
    once, as it is now: the moments between do not matter.

    With `transport` "auto" peers of the same host are offered payloads by reference, with "zeromq" none is.
    `begin_anew` makes the task of a further round, from what this worker has saved. `on_role` hears whether this copy
    of a destination writes its output, and whether the other one has another clock; `twins` are its other copies.
    """

    def __init__(
        self,
        port: WorkerPort,
        task: Runs,
        guests: Guests,
        host: str,
        transport: str,
        begin_anew: Callable[[Round, int], Runs],
        twins: Sequence[WorkerId] = (),
        on_role: Callable[[bool, bool], None] | None = None,
    ) -> None:
        self.port, self.task, self.guests, self.host, self.transport = port, task, guests, host, transport
        self.begin_anew, self.on_role = begin_anew, on_role
        self._twins: dict[WorkerId, frozenset[str]] = dict.fromkeys(twins, frozenset())
        """The names of the host on which each was last up, as far as known."""
        self.revision = -1
        self._receivers = set(port.layout.receivers())
        self._unwanted: set[WorkerId] = set()
        """Replicas that are not to run now."""

    def peers(self) -> list[str]:
        """The workers of whom views must tell."""
        layout = self.port.layout
        ends = [*layout.receivers(), *chain.from_iterable(layout.incoming().values()), *self._twins]
        return [str(worker) for worker in dict.fromkeys(ends)]

    def on_view(self, view: Mapping[str, Any]) -> None:
        """Raises Fenced when the view says so."""
        if view["revision"] < self.revision:
            return
        is_first, self.revision = self.revision < 0, view["revision"]
        entries = {WorkerId.parse(name): entry for name, entry in view["workers"].items()}
        own = entries.pop(self.port.layout.me, None)
        if own is not None and own["incarnation"] > self.port.own_incarnation:
            raise Fenced
        self._look_at_copies(own, entries)
        if view.get("round", 0) > self.port.links.round:
            self._enter(Round(view["round"]), is_first, view.get("checkpoint", (0, 0))[1])
        has_begun = view["phase"] in (Phase.RUNNING, Phase.RECOVERING)
        if is_first and has_begun:  # a job that runs: here a replica may be ahead of its primary, and is asked
            self.task.start()
        # Of a task's copies the first that is there is asked for its output, and who never died is ahead of the others.
        for worker, entry in sorted(entries.items(), key=lambda one: one[1]["incarnation"]):
            self._on_peer(worker, entry)
        if "horizon" in view:
            self.task.grant(*view["horizon"])
        if "checkpoint" in view:
            triggered, completed = view["checkpoint"]
            self.task.checkpoint(triggered, completed, view.get("savepoint", ""))
        if has_begun:
            self.task.start()

    def _look_at_copies(self, own: Mapping[str, Any] | None, entries: dict[WorkerId, Any]) -> None:
        """Copies of a destination have no links to each other."""
        for twin in self._twins:
            if (entry := entries.pop(twin, None)) and entry["state"] == "up":
                self._twins[twin] = _place(entry)
        if self.on_role is not None and self._twins and own is not None:
            here = _place(own)
            self.on_role(bool(own.get("writes")), any(at and at.isdisjoint(here) for at in self._twins.values()))

    def _enter(self, round_: Round, is_first: bool, checkpoint: int) -> None:
        """Go on in a further round: an incarnation that begins in it has restored itself, any other begins anew."""
        if is_first:
            self.port.enter(round_)
            return
        self.task.close()
        self.task = self.begin_anew(round_, checkpoint)
        for worker in self._unwanted:
            self.task.on_copy_wanted(worker, wanted=False)
        for worker in self.port.links.up:
            self.task.on_worker_restored(worker)
        self.port.ask_anew()

    def _on_peer(self, worker: WorkerId, entry: Mapping[str, Any]) -> None:
        links, incarnation = self.port.links, Incarnation(entry["incarnation"])
        up = entry["state"] == "up"
        if links.is_up(worker) and not (up and links.incarnation(worker) == incarnation):
            links.lower(worker)
            self.guests.dismiss(worker)
            self.port.disconnect(worker)
            self.task.on_worker_failed(worker)
        if (entry["state"] == OFF) != (worker in self._unwanted):
            self._unwanted ^= {worker}
            self.task.on_copy_wanted(worker, worker not in self._unwanted)
        if up and links.incarnation(worker) < incarnation:
            key = entry["key"].encode()
            if worker in self._receivers:
                near = entry["host"] == self.host
                endpoint = entry["ipc"] if near else entry["tcp"]
                self.port.connect(worker, endpoint, key, near and self.transport == "auto")
            links.raise_(worker, incarnation)
            self.task.on_worker_restored(worker)
            self.guests.expect(worker, incarnation, key)


def _place(entry: Mapping[str, Any]) -> frozenset[str]:
    """The names of a worker's host; two workers that share one have the same clock."""
    return frozenset({entry["host"], entry["tcp"].rpartition(":")[0]} - {""})
