"""Performs the core's actions; each may be performed twice without harm."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import zmq

from riprap.codec.errors import FrameError, RiprapError
from riprap.controller import messages
from riprap.controller.actions import Action, Log, Persist, Purge, Reply, Send, SumUp
from riprap.controller.after_end import Endings
from riprap.controller.deltas import Writer
from riprap.controller.errands import Errands
from riprap.controller.logs import append

logger = logging.getLogger(__name__)


class Ticket(NamedTuple):
    """A client's request, to be answered: where it came from and its number there."""

    identity: bytes
    request: int


class Executor:
    """Acts through the leader's ROUTER socket, its errands and the jobs' event logs. Owned by the leader's thread."""

    def __init__(self, router: zmq.Socket[bytes], errands: Errands, endings: Endings) -> None:
        self._router = router
        self._errands = errands
        self._endings = endings
        self._routes: dict[str, bytes] = {}
        self._desired: dict[str, Writer] = {}
        self._unreached: set[str] = set()
        """The agents that have too much to be told, as far as that was logged."""
        self._is_cut_off = False
        self._held: list[Log] = []

    def heard_from(self, instance: str, identity: bytes, behind: bool) -> None:
        """An agent's messages come from this identity of the router now; one that is behind needs all of its next."""
        if behind or self._routes.get(instance) != identity:
            self._desired[instance] = Writer()
        self._routes[instance] = identity

    def ask_for_whole(self, identity: bytes) -> None:
        """A report of that agent was lost."""
        self._send(identity, {"type": "resend"})

    def cut_off(self, is_cut_off: bool) -> None:
        """Hold events back while ZooKeeper is not reached: perhaps another leads, and none of them happens."""
        self._is_cut_off = is_cut_off
        held, self._held = self._held, []
        self.perform([*held])

    def perform(self, actions: list[Action]) -> None:
        """Perform actions in their order."""
        for action in actions:
            match action:
                case Persist():
                    self._errands.persist(action)
                case Send():
                    self._tell(action.instance, action.message)
                case Reply():
                    self.answer(action.ticket, action.result)
                case Log() if self._is_cut_off:
                    self._held.append(action)
                case Log():
                    self._log(action)
                case Purge(name):
                    self._errands.purge(name)
                case SumUp(spec, status):
                    self._endings.begin(spec.topology, spec.run_dir, status)

    def answer(self, ticket: Ticket, result: Any) -> None:
        """Tell a client that its request was done."""
        try:
            self._send(ticket.identity, {"type": "reply", "id": ticket.request, "ok": True, "result": result})
        except FrameError as error:
            self.refuse(ticket, RiprapError(str(error), "ask for less, or lower the number of workers"))

    def refuse(self, ticket: Ticket, error: RiprapError) -> None:
        """Tell a client why its request was not done."""
        fields = {"error": str(error.args[0]), "remedy": error.remedy, "exit_code": error.exit_code}
        self._send(ticket.identity, {"type": "reply", "id": ticket.request, "ok": False, **fields})

    def _tell(self, instance: str, message: messages.Message) -> None:
        """Tell an agent, if it has been heard of; of a desired state only what is new to it.

        What is too large is not sent, and the leader lives on: it becomes smaller when jobs are cancelled.
        """
        identity, writer = self._routes.get(instance), self._desired.get(instance)
        if identity is None or writer is None:
            return
        if message["type"] == "desired":
            message = desired_message(message, writer)
        try:
            was_sent = self._send(identity, message)
            self._unreached.discard(instance)
        except FrameError as error:
            was_sent = False
            if instance not in self._unreached:
                logger.error("agent %s cannot be told of its jobs, of which some must end: %s", instance, error)
            self._unreached.add(instance)
        if not was_sent:
            writer.restart()

    def _send(self, identity: bytes, message: messages.Message) -> bool:
        """Send, or drop when the peer is gone or does not read: whoever needs it will be told again."""
        try:
            self._router.send_multipart([identity, messages.pack(message)], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            logger.debug("dropped a message of type %s: %s", message["type"], error)
            return False
        return True

    def _log(self, action: Log) -> None:
        """Append to a log of a job; a run directory that cannot be written must not stop the job."""
        try:
            append(action)
        except OSError as error:
            logger.warning("event %s is not logged: %s", action.event, error)


def desired_message(message: messages.Message, writer: Writer) -> messages.Message:
    """A desired state as the wire carries it to the agent that the writer is for."""
    return {"type": "desired", "term": message["term"], **writer.encode(message["sequence"], message["jobs"])}
