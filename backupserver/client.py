"""A worker's end: sends saved records to all backup servers on a thread of its own, and knows which are durable.

A record is durable when every server in sync has acknowledged it. A server that stays silent for a while, or is full,
leaves the in-sync set as long as another one remains. When it is back it gets all live records again, and is in sync
once it has acknowledged them; until then nobody waits for it.

Restore rule: a server that the former incarnation's client brought in sync, in the same process, and that has not stood
still since, has every acknowledged record, so its answer is enough. Any other may have missed some while it was away,
so all servers must answer then, and the newest answer counts: whichever server was in sync at the end is among them.
What the rule cannot see is a server that ran, but could not be reached by the former incarnation. What that had saved
elsewhere is cut off then: it counts no more, on whichever server it comes to light, for this incarnation went on
without it.

Records come from a server of this host where there is one, else from one that is sure to have all, and from all others
only where that is not enough: a state need not cross the network so often as there are servers, nor at all where each
host has one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import zmq

from riprap.backupserver.body import pack_body, unpack_body
from riprap.backupserver.peer import CALM_PING_S, PING_S, SILENCE_S, Answer, Peer, Saved
from riprap.backupserver.record import Origin, Record, RestorePoint
from riprap.codec.errors import FrameError, RiprapError
from riprap.codec.trust.keys import WorkerKeys

PATIENCE_S = 10.0  # with one that nobody can stand in for


class BackupUnavailable(RiprapError):
    """Too few backup servers answered."""

    exit_code = 1


class BackupClient:
    """`save` and `durable` may be used from any one thread; everything else happens on the client's own.

    `name` and `fence` say whose records they are (`codec.ids`): servers refuse older incarnations. `wake` is called
    when `durable` has grown; `keys` are those of this incarnation. `window_bytes` bounds what is saved and not durable.
    """

    def __init__(
        self, servers: Sequence[str], name: str, fence: int, keys: WorkerKeys, *,
        window_bytes: int = 64 << 20, wake: Callable[[], None] = lambda: None, deadline_s: float = 30.0,
    ) -> None:  # fmt: skip
        self._name, self._fence = name, fence
        self._window_bytes, self._wake, self._deadline_s = window_bytes, wake, deadline_s
        self._lock = threading.Lock()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._peers = [Peer(self._context, address, name, fence, keys) for address in servers]
        self._live: deque[Saved] = deque()  # what a server must have: the newest state, the items behind it, or parts
        self._floor = self._checkpoint = 0
        self._origins: list[Origin] = []  # of this and former incarnations; none where a checkpoint's part is restored
        self._sequence = 0
        self._waiting_bytes = 0
        self._sizes: deque[tuple[int, int]] = deque()
        self.durable = 0
        self.fenced = False
        self._stopped = False
        self._new_keys: tuple[bytes, ...] = ()
        self._grown = threading.Event()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="backup", daemon=True)

    def open(self, checkpoint: int = 0) -> RestorePoint:
        """Shut older incarnations out and fetch the restore point; BackupUnavailable when too few servers answer.

        With a checkpoint its state is this worker's part of that, None when no server has it; its parts of earlier ones
        come before it.
        """
        begun = now = time.monotonic()
        self._checkpoint = checkpoint
        for peer in self._peers:
            peer.checkpoint = checkpoint
            peer.ask()
        while (chosen := self._choose(now > begun + SILENCE_S)) is None:
            if now > begun + self._deadline_s:
                raise self._unavailable()
            self._await(max(0.0, min(PING_S, begun + self._deadline_s - now)))
            now = time.monotonic()
            for peer in self._peers:
                peer.hear()
                peer.watch(now, float("inf"))  # large restore points take their time
            self._fetch_more(now, now > begun + SILENCE_S)
            if any(peer.fenced for peer in self._peers):
                raise BackupUnavailable(f"a newer incarnation of {self._name} has begun", "this one must end")
        point = self._adopt(chosen)
        self._thread.start()
        return point

    def save(self, kind: str, epoch: int, meta: Mapping[str, Any], arrays: Sequence[np.ndarray], since: int = 0) -> int:
        """Take a record; returns its number, or 0 if the window is full. A state supersedes records up to its epoch;
        with any record, states and items of epochs below `since` are needed no more."""
        body = pack_body(meta, arrays)
        size = sum(map(len, body))
        with self._lock:
            if self._waiting_bytes and self._waiting_bytes + size > self._window_bytes:
                return 0
            self._sequence += 1
            self._waiting_bytes += size
            self._sizes.append((self._sequence, size))
            self._keep(Saved(self._sequence, self._fence, self._sequence, kind, epoch, body, size, self._floor, since))
            number = self._sequence
        os.eventfd_write(self._bell, 1)
        return number

    def release(self, floor: int) -> None:
        """Parts of checkpoints below this one are no longer needed; servers hear of it with the next record saved."""
        with self._lock:
            self._floor = floor
            self._live = deque(one for one in self._live if one.kind != "checkpoint" or one.epoch >= floor)

    def recall(self, deadline_s: float, checkpoint: int = 0) -> RestorePoint:
        """The restore point of the next incarnation, as `open` gives it, once all of it is durable; BackupUnavailable
        when it is not in time.

        It is here still: a server that comes back may have to get all of it.
        """
        needed = 0 if checkpoint else self._newest_beside_checkpoints()  # a whole one is safe already
        if not self._await_durable(deadline_s, needed):
            raise BackupUnavailable(
                f"no backup server has confirmed within {deadline_s:g} s what {self._name} saved",
                "see the backup servers' logs, start them again, and resume the job",
            )
        with self._lock:
            live = [
                Record(one.kind, one.epoch, one.number, *unpack_body(memoryview(b"".join(one.body))))
                for one in self._live
                if not checkpoint or (one.kind == "checkpoint" and one.epoch <= checkpoint)
            ]
        if checkpoint:
            return _chain(live, checkpoint, "")
        state = next((record for record in live if record.kind == "state"), None)
        since = -1 if state is None else state.epoch
        return RestorePoint(state, [record for record in live if record.kind == "item" and record.epoch > since])

    def _newest_beside_checkpoints(self) -> int:
        with self._lock:
            return max((one.sequence for one in self._live if one.kind != "checkpoint"), default=0)

    def _await_durable(self, deadline_s: float, number: int) -> bool:
        """Wait until all is durable up to this number; False when it was not in time."""
        deadline = time.monotonic() + deadline_s
        while self.durable < number and not self.fenced and time.monotonic() < deadline:
            self._grown.wait(max(0.0, min(PING_S, deadline - time.monotonic())))
            self._grown.clear()
        return self.durable >= number

    @property
    def full(self) -> str:
        """The reason why servers cannot write what they are sent; empty while they can."""
        return "; ".join(filter(None, (peer.full for peer in self._peers)))

    def use_keys(self, servers: Sequence[bytes]) -> None:
        """Allow the servers these public keys from now on."""
        self._new_keys = tuple(servers)
        os.eventfd_write(self._bell, 1)

    def close(self, deadline_s: float) -> bool:
        """Wait until everything saved is durable, and end the thread; False when it was not in time."""
        if self._stopped:
            return self.durable >= self._sequence
        self._await_durable(deadline_s, self._sequence)
        self._stopped = True
        os.eventfd_write(self._bell, 1)
        if self._thread.is_alive():
            self._thread.join(2.0)
        self._context.destroy(linger=0)
        os.close(self._bell)
        return self.durable >= self._sequence

    def _keep(self, saved: Saved) -> None:
        if saved.kind == "state":
            self._live = deque(one for one in self._live if one.epoch > saved.epoch and one.kind == "item")
        if saved.since:
            self._live = deque(one for one in self._live if one.kind == "checkpoint" or one.epoch >= saved.since)
        self._live.append(saved)

    def _await(self, timeout_s: float) -> None:
        poller = zmq.Poller()
        poller.register(self._bell, zmq.POLLIN)
        for peer in self._peers:
            poller.register(peer.socket, zmq.POLLIN)
        poller.poll(int(timeout_s * 1000) + 1)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)

    def _run(self) -> None:
        while not self._stopped:
            self._await(CALM_PING_S if all(peer.is_calm for peer in self._peers) else PING_S)
            now = time.monotonic()
            self._pass_keys_on()
            for peer in self._peers:
                peer.hear()
                self.fenced |= peer.fenced
                if peer.answer is not None:
                    peer.bring_up(self._after(0), self._origins)
                peer.send(self._after(peer.sent))
                peer.watch(now, SILENCE_S if self._others_in_sync(peer) else PATIENCE_S)
            self._advance()

    def _pass_keys_on(self) -> None:
        keys, self._new_keys = self._new_keys, ()
        for peer in self._peers if keys else ():
            peer.use_keys(keys)

    def _after(self, sequence: int) -> list[Saved]:
        """The live records after one, in order."""
        with self._lock:
            return list(takewhile(lambda saved: saved.sequence > sequence, reversed(self._live)))[::-1]

    def _choose(self, hurried: bool) -> Answer | None:
        """The answer to restore from, by the rule above; None while it cannot be told.

        After a damaged one it waits for the others' answers, for a while.
        """
        answers = [peer.answer for peer in self._peers if peer.answer is not None and peer.answer.has_records]
        if len(answers) < len(self._peers):
            answers = [answer for answer in answers if not answer.stale and (hurried or not answer.dropped)]
        return max(answers, key=lambda answer: answer.rank, default=None)

    def _fetch_more(self, now: float, hurried: bool) -> None:
        """Unless somebody may be sending records: ask a server that is sure to have all for them, or where there is
        none, or none that has them whole, all others."""
        if self._choose(hurried) is not None or any(peer.is_giving(now) for peer in self._peers):
            return
        others = [peer for peer in self._peers if not peer.fetch]
        sure = [peer for peer in others if peer.answer is not None and not peer.answer.stale]
        have_answered = all(peer.answer is not None for peer in self._peers)
        for peer in sure[:1] or (others if have_answered or hurried else ()):
            peer.fetch = True
            peer.ask()

    def _unavailable(self) -> BackupUnavailable:
        silent = [
            f"{peer.address} ({peer.unreadable})" if peer.unreadable else peer.address
            for peer in self._peers
            if peer.answer is None
        ]
        return BackupUnavailable(
            f"backup servers {', '.join(silent)} did not answer for {self._deadline_s:g} s, and no other is sure to"
            f" have all of {self._name}",
            "start them on their storage; or take them out of backup.servers, to accept what the others have",
        )

    def _adopt(self, chosen: Answer) -> RestorePoint:
        """Unpack the restore point, and give it to the servers that it does not come from."""
        state, items, dropped, parts = None, [], [chosen.dropped], []
        for (kind, epoch, incarnation, number, _), body in zip(chosen.fields["records"], chosen.bodies):
            try:
                meta, arrays = unpack_body(memoryview(body))
            except FrameError as error:
                dropped.append(str(error))
                continue
            self._sequence += 1
            self._live.append(Saved(self._sequence, incarnation, number, kind, epoch, [body], len(body)))
            record = Record(kind, epoch, number, meta, arrays)
            if kind == "checkpoint":
                parts.append(record)
            elif kind == "item":
                items.append(record)
            else:
                state = record
        self._origins = [] if self._checkpoint else chosen.origins_with(self._fence)
        for peer in self._peers:
            peer.fetch = False
            if peer.answer is not None:
                peer.bring_up(self._after(0), self._origins, self._sequence if peer.answer is chosen else 0)
        said = "; ".join(filter(None, dropped))
        return _chain(parts, self._checkpoint, said) if self._checkpoint else RestorePoint(state, items, said)

    def _others_in_sync(self, peer: Peer) -> bool:
        return any(one.in_sync for one in self._peers if one is not peer)

    def _advance(self) -> None:
        needed = [peer for peer in self._peers if not (peer.away and self._others_in_sync(peer))]
        durable = min((peer.acked for peer in needed), default=0)
        if durable > self.durable:
            with self._lock:
                while self._sizes and self._sizes[0][0] <= durable:
                    self._waiting_bytes -= self._sizes.popleft()[1]
            self.durable = durable
            self._grown.set()
            self._wake()


def _chain(parts: Sequence[Record], checkpoint: int, dropped: str) -> RestorePoint:
    """The newest part of each checkpoint; the state is that of the one asked for."""
    newest = {part.epoch: part for part in parts}
    state = newest.pop(checkpoint, None)
    return RestorePoint(state, [newest[number] for number in sorted(newest)], dropped)
