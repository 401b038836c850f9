"""The port of a real worker: links over the network, the clock, statistics and the event log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from riprap.backupserver.savepoint import write_part
from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import JobFailed
from riprap.codec.events import EventLog
from riprap.codec.header import HEADER_BYTES_MAX, Header, encode_behind
from riprap.codec.ids import Epoch, Incarnation, Round, Seq, WorkerId
from riprap.engine.flow.channels import Channels
from riprap.engine.flow.edges import Edge, Neighbourhood
from riprap.engine.flow.intake import Gate, Intake, identity
from riprap.engine.flow.links import LinkPort, Links, Window
from riprap.engine.flow.runs import Runs
from riprap.engine.wire.network import DOWNSTREAM, UPSTREAM, Network
from riprap.engine.wire.sharing import Borrower, Lender, is_borrowed
from riprap.engine.worker._wire import OrdinaryWire, Way
from riprap.engine.worker.confirmation import Confirmation
from riprap.engine.worker.persistence import NoStore, RecordStore

HELLO_EVERY_S = 0.5
ACK_EVERY_S = 0.01
_nbytes = attrgetter("nbytes")
FULL_SHARE = 0.8  # of the time for a confirmation, so that who knows the reason speaks before others see a stall
SMALLER = "return smaller arrays, or make links.block_bytes larger: a message has room for 16 blocks and 16 MiB"


class Fenced(Exception):
    """This incarnation of the worker is over for others; this process must end at once."""


class WorkerPort(OrdinaryWire, LinkPort):
    """Carries out what schemes and tasks ask for (the Port), and moves the messages of their links (the Wire).

    Owned by the compute thread; nothing here waits except `step`, and that at most as long as it is told.
    """

    def __init__(
        self, job: str, layout: Neighbourhood, gate: Gate, own_incarnation: Incarnation, network: Network,
        window: Window, log: EventLog, lender: Lender, borrower: Borrower, channels: Channels,
    ) -> None:  # fmt: skip
        super().__init__()
        self.job, self.layout, self.own_incarnation, self.network, self.log = job, layout, own_incarnation, network, log
        self.me = str(layout.me)
        self.use(Links(self, window))
        self.lender, self.borrower, self.channels = lender, borrower, channels
        self.intake = Intake(job, layout, gate, borrower.fetch)
        self._prefixes = self._prefixes_of(Round(0))
        """Of the headers on each edge."""
        self.counts: Counter[str] = Counter()
        self.bytes_sent: Counter[str] = Counter()
        self.bytes_shared: Counter[str] = Counter()
        self.store: RecordStore = NoStore()
        self.author = ""
        self.confirm_s = float("inf")
        """Time in which the backup servers must confirm something of what was saved, before the worker gives up."""
        self._payload_bytes_max = network.message_bytes_max - HEADER_BYTES_MAX
        self._by_frames = False
        self._confirmation = Confirmation()
        self._connections: dict[WorkerId, int] = {}
        self._peers: dict[int, WorkerId] = {}
        self._names: dict[WorkerId, tuple[Incarnation, bytes]] = {}
        self._neighbours: set[WorkerId] = set()  # of this host, who have not been offered payloads by reference yet
        self._alarm_at = float("inf")
        self._hello_at = 0.0
        self._ack_at = float("inf")  # nothing is to be acknowledged
        self._ack_least = max(1, window.blocks // 4)

    # what schemes may do, beside the links
    def alarm(self, seconds: float) -> None:
        self._alarm_at = time.monotonic() + seconds

    now = staticmethod(time.monotonic)
    cpu = staticmethod(time.process_time)

    def stands_still(self, worker: WorkerId) -> bool:
        return self.borrower.stands_still(identity(worker, self.links.incarnation(worker)))

    def count(self, name: str, n: int = 1) -> None:
        self.counts[name] += n

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return self.lender.empty(shape, dtype)

    def save(self, kind: str, epoch: Epoch, meta: dict[str, Any], arrays: Sequence[np.ndarray], since: int = 0) -> int:
        own = [np.array(array) if is_borrowed(array) else array for array in arrays]
        self._check_current()
        number = self.store.save(kind, epoch, meta, own, since)
        if number:
            self._confirmation.save(number, time.monotonic())
            self.counts["records"] += 1
            self.counts["record_bytes"] += sum(array.nbytes for array in own)
        return number

    def save_apart(self, directory: str, meta: dict[str, Any], arrays: Sequence[np.ndarray]) -> bool:
        try:
            write_part(Path(directory), self.layout.me, meta, arrays)
        except OSError as error:
            self.report("savepoint_failed", directory=directory, error=str(error))
            return False
        return True

    def release(self, checkpoint: int) -> None:
        self.store.release(checkpoint)

    def report(self, event: str, **fields: Any) -> None:
        self.log.write(event, worker=self.me, incarnation=self.own_incarnation, **fields)

    def _check_current(self) -> None:
        """Fenced when a lender has taken back what this worker may have read: nothing made of it may leave."""
        if not self.borrower.is_current:
            raise Fenced

    # the wire of the links
    def _open(self, edge: Edge, to: WorkerId) -> Way | None:
        """The way of a link whose first block leaves; None where there is no connection."""
        connection = self._connections.get(to)
        if connection is None:
            return None
        if to in self._neighbours:
            self._neighbours.discard(to)
            offer = {"shared": self.lender.offer(to), "channel": self.channels.offer(to, connection)}
            self._forward(connection, edge, to, Block(Kind.HELLO, Epoch(0), meta=offer))
        way = self._ways[edge, to] = Way(connection, edge, to, self._prefixes[edge.index])
        return way

    def _forward(self, connection: int, edge: Edge, to: WorkerId, block: Block) -> bool:
        """Send a block alone; False when it is lost on the way: the next HELLO brings those back that have a number.

        JobFailed when it is larger than a message may be, by reference too: no job depends on where its tasks run.
        """
        self._check_current()
        refer = None if self._by_frames else self.lender.refer(to, block)
        index, name = edge
        try:
            header, frames = encode_behind(self._prefixes[index], block, refer)
            sent = sum(map(_nbytes, frames)) if frames else 0
            shared = block.nbytes - sent if refer else 0
            if sent + shared > self._payload_bytes_max:
                bound = self._payload_bytes_max
                raise ValueError(f"a message of {sent + shared} bytes is over the bound of {bound}")
            has_left = self.network.send(connection, header, frames)
        except ValueError as error:
            raise JobFailed(f"{self.me} cannot send a {block.kind.name} to {to}: {error}", SMALLER) from error
        if not has_left:
            self.counts["ring_full"] += 1
            return False
        self.bytes_sent[name] += len(header) + sent
        if refer:
            self.bytes_shared[name] += shared
        return True

    def reply(self, edge: Edge, to: WorkerId, kind: Kind, seq: Seq, room: int = 0) -> None:
        self._backward(edge, to, Block(kind, Epoch(0), items=room, seq=seq))

    def _backward(self, edge: Edge, to: WorkerId, block: Block) -> None:
        header, _ = encode_behind(self._prefixes[edge.index], block)
        self.network.reply(self._name_of(to), header)

    def _name_of(self, peer: WorkerId) -> bytes:
        """The name of the connection of a peer's present incarnation, made once for each."""
        incarnation = self.incarnation(peer)
        known = self._names.get(peer)
        if known is None or known[0] != incarnation:
            known = self._names[peer] = incarnation, identity(peer, incarnation)
        return known[1]

    # what the worker does
    def enter(self, round_: Round) -> None:
        """A further round of the job begins: all links start anew, and nothing that a former task asked for comes."""
        self.links.enter(round_)
        self.shut()
        self._prefixes = self._prefixes_of(round_)
        self._alarm_at = float("inf")
        self._confirmation.skip(self.store.durable)

    def _prefixes_of(self, round_: Round) -> dict[int, bytes]:
        edges = {*self.layout.outgoing(), *self.layout.incoming()}
        me = (self.job, self.me, self.own_incarnation)
        return {edge.index: Header(*me, edge.index, round_).prefix for edge in edges}

    def ask_anew(self) -> None:
        """Have those who entered the round before us send what they have sent since."""
        for edge, senders in self.layout.incoming().items():
            for sender in senders:
                self.links.ask_anew(edge, sender)

    def connect(self, peer: WorkerId, endpoint: str, key: bytes, shares_memory: bool = False) -> None:
        """Open the connection to a new incarnation of a peer, of that public key.

        One that shares memory is offered payloads by reference.
        """
        connection = self.network.connect(endpoint, identity(self.layout.me, self.own_incarnation), key)
        self.shut(peer)
        self._connections[peer], self._peers[connection] = connection, peer
        if shares_memory:
            self._neighbours.add(peer)

    def disconnect(self, peer: WorkerId) -> None:
        """Drop the connection to a peer that is down, what is queued on it, and what was shared with it."""
        self._neighbours.discard(peer)
        self.shut(peer)
        self.lender.close(peer)
        name = identity(peer, self.links.incarnation(peer))
        self.borrower.drop(name)
        self.channels.drop(peer, name)
        connection = self._connections.pop(peer, None)
        if connection is not None:
            del self._peers[connection]
            self.network.disconnect(connection)

    def step(self, task: Runs, wait_s: float) -> None:
        """Take what came in, or wait for it this long; then alarms, acknowledgements and HELLOs that are due."""
        self.flush()
        if wait_s:
            due = min(self._alarm_at, self._hello_at, self._ack_at) - time.monotonic()
            wait_s = max(0.0, min(wait_s, due))
        for origin, who, header, frames in self.network.receive(wait_s * 1000):
            if origin == DOWNSTREAM:
                self._on_reply(who, header)
            elif message := self.intake.forward(who, header, frames):
                self.deliver(task, *message)
                self.flush()
        now = time.monotonic()
        self._look_at_store(task, now)
        if (refused := self.lender.refused or self.channels.refused) and not self.counts["no_shared_memory"]:
            self.counts["no_shared_memory"] = 1
            self.report("no_shared_memory", reason=refused, remedy="make /dev/shm larger")
        owes = self.links.flush(self._ack_least)
        self._timers(task, now, owes)
        self.flush()

    def _look_at_store(self, task: Runs, now: float) -> None:
        """Tell the task what has become safe. JobFailed when nothing has for too long."""
        durable = self.store.durable
        if self._confirmation.grow(durable, now):
            task.on_durable(durable)
        elif silence_s := self._confirmation.silence_s(now):
            self._check_confirmed(silence_s)

    def _check_confirmed(self, silence_s: float) -> None:
        if (full := self.store.full) and silence_s > FULL_SHARE * self.confirm_s:
            raise JobFailed(f"a backup server: {full}", "free some space there")
        if silence_s > self.confirm_s:
            raise JobFailed(
                f"no backup server has confirmed what {self.me} saved for {self.confirm_s:g} s",
                "see the backup servers' logs, start them again, and resume the job",
            )

    def deliver(self, task: Runs, edge: Edge, sender: WorkerId, head: Header, blocks: list[Block]) -> None:
        """Hand blocks of a link on, each if the task admits it and it is the next."""
        incarnation, first = head.incarnation, blocks[0]
        is_hello = first.kind == Kind.HELLO  # which comes alone
        if is_hello and first.meta and self.is_up(sender) and incarnation == self.incarnation(sender):
            self._agree(edge, sender, identity(sender, incarnation), first.meta)
            return
        if not self.links.is_of_round(head.round, len(blocks)):
            return
        admits, accept, on_block = task.admits, self.links.accept, task.on_block
        for block in blocks:
            if not is_hello and not admits(block):
                self.intake.drop(f"a {block.kind.name} that contradicts what is known")
            elif accept(edge, sender, incarnation, block.seq, block):
                on_block(edge, sender, block)

    def _agree(self, edge: Edge, sender: WorkerId, name: bytes, meta: dict[str, Any]) -> None:
        """A sender of this host offers what they share, or begins to use the channel that it offered."""
        if "shared" in meta:
            answer = {
                "shared": self.borrower.accept(name, meta["shared"]),
                "channel": self.channels.answer(sender, name, meta.get("channel")),
            }
            self._backward(edge, sender, Block(Kind.HELLO, Epoch(0), meta=answer))
        elif "begin" in meta:
            self.channels.begin(UPSTREAM, sender)

    def _on_answer(self, connection: int, edge: Edge, peer: WorkerId, meta: dict[str, Any]) -> None:
        self.lender.accepted(peer, meta["shared"])
        begin = Block(Kind.HELLO, Epoch(0), meta={"begin": True})
        # Who has not been told reads nothing of the channel: then all goes on by the sockets.
        if self.channels.accepted(peer, meta.get("channel")) and self._forward(connection, edge, peer, begin):
            self.channels.begin(DOWNSTREAM, peer)

    def _on_reply(self, connection: int, header: bytes) -> None:
        message = self.intake.backward(header)
        if message and self._peers.get(connection) == message[1]:
            edge, peer, head, block = message
            if "shared" in block.meta:
                self._on_answer(connection, edge, peer, block.meta)
            elif self.links.is_of_round(head.round):
                self._by_frames = True  # a message that did not arrive may have named what the peer cannot get at
                self.links.on_reply(edge, peer, head.incarnation, block.kind, block.seq, block.items)
                self._by_frames = False

    def _timers(self, task: Runs, now: float, owes: bool) -> None:
        if now >= self._alarm_at:
            self._alarm_at = float("inf")
            task.on_alarm()
        if owes and self._ack_at == float("inf"):
            self._ack_at = now + ACK_EVERY_S
        elif now >= self._ack_at:
            self._ack_at = float("inf")
            self.links.flush(1)
        if now >= self._hello_at:
            self._hello_at = now + HELLO_EVERY_S
            self.links.hello()
