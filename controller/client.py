"""The users' side of the controller: finds the leader in ZooKeeper, asks it, and asks its successor when it is lost."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import zmq
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError

from riprap.codec.errors import ConfigError, FrameError, JobFailed, RiprapError
from riprap.codec.trust.curve import call_as
from riprap.codec.trust.keys import CLIENT, CONTROLLER, keys_folder
from riprap.codec.trust.reader import own_reader
from riprap.codec.trust.rotation import follow
from riprap.controller import messages, paths, session
from riprap.controller.election import Leader
from riprap.controller.messages import MESSAGE_BYTES_MAX, Message
from riprap.controller.phases import TERMINAL

POLL_S = 0.05
ANSWER_MS = 100  # a leader that takes longer may be none any more
_ERRORS: dict[int, type[RiprapError]] = {ConfigError.exit_code: ConfigError}


class Client:
    """Requests to whichever controller leads, each answered within `timeout_s` or ended by a RiprapError.

    Raises ConfigError when ZooKeeper does not answer. Not for use by several threads at once, which is a RuntimeError.
    """

    def __init__(self, zookeeper: str, timeout_s: float = 10.0) -> None:
        self._zookeeper = zookeeper
        self._timeout_s = timeout_s
        self._client = session.connect_to_ask(zookeeper)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._dealer: zmq.Socket[bytes] | None = None  # to the leader that answered last
        self._endpoint = ""  # of that
        self._requests = 0
        self._asking = threading.Lock()  # not waited for: of two threads at one socket, one may wait for ever

    def submit(self, job: str, topology: dict[str, Any], run_dir: str) -> None:
        """Make the job durable and have it started; `run_dir` is an absolute path that agents and controller share.

        Submitting a job that has not ended again changes nothing; ConfigError when the topology is not usable, or
        another job of that name has not ended.
        """
        submission = uuid.uuid4().hex
        self._ask({"type": "submit", "job": job, "topology": topology, "run_dir": run_dir, "submission": submission})

    def status(self, job: str) -> dict[str, Any]:
        """The description of a job by `riprap.controller.status.describe`."""
        return dict(self._ask({"type": "status", "job": job}))

    def jobs(self) -> dict[str, str]:
        """The phase of every job."""
        return dict(self._ask({"type": "jobs"}))

    def list_jobs(self) -> list[dict[str, Any]]:
        """Every job: `job`, `phase`, `run_dir`, `error`, and `resume`, the command that goes on with it."""
        return list(self._ask({"type": "list"}))

    def forget(self, job: str) -> None:
        """Remove an ended job from ZooKeeper and the memory of the controller; ConfigError while it has not ended."""
        self._ask({"type": "forget", "job": job})

    def agents(self) -> dict[str, Any]:
        """The agents by host, each with instance, pid, address, labels and the workers that run there."""
        return dict(self._ask({"type": "agents"}))

    def cancel(self, job: str) -> str:
        """Have the job's workers stopped; returns when the decision is durable, which is before they have ended.

        The phase of a job that had ended before, on which it has no effect; else nothing.
        """
        return str(self._ask({"type": "cancel", "job": job}).get("ended", ""))

    def drain(self, job: str) -> str:
        """Have a stream without end come to its end, with all committed; returns when the decision is durable.

        The phase of a job that had ended before, on which it has no effect; else nothing.
        """
        return str(self._ask({"type": "drain", "job": job}).get("ended", ""))

    def adapt(self, job: str, tasks: Sequence[str]) -> None:
        """Have these tasks of a job with fault_tolerance.adapt have an active replica, and no others; returns when the
        decision is durable, which is before they run."""
        self._ask({"type": "adapt", "job": job, "tasks": list(tasks)})

    def savepoint(self, job: str, directory: str, stop: bool = False) -> None:
        """Have a checkpoint made whose parts are also written to an absolute path that all hosts of the job share, and
        the job cancelled with it (`stop`).

        Returns at once: it is whole when its savepoint.json is there. Asking again changes nothing, and with `stop` it
        is to be asked for every few seconds: a job does not end with a savepoint that nobody awaits any more.
        """
        self._ask({"type": "savepoint", "job": job, "directory": directory, "stop": stop})

    def kill(self, job: str, worker: str) -> dict[str, Any]:
        """SIGKILL a worker's process through its agent; returns the incarnation and pid that were meant.

        Or all of a group (victims.py), with the agents where it names hosts; returns its `workers` and `hosts`.
        """
        return dict(self._ask({"type": "kill", "job": job, "worker": worker}))

    def token(self, lifetime_s: int, reader: bool = False) -> str:
        """A token with which another host gets this cluster's secret, or a reader's keys, for so long.

        See `controller.joining.join`.
        """
        return str(self._ask({"type": "token", "lifetime_s": lifetime_s, "reader": reader}))

    def revoke_tokens(self) -> int:
        """Make all tokens worth nothing; returns their number."""
        return int(self._ask({"type": "revoke"}))

    def rotate(self, secret: bytes) -> list[str]:
        """Have all agents keep a secret that is to be the cluster's; returns their hosts. RiprapError names those which
        have not, and then nothing has changed except that the others keep it."""
        answer = self._ask({"type": "rotate", "secret": secret})
        if answer["without"]:
            raise RiprapError(
                f"no agent has confirmed the new keys on {', '.join(answer['without'])}, so the keys stay as they are",
                "see the agent's log; have it answer, or end it for good, and give the command again a minute later",
            )
        return [str(host) for host in answer["hosts"]]

    def wait(
        self,
        job: str,
        timeout_s: float | None = None,
        until: Callable[[dict[str, Any]], bool] | None = None,
        poll_s: float = POLL_S,
    ) -> dict[str, Any]:
        """The job's status once it has ended, or as soon as `until(status)` holds; asked every `poll_s`.

        Raises JobFailed with the job's error when it failed, and RiprapError when it takes longer than `timeout_s`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            status = self.status(job)
            if until is not None and until(status):
                return status
            if status["phase"] in ("FAILED", "UNREADABLE"):
                raise JobFailed(status["error"], status["remedy"])
            if status["phase"] in TERMINAL:
                return status
            if deadline is not None and time.monotonic() > deadline:
                raise RiprapError(
                    f"job {job} is still {status['phase']} after {timeout_s:g} s", f"see {status['run_dir']}"
                )
            time.sleep(poll_s)

    def close(self) -> None:
        """End the session."""
        self._hang_up()
        self._context.destroy(linger=0)
        session.disconnect(self._client)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _ask(self, request: Message) -> Any:
        """The result of the leader, or of its successor when it goes; raises RiprapError after the timeout."""
        if not self._asking.acquire(blocking=False):
            raise RuntimeError("a client of the controller is used by two threads at once")
        try:
            return self._ask_alone(request)
        finally:
            self._asking.release()

    def _ask_alone(self, request: Message) -> Any:
        self._requests += 1
        try:
            data = messages.pack({**request, "id": self._requests})
        except FrameError as error:
            raise ConfigError(
                f"the request cannot be sent: {error}", "make the topology smaller and plainer"
            ) from error
        deadline = time.monotonic() + self._timeout_s
        endpoint = foreign = ""
        if self._dealer is not None and (leader := self._leader()) and leader.endpoint != self._endpoint:
            self._hang_up()  # it may go on answering: one that is cut off from ZooKeeper does not know yet
        while time.monotonic() < deadline:
            if self._dealer is None and (leader := self._leader()):
                if own_reader() or follow(leader.keys):
                    self._dealer, self._endpoint = self._connect(leader.endpoint), leader.endpoint
                else:
                    foreign = leader.endpoint  # perhaps it ends soon, and another comes that has our keys
            if self._dealer is not None:
                endpoint = self._endpoint
                reply = self._exchange(self._dealer, endpoint, data, deadline)
                if reply is not None:
                    return _result(reply)
                self._hang_up()
            time.sleep(POLL_S)
        if not endpoint and foreign:
            raise ConfigError(
                f"the controller at {foreign} has other keys than those in {keys_folder()}",
                "get the cluster's: `riprap token` on a host of it, and `riprap join` here",
            )
        if not endpoint:
            raise RiprapError(
                f"no controller leads at ZooKeeper {self._zookeeper}",
                "start one with `riprap up`, or wait for the election",
            )
        raise RiprapError(
            f"the controller at {endpoint} did not answer within {self._timeout_s:g} s", "see its log, or try again"
        )

    def _leader(self) -> Leader | None:
        """The leader; None when none is known now."""
        try:
            if not self._client.connected:
                return None
            return Leader.read(self._client.get(paths.LEADER)[0])
        except NoAuthError as error:
            if own_reader():
                raise ConfigError(
                    f"the cluster at ZooKeeper {self._zookeeper} has other keys than those in {keys_folder()}",
                    "get a reader's keys of it: `riprap token --reader` on a host of it, and `riprap join` here",
                ) from error
            session.learn(self._client)  # the keys were changed since it began
            return None
        except (NoNodeError, KazooException):
            return None

    def _connect(self, endpoint: str) -> zmq.Socket[bytes]:
        dealer = self._context.socket(zmq.DEALER)
        call_as(dealer, CLIENT, CONTROLLER)
        dealer.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
        dealer.connect(endpoint)
        return dealer

    def _hang_up(self) -> None:
        if self._dealer is not None:
            self._dealer.close(linger=0)
            self._dealer = None

    def _exchange(self, dealer: zmq.Socket[bytes], endpoint: str, data: bytes, deadline: float) -> Message | None:
        """One request to one leader; None when it is the leader no more, or the time is over."""
        try:
            dealer.send(data)
            while time.monotonic() < deadline:
                if dealer.poll(ANSWER_MS):
                    reply = messages.unpack(dealer.recv())
                    if reply.get("id") == self._requests:
                        return reply
                elif (leader := self._leader()) is None or leader.endpoint != endpoint:
                    return None
        except FrameError:
            return None
        return None


def _result(reply: Message) -> Any:
    """The result in a reply; raises the refusal in it."""
    if reply.get("ok") is True:
        return reply.get("result")
    kind = _ERRORS.get(reply.get("exit_code", 1), RiprapError)
    raise kind(str(reply.get("error", "refused")), str(reply.get("remedy", "")))
