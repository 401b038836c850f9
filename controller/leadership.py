"""One leadership: the loop that feeds the core with messages and time, from the election until it is lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import zmq
from kazoo.client import KazooClient, KazooState

from codec.errors import FrameError, RiprapError
from controller import messages
from controller.actions import Action
from controller.core import Core
from controller.errands import Errands, read_members
from controller.executor import Executor, Ticket
from controller.inbox import Inbox
from controller.jobspec import JobSpec
from controller.messages import Message
from controller.reports import AgentReport
from controller.steps import PlanFor
from controller.store import Store

logger = logging.getLogger(__name__)

TICK_MS = 200
SLEPT_S = 0.5  # a loop that takes longer than this was not running: stopped, swapped out, or starved
BATCH_MAX = 1000  # messages taken between two ticks


class Leadership:
    """Acts as the leader of `term` on a bound ROUTER socket.

    The inbox is shared with the process: it gets ("session", state) from kazoo's listener, and the errands' outcomes.
    """

    def __init__(
        self, client: KazooClient, term: int, endpoint: str, router: zmq.Socket[bytes], inbox: Inbox, plan_for: PlanFor
    ) -> None:
        self._router = router
        self._inbox = inbox
        store = Store(client, term)
        self._core = Core(term, endpoint, plan_for, store.load(), read_members(client), time.monotonic())
        self._errands = Errands(client, store, inbox)
        self._executor = Executor(router, self._errands)
        self._errands.watch_members()
        self._malformed = 0
        self._requests: list[tuple[bytes, Message]] = []

    def run(self, stopped: Callable[[], bool]) -> str:
        """Lead until `stopped` or deposed; says why it ended."""
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._inbox.fileno(), zmq.POLLIN)
        before = time.monotonic()
        try:
            while not stopped():
                poller.poll(TICK_MS)
                now = time.monotonic()
                if now - before > SLEPT_S:
                    self._core.slept(now - before)
                before = now
                end = self._take_inbox(now)
                if end:
                    return end
                self._take_messages(now)
                self._executor.perform(self._core.tick(now))
                self._answer_requests(now)
            return "told to stop"
        finally:
            self._errands.close()
            self._executor.close()

    def _take_inbox(self, now: float) -> str:
        """Feed what other threads left; a reason when the leadership is over."""
        core = self._core
        for kind, thing in self._inbox.take_all():
            if kind == "members":
                self._executor.perform(core.members(thing, now))
            elif kind == "persisted":
                self._executor.perform(core.persisted(thing.spec.name, thing.record, now))
            elif kind == "persist_failed":
                self._executor.perform(core.persist_failed(thing.spec.name, now))
            elif kind == "deposed":
                return str(thing)
            elif kind == "session" and thing == KazooState.LOST:
                return "the ZooKeeper session was lost"
        return ""

    def _take_messages(self, now: float) -> None:
        for _ in range(BATCH_MAX):
            try:
                identity, *frames = self._router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                if len(frames) != 1:
                    raise FrameError("a control message is one frame")
                self._take(identity, messages.unpack(frames[0]), now)
            except FrameError as error:
                self._malformed += 1
                if self._malformed == 1:
                    logger.warning("dropped a malformed control message (further ones are counted): %s", error)

    def _take(self, identity: bytes, message: Message, now: float) -> None:
        """Feed one message; raises FrameError when it is not well formed."""
        if message["type"] == "report":
            report = AgentReport.read(message)
            self._executor.heard_from(report.instance, identity)
            self._executor.perform(self._core.report(report, now))
        else:
            messages.count(message, "id")
            self._requests.append((identity, message))

    def _answer_requests(self, now: float) -> None:
        """Answer the clients; while the picture of the cluster is being rebuilt, they wait."""
        if self._core.takes_over:
            return
        for identity, message in self._requests:
            self._answer(Ticket(identity, message["id"]), message, now)
        self._requests.clear()

    def _answer(self, ticket: Ticket, message: Message, now: float) -> None:
        try:
            self._executor.perform(self._request(ticket, message, now))
        except FrameError as error:
            self._executor.refuse(ticket, RiprapError(str(error), "use the client of the controller's version"))
        except RiprapError as error:
            self._executor.refuse(ticket, error)
        except Exception:  # one client's request must not take the jobs' leader down, nor its successors
            logger.exception("request %s failed", message["type"])
            self._executor.refuse(ticket, RiprapError("the controller failed at it", "see the controller's log"))

    def _request(self, ticket: Ticket, message: Message, now: float) -> list[Action]:
        core, job = self._core, messages.text(message, "job", "")
        match message["type"]:
            case "submit":
                topology, run_dir = messages.mapping(message, "topology"), messages.text(message, "run_dir")
                submission = messages.text(message, "submission", "")
                return core.submit(ticket, JobSpec.read(job, topology, run_dir, submission), now)
            case "cancel":
                return core.cancel(ticket, job, now)
            case "kill":
                return core.kill(ticket, job, messages.text(message, "worker"))
            case "status":
                self._executor.answer(ticket, core.status(job))
            case "jobs":
                phases = {name: str(job.phase) for name, job in core.jobs.items()}
                self._executor.answer(ticket, phases)
            case "agents":
                self._executor.answer(ticket, core.agents())
            case other:
                raise RiprapError(f"the controller knows no request {other!r}", "use the client of its version")
        return []
