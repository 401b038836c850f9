"""The agent process, one a host: runs the workers that the leader wants here, and reports all that it knows of them."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import zmq

from riprap.codec.clock import clock_id
from riprap.codec.errors import ConfigError, FrameError
from riprap.codec.trust.curve import call_as
from riprap.codec.trust.keys import AGENT, CONTROLLER, Authority, keys_folder, own_authority
from riprap.codec.trust.rotation import drop_next, follow, keep_next
from riprap.controller import messages, processes
from riprap.controller.addresses import ONE_HOST, address_towards, own_address
from riprap.controller.children import Children
from riprap.controller.deltas import Writer
from riprap.controller.election import Leader
from riprap.controller.inbox import Inbox
from riprap.controller.labels import HOST_NAME
from riprap.controller.membership import HostMembership
from riprap.controller.messages import MESSAGE_BYTES_MAX, Message
from riprap.controller.processes import Ended
from riprap.controller.reports import AgentReport
from riprap.controller.spawner import Spawner
from riprap.controller.wish import Wishes

logger = logging.getLogger(__name__)

REPORT_S = 0.1
CALM_REPORT_S = 0.3  # while no worker has said anything
SPARES = 2
DEAF_MS = 3000
"""A connection to the leader is given up, and made anew, when it brings nothing for so long, not even libzmq's answers:
TCP would try for minutes, and once a cut has healed as long again as that lasted."""


def run_agent(
    zookeeper: str,
    host: str = "",
    address: str | None = None,
    entry: str = "riprap.engine.worker.worker:main",
    *,
    root: str = "/",
    labels: Mapping[str, str] = MappingProxyType({}),
    spares: int = SPARES,
) -> None:
    """Be the agent of `host` (default: this machine's name) until SIGTERM or SIGINT; call it on the main thread.

    `address` is where workers of other hosts reach this one (None: the one that reaches ZooKeeper; ONE_HOST: nobody
    does), `entry` the workers' function, `root` the folder under which jobs may write, `labels` the failure domains of
    this host besides its name (labels.py), `spares` how many interpreters wait with its module imported. When the agent
    ends, in whatever way, its workers do. Raises ConfigError when `entry` cannot be imported, ZooKeeper does not
    answer, an agent of that name is there, or the workers of the others could not reach ours.
    """
    ended = processes.begin_service()
    host = host or socket.gethostname()
    address = address_towards(zookeeper) if address is None else own_address(address) if address else ONE_HOST
    if not HOST_NAME.fullmatch(host):
        raise ConfigError(f"{host!r} cannot name a host", "use letters, digits, dots, - and _, at most 253 of them")
    report = AgentReport(
        host, uuid.uuid4().hex, address=address, pid=os.getpid(), clock=clock_id(), labels=dict(labels)
    )
    spawner = Spawner(entry, spares)
    inbox = Inbox()
    try:
        about = {"instance": report.instance, "address": address, "pid": report.pid, "labels": report.labels}
        membership = HostMembership(zookeeper, host, about, inbox)
        try:
            Agent(report, spawner, inbox, root, membership.learn_keys).run(ended)
        finally:
            membership.close()
    finally:
        spawner.close()


class Agent:
    """The loop over the leader's and the workers' messages and exits.

    It reports at once when something happened, else every 100 ms, or 300 ms while nobody has anything to say.
    `learn_keys` is called when there are other keys in its user's folder.
    """

    def __init__(
        self, report: AgentReport, spawner: Spawner, inbox: Inbox, root: str, learn_keys: Callable[[], None]
    ) -> None:
        self._report, self._learn_keys = report, learn_keys
        self._spawner = spawner
        self._inbox = inbox
        self._children = Children(spawner, report.host, report.address, root)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._leader: zmq.Socket[bytes] | None = None
        self._leader_term = 0
        self._reports = Writer()
        self._wishes = Wishes()

    def run(self, ended: Ended) -> None:
        """Run until `ended`."""
        reported_at, heard = 0.0, True
        try:
            while not ended:
                heard |= self._poll(max(0.0, _due(reported_at, heard) - time.monotonic()), ended)
                changed = self._step()
                now = time.monotonic()
                if changed or now >= _due(reported_at, heard):
                    self._send_report()
                    reported_at, heard = now, False
        finally:
            self._children.close()
            self._context.destroy(linger=0)

    def _poll(self, timeout_s: float, ended: Ended) -> bool:
        """Wait for something to take; True when there is some."""
        poller = zmq.Poller()
        for source in (self._inbox, self._spawner, self._children, ended):
            poller.register(source.fileno(), zmq.POLLIN)
        if self._leader is not None:
            poller.register(self._leader, zmq.POLLIN)
        return bool(poller.poll(int(timeout_s * 1000) + 1))

    def _step(self) -> bool:
        """Take all that waits; True when it is worth a report at once."""
        for leader, term in self._inbox.take_all():
            self._follow(leader, term)
        changed = self._children.hear()
        for data in self._from_leader():
            try:
                changed |= self._take(messages.unpack(data))
            except FrameError as error:
                logger.warning("dropped a malformed message of the leader: %s", error)
        return changed

    def _follow(self, leader: Leader, term: int) -> None:
        """Turn to another leader. Terms grow, so an older one's notice that comes late changes nothing.

        A leader that holds the keys announced to us makes them ours.
        """
        if term <= self._leader_term or not leader.endpoint:
            return
        if self._leader is not None:
            self._leader.close(linger=0)
            self._leader = None
        self._leader_term = term
        self._reports.restart()
        if not self._has_keys_of(leader):
            return
        self._leader = self._context.socket(zmq.DEALER)
        call_as(self._leader, AGENT, CONTROLLER)
        self._leader.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
        self._leader.setsockopt(zmq.IMMEDIATE, 1)  # a report that cannot go now is worth nothing later
        self._leader.setsockopt(zmq.SNDHWM, 8)
        self._leader.setsockopt(zmq.RECONNECT_IVL, 20)
        self._leader.setsockopt(zmq.CONNECT_TIMEOUT, DEAF_MS)
        self._leader.setsockopt(zmq.HANDSHAKE_IVL, DEAF_MS)
        self._leader.setsockopt(zmq.HEARTBEAT_IVL, DEAF_MS // 3)
        self._leader.setsockopt(zmq.HEARTBEAT_TIMEOUT, DEAF_MS)
        self._leader.connect(leader.endpoint)

    def _has_keys_of(self, leader: Leader) -> bool:
        before = own_authority().id
        try:
            found = follow(leader.keys)
            if found and leader.keys != before:
                logger.info("the cluster's keys have changed")
                self._use_keys()
        except ConfigError as error:
            logger.error("%s", error)
            return False
        if not found:
            logger.error(
                "the controller at %s has other keys than those in %s: get the cluster's (`riprap token` on a host of"
                " it, `riprap join` here) and start the agent again", leader.endpoint, keys_folder(),
            )  # fmt: skip
        return found

    def _keep_next(self, secret: bytes) -> bool:
        """Keep the secret that is to be the cluster's; True when it is news."""
        key_id = Authority(secret).id
        if key_id == self._report.next_keys:
            return False
        try:
            keep_next(secret, keys_folder())
            self._use_keys()
        except ConfigError as error:
            logger.error("the cluster is to have other keys, and they cannot be kept: %s", error)
            return False
        self._report.next_keys = key_id
        return True

    def _forget_next(self) -> bool:
        """The cluster keeps its keys after all."""
        self._report.next_keys = ""
        try:
            drop_next(keys_folder())
            self._use_keys()
        except ConfigError as error:
            logger.error("%s", error)
        return True

    def _use_keys(self) -> None:
        """Have everybody here use the keys that their folder holds now; ConfigError."""
        self._learn_keys()
        self._children.learn_keys()

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
        if message["type"] == "kill_agent":
            self._children.die()
        if message["type"] == "next":
            return self._keep_next(messages.secret(message))
        if message["type"] == "forget_next":
            return self._forget_next()
        if message["type"] == "resend":
            self._reports.restart()
            return True
        return message["type"] == "desired" and self._take_desired(message)

    def _take_desired(self, message: Message) -> bool:
        """Apply the leader's newest wishes; True when it is to hear of that at once. Views come often, and it does not
        wait for what becomes of them."""
        report, wishes = self._report, self._wishes
        jobs = wishes.take(message)
        has_orders = jobs is not None and self._children.want(jobs)
        report.term, report.sequence, report.behind = wishes.term, wishes.sequence, wishes.behind
        return has_orders or wishes.behind

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
    """The time of the next report, if nothing happens; `heard`: something has come since the last one."""
    return reported_at + (REPORT_S if heard else CALM_REPORT_S)
