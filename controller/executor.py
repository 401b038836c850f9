"""Performs the core's actions; each may be performed twice without harm."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import zmq

from codec.errors import FrameError, RiprapError
from codec.events import EventLog
from controller import messages
from controller.actions import Action, Log, Persist, Reply, Send
from controller.errands import Errands

logger = logging.getLogger(__name__)


class Ticket(NamedTuple):
    """A client's request, to be answered: where it came from and its number there."""

    identity: bytes
    request: int


class Executor:
    """Acts through the leader's ROUTER socket, its errands and the jobs' event logs. Owned by the leader's thread."""

    def __init__(self, router: zmq.Socket[bytes], errands: Errands) -> None:
        self._router = router
        self._errands = errands
        self._logs: dict[str, EventLog] = {}
        self._routes: dict[str, bytes] = {}

    def heard_from(self, instance: str, identity: bytes) -> None:
        """An agent's messages come from this identity of the router now."""
        self._routes[instance] = identity

    def perform(self, actions: list[Action]) -> None:
        """Perform actions in their order."""
        for action in actions:
            match action:
                case Persist():
                    self._errands.persist(action)
                case Send():
                    self._send(self._routes.get(action.instance), action.message)
                case Reply():
                    self.answer(action.ticket, action.result)
                case Log():
                    self._log(action)

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

    def close(self) -> None:
        """Close the event logs."""
        for log in self._logs.values():
            log.close()

    def _send(self, identity: bytes | None, message: messages.Message) -> None:
        """Send, or drop when the peer is gone or does not read: whoever needs it will be told again."""
        if identity is None:
            return
        try:
            self._router.send_multipart([identity, messages.pack(message)], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            logger.debug("dropped a message of type %s: %s", message["type"], error)

    def _log(self, action: Log) -> None:
        """Append to a job's events; a run directory that cannot be written must not stop the job."""
        try:
            log = self._logs.get(action.run_dir)
            if log is None:
                log = self._logs[action.run_dir] = EventLog(f"{action.run_dir}/events.jsonl")
            log.write(action.event, **action.fields)
        except OSError as error:
            logger.warning("event %s is not logged: %s", action.event, error)
