"""One leadership: the loop that feeds the core with messages and time, from the election until it is lost."""

from __future__ import annotations

import logging
import math
import time

import zmq
from kazoo.client import KazooClient, KazooState

from riprap.codec.clock import clock_id
from riprap.codec.errors import FrameError, RiprapError
from riprap.codec.trust.doorkeeper import sender_of
from riprap.codec.trust.reader import READER
from riprap.controller import messages
from riprap.controller.actions import Action
from riprap.controller.after_end import Endings, OnEnded
from riprap.controller.core import Core, Later
from riprap.controller.deltas import Gap
from riprap.controller.errands import Errands, read_members
from riprap.controller.executor import Executor, Ticket
from riprap.controller.inbox import Inbox
from riprap.controller.jobspec import Check, JobSpec
from riprap.controller.last_words import read_last_words
from riprap.controller.messages import Message
from riprap.controller.processes import Ended
from riprap.controller.report_reader import ReportReader
from riprap.controller.steps import PlanFor
from riprap.controller.store import JobStore
from riprap.controller.welcome import REQUESTS, Welcome

logger = logging.getLogger(__name__)

TICK_MS = 200
SLEPT_S = 0.5  # a loop that takes longer than this was not running: stopped, swapped out, or starved
BATCH_MAX = 1000  # messages taken between two ticks
NOT_OF_A_READER = RiprapError(
    "a reader's keys allow to ask how jobs are, and no more", "use the keys of the cluster (riprap token, riprap join)"
)


class Leadership:
    """Acts as the leader of `term` on a bound ROUTER socket.

    The inbox is shared with the process: it gets ("session", state) from kazoo's listener, and the errands' outcomes.
    """

    def __init__(
        self,
        client: KazooClient,
        term: int,
        endpoint: str,
        router: zmq.Socket[bytes],
        inbox: Inbox,
        plan_for: PlanFor,
        on_ended: OnEnded,
        check: Check,
        welcome: Welcome,
    ) -> None:
        self._router, self._endpoint, self._welcome, self._check = router, endpoint, welcome, check
        self._inbox = inbox
        store = JobStore(client, term)
        jobs, members = store.load(), read_members(client)
        now = time.monotonic()
        self._core = Core(term, endpoint, plan_for, jobs, members, now, read_last_words, clock_id())
        for name, error in store.unreadable.items():
            self._core.set_aside(name, error)
        self._errands = Errands(client, store, inbox)
        self._endings = Endings(on_ended)
        self._executor = Executor(router, self._errands, self._endings)
        self._errands.watch_members()
        self._reports = ReportReader()
        self._malformed = 0
        self._requests: list[tuple[bytes, str, Message]] = []

    def run(self, ended: Ended) -> str:
        """Lead until `ended` or deposed; returns the reason for the end."""
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._inbox.fileno(), zmq.POLLIN)
        poller.register(ended.fileno(), zmq.POLLIN)
        before = time.monotonic()
        try:
            while not ended:
                poller.poll(self._wait_ms())
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
            self._endings.close()

    def _wait_ms(self) -> int:
        """A tick, or until a checkpoint is due."""
        return math.ceil(min(TICK_MS, self._core.due_in(time.monotonic()) * 1000))

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
            elif kind == "unreadable":
                core.set_aside(*thing)
            elif kind == "purged":
                self._executor.perform(core.purged(thing))
            elif kind == "purge_failed":
                self._executor.perform(core.purge_failed(thing))
            elif kind == "deposed":
                return str(thing)
            elif kind == "session" and thing == KazooState.LOST:
                return "the ZooKeeper session was lost"
            elif kind == "session":
                self._executor.cut_off(thing == KazooState.SUSPENDED)
        return ""

    def _take_messages(self, now: float) -> None:
        for _ in range(BATCH_MAX):
            try:
                identity, *frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            try:
                if len(frames) != 1:
                    raise FrameError("a control message is one frame")
                self._take(identity.bytes, sender_of(frames[0]), messages.unpack(frames[0].bytes), now)
            except FrameError as error:
                self._malformed += 1
                if self._malformed == 1:
                    logger.warning("dropped a malformed control message (further ones are counted): %s", error)

    def _take(self, identity: bytes, role: str, message: Message, now: float) -> None:
        """Feed one message; raises FrameError when it is not well formed, or the role of its sender sends none such."""
        if not self._welcome.may(role, message["type"]):
            if role == READER:
                self._executor.refuse(Ticket(identity, messages.count(message, "id")), NOT_OF_A_READER)
                return
            raise FrameError(f"no message of type {message['type'][:40]!r} is taken of a {role}")
        if message["type"] == "report":
            self._take_report(identity, message, now)
        else:
            messages.count(message, "id")
            self._requests.append((identity, role, message))

    def _take_report(self, identity: bytes, message: Message, now: float) -> None:
        """Feed one report; its consequences are decided when all that wait have been taken."""
        try:
            report = self._reports.read(message)
        except Gap:
            self._executor.ask_for_whole(identity)
            return
        if report is not None:
            self._executor.heard_from(report.instance, identity, report.behind)
            self._core.hear(report, now)

    def _answer_requests(self, now: float) -> None:
        """Answer the clients; while the picture of the cluster is being rebuilt, they wait."""
        if self._core.takes_over:
            return
        requests, self._requests = self._requests, []
        for identity, role, message in requests:
            self._answer(Ticket(identity, message["id"]), role, message, now)

    def _answer(self, ticket: Ticket, role: str, message: Message, now: float) -> None:
        try:
            self._executor.perform(self._request(ticket, role, message, now))
        except FrameError as error:
            self._executor.refuse(ticket, RiprapError(str(error), "use the client of the controller's version"))
        except RiprapError as error:
            self._executor.refuse(ticket, error)
        except Later:
            self._requests.append((ticket.identity, role, message))
        except Exception:  # one client's request must not take the jobs' leader down, nor its successors
            logger.exception("request %s failed", message["type"])
            self._executor.refuse(ticket, RiprapError("the controller failed at it", "see the controller's log"))

    def _request(self, ticket: Ticket, role: str, message: Message, now: float) -> list[Action]:
        core, job = self._core, messages.text(message, "job", "")
        match message["type"]:
            case "submit":
                topology, run_dir = messages.mapping(message, "topology"), messages.text(message, "run_dir")
                submission = messages.text(message, "submission", "")
                self._check(job, topology)
                return core.submit(ticket, JobSpec.read(job, topology, run_dir, submission), now)
            case "cancel":
                return core.cancel(ticket, job, now)
            case "drain":
                return core.drain(ticket, job, now)
            case "adapt":
                return core.adapt(ticket, job, messages.texts(message, "tasks"), now)
            case "savepoint":
                return core.savepoint(
                    ticket, job, messages.text(message, "directory"), message.get("stop") is True, now
                )
            case "kill":
                return core.kill(ticket, job, messages.text(message, "worker"))
            case "forget":
                return core.forget(ticket, job)
            case "rotate":
                core.rotate(ticket, messages.secret(message), now)
            case "list":
                self._executor.answer(ticket, core.list_jobs())
            case "status":
                self._executor.answer(ticket, core.status(job))
            case "jobs":
                self._executor.answer(ticket, core.phases())
            case "agents":
                self._executor.answer(ticket, core.agents())
            case kind if kind in REQUESTS:
                self._executor.answer(ticket, self._welcome.answer(role, message, self._endpoint))
            case other:
                raise RiprapError(f"the controller knows no request {other!r}", "use the client of its version")
        return []
