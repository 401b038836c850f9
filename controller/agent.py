"""The agent process, one a host: runs the workers that the leader wants here, and reports all that it knows of them."""

from __future__ import annotations

import logging
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator

import zmq

from codec.clock import clock_id
from codec.errors import ConfigError, FrameError
from controller import messages, processes
from controller.addresses import ONE_HOST, address_towards, own_address
from controller.children import Children
from controller.deltas import Writer
from controller.inbox import Inbox
from controller.membership import Membership
from controller.messages import MESSAGE_BYTES_MAX, Message
from controller.reports import AgentReport
from controller.spawner import Spawner
from controller.wish import Wishes

logger = logging.getLogger(__name__)

HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
REPORT_S = 0.1
CALM_REPORT_S = 0.3  # while no worker has said anything
SPARES = 2


def run_agent(
    zookeeper: str,
    host: str = "",
    address: str | None = None,
    entry: str = "engine.worker:main",
    *,
    spares: int = SPARES,
    die_with_parent: bool | int = False,
) -> None:
    """Be the agent of `host` (default: this machine's name) until SIGTERM or SIGINT; call it on the main thread.

    `address` is where workers of other hosts reach this one (None: the one that reaches ZooKeeper; ONE_HOST: nobody
    does), `entry` the workers' function, `spares` how many interpreters wait with its module imported,
    `die_with_parent` as in `processes.die_with_parent`. When the agent ends, in whatever way, its workers do. Raises
    ConfigError when `entry` cannot be imported, ZooKeeper does not answer, an agent of that name is there, or the
    workers of the others could not reach ours.
    """
    ended = processes.begin_service(die_with_parent)
    host = host or socket.gethostname()
    address = address_towards(zookeeper) if address is None else own_address(address) if address else ONE_HOST
    if not HOST_NAME.fullmatch(host):
        raise ConfigError(f"{host!r} cannot name a host", "use letters, digits, dots, - and _, at most 253 of them")
    report = AgentReport(host, uuid.uuid4().hex, address=address, pid=os.getpid(), clock=clock_id())
    spawner = Spawner(entry, spares)
    inbox = Inbox()
    try:
        about = {"instance": report.instance, "address": address, "pid": report.pid}
        membership = Membership(zookeeper, host, about, inbox)
        try:
            Agent(report, spawner, inbox).run(ended)
        finally:
            membership.close()
    finally:
        spawner.close()


class Agent:
    """The loop over the leader's and the workers' messages and exits.

    It reports at once when something happened, else every 100 ms, or 300 ms while nobody has anything to say.
    """

    def __init__(self, report: AgentReport, spawner: Spawner, inbox: Inbox) -> None:
        self._report = report
        self._spawner = spawner
        self._inbox = inbox
        self._children = Children(spawner, report.host, report.address)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._leader: zmq.Socket[bytes] | None = None
        self._leader_term = 0
        self._reports = Writer()
        self._wishes = Wishes()

    def run(self, ended: list[int]) -> None:
        """Run until a signal is in `ended`."""
        reported_at, heard = 0.0, True
        try:
            while not ended:
                heard |= self._poll(max(0.0, _due(reported_at, heard) - time.monotonic()))
                changed = self._step()
                now = time.monotonic()
                if changed or now >= _due(reported_at, heard):
                    self._send_report()
                    reported_at, heard = now, False
        finally:
            self._children.close()
            self._context.destroy(linger=0)

    def _poll(self, timeout_s: float) -> bool:
        """Wait for something to take; whether there is."""
        poller = zmq.Poller()
        for source in (self._inbox, self._spawner, self._children):
            poller.register(source.fileno(), zmq.POLLIN)
        if self._leader is not None:
            poller.register(self._leader, zmq.POLLIN)
        return bool(poller.poll(int(timeout_s * 1000) + 1))

    def _step(self) -> bool:
        """Take whatever waits; whether it is worth a report at once."""
        for endpoint, term in self._inbox.take_all():
            self._follow(endpoint, term)
        changed = self._children.hear()
        for data in self._from_leader():
            try:
                changed |= self._take(messages.unpack(data))
            except FrameError as error:
                logger.warning("dropped a malformed message of the leader: %s", error)
        return changed

    def _follow(self, endpoint: str, term: int) -> None:
        """Turn to another leader. Terms grow, so an older one's notice that comes late changes nothing."""
        if term <= self._leader_term or not endpoint:
            return
        if self._leader is not None:
            self._leader.close(linger=0)
        self._leader_term = term
        self._reports.restart()
        self._leader = self._context.socket(zmq.DEALER)
        self._leader.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
        self._leader.setsockopt(zmq.IMMEDIATE, 1)  # a report that cannot go now is worth nothing later
        self._leader.setsockopt(zmq.SNDHWM, 8)
        self._leader.setsockopt(zmq.RECONNECT_IVL, 20)
        self._leader.connect(endpoint)

    def _from_leader(self) -> Iterator[bytes]:
        while self._leader is not None:
            try:
                yield self._leader.recv(zmq.NOBLOCK)
            except zmq.Again:
                return

    def _take(self, message: Message) -> bool:
        """Obey one message; raises FrameError when it is not well formed."""
        if message["type"] == "kill":
            job, worker = messages.text(message, "job"), messages.text(message, "worker")
            self._children.kill(job, worker, messages.count(message, "incarnation"))
        if message["type"] == "resend":
            self._reports.restart()
            return True
        return message["type"] == "desired" and self._take_desired(message)

    def _take_desired(self, message: Message) -> bool:
        """Do what the leader wants now; whether it is news, so that it hears of it."""
        report, wishes = self._report, self._wishes
        jobs = wishes.take(message)
        if jobs is not None:
            self._children.want(jobs)
        report.term, report.sequence, report.behind = wishes.term, wishes.sequence, wishes.behind
        return jobs is not None or wishes.behind

    def _send_report(self) -> None:
        if self._leader is None:
            return
        report = self._report
        report.number += 1
        report.rows = self._children.rows()
        report.revisions = self._children.revisions()
        report.sent_at = time.monotonic()
        changes = self._reports.encode(report.number, report.state())
        try:
            message = {"type": "report", "instance": report.instance, **changes}
            self._leader.send(messages.pack(message), zmq.NOBLOCK)
        except zmq.Again:
            self._reports.restart()
        except FrameError:
            self._reports.restart()
            self._children.shed()


def _due(reported_at: float, heard: bool) -> float:
    """When the next report is, if nothing happens; `heard`: something has come since the last one."""
    return reported_at + (REPORT_S if heard else CALM_REPORT_S)
