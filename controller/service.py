"""The controller process: stands by until it is elected, leads until it is deposed, and stands by again."""

from __future__ import annotations

import logging
import os
import time

import zmq
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError

from riprap.codec.errors import ConfigError
from riprap.codec.trust.curve import serve_with
from riprap.codec.trust.doorkeeper import Doorkeeper
from riprap.codec.trust.keys import CONTROLLER, own_authority
from riprap.controller import processes, session
from riprap.controller.after_end import OnEnded, nothing_to_do
from riprap.controller.election import try_to_lead
from riprap.controller.inbox import Inbox
from riprap.controller.jobspec import Check, unchecked
from riprap.controller.leadership import Leadership
from riprap.controller.messages import MESSAGE_BYTES_MAX
from riprap.controller.processes import Ended
from riprap.controller.steps import PlanFor, restart_lost_for
from riprap.controller.store import Deposed
from riprap.controller.welcome import Welcome

logger = logging.getLogger(__name__)

STANDBY_MS = 500  # between two tries, should a watch be lost
MESSAGES_WAITING_MAX = 64  # of one peer; more wait at the peer


def run_controller(
    zookeeper: str,
    endpoint_host: str = "127.0.0.1",
    plan_for: PlanFor = restart_lost_for,
    on_ended: OnEnded = nothing_to_do,
    check: Check = unchecked,
) -> None:
    """Be a controller until SIGTERM or SIGINT; call it on the main thread.

    Agents and clients reach it at `endpoint_host` (an address of this host), at a free port. `on_ended` is called for
    each job that has ended, `check` before one is taken. Raises ConfigError when ZooKeeper does not answer, or the
    address cannot be bound.
    """
    ended = processes.begin_service()
    client = session.connect(zookeeper)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = context.socket(zmq.ROUTER)
    keys = own_authority()
    welcome = Welcome(keys, zookeeper)
    serve_with(router, keys.pair(CONTROLLER), CONTROLLER)
    doorkeeper = Doorkeeper(router, welcome.admits)
    try:
        _bind(router, endpoint_host)
        _stand_and_lead(client, router, plan_for, on_ended, check, welcome, ended)
    finally:
        session.disconnect(client)
        doorkeeper.close()
        context.destroy(linger=200)


def _stand_and_lead(
    client: KazooClient,
    router: zmq.Socket[bytes],
    plan_for: PlanFor,
    on_ended: OnEnded,
    check: Check,
    welcome: Welcome,
    ended: Ended,
) -> None:
    inbox = Inbox()
    logger.info("ready to lead")
    client.add_listener(lambda state: inbox.put(("session", state)))
    endpoint = router.getsockopt_string(zmq.LAST_ENDPOINT)
    poller = zmq.Poller()
    poller.register(inbox.fileno(), zmq.POLLIN)
    poller.register(ended.fileno(), zmq.POLLIN)
    while not ended:
        inbox.take_all()  # what was left for a former leadership; a session lost from here on ends the next one
        try:
            term = try_to_lead(client, endpoint, os.getpid(), lambda: inbox.put(("vacant", None)))
            if term is not None:
                logger.info("leading, term %d, at %s", term, endpoint)
                leadership = Leadership(client, term, endpoint, router, inbox, plan_for, on_ended, check, welcome)
                logger.info("leading no more: %s", leadership.run(ended))
        except (KazooException, Deposed) as error:
            logger.info("not leading: %r", error)
            is_shut_out = isinstance(error, NoAuthError)  # the keys have changed; who started us starts us again
            time.sleep(STANDBY_MS / 1000 if is_shut_out else 0.05)  # else the connection is being restored
        else:
            if term is None:
                poller.poll(STANDBY_MS)


def _bind(router: zmq.Socket[bytes], host: str) -> None:
    """Open the socket for agents and clients. Nothing is read from it while another controller leads."""
    router.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
    router.setsockopt(zmq.RCVHWM, MESSAGES_WAITING_MAX)
    router.setsockopt(zmq.LINGER, 200)
    try:
        router.bind(f"tcp://{host}:*")
    except zmq.ZMQError as error:
        raise ConfigError(f"the controller cannot listen at {host}: {error}", "name an address of this host") from error
