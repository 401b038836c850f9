"""The task: one class for sources, operators between and destinations (AF 3.2, 3.3)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.clock import CLOCK
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.answers import Answers
from riprap.engine.flow.beginning import Beginning, keep_what_is_left
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.entry import Entry, forget_held, on_our_clock
from riprap.engine.flow.journal import WindowJournal
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.pace import Pace
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import INPUT, At, Heard, LinkKey, TaskProgress, identity, link_key, number_of
from riprap.engine.flow.read_ahead import ReadAhead
from riprap.engine.flow.reader import InputReader
from riprap.engine.flow.scheme import Former, SavedPart, Scheme, own_hook
from riprap.engine.flow.threads import ComputeThreads
from riprap.engine.flow.window_closer import WindowCloser
from riprap.engine.flow.window_order import WindowOrder
from riprap.operators import returns
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.outputs.transactional import TransactionalSink


class Task:
    """Receives, processes in order of receipt and sends. Invariant: `progress` says exactly what the operator's state
    includes and what was put out."""

    entries_max = 8
    """Entries that are processed before others are heard again."""

    def __init__(
        self, layout: Layout, port: Port, operator: DataflowOperator, outlet: Outlet, pace: Pace,
        reader: InputReader | None, journal: WindowJournal | None, fresh: bool, threads: ComputeThreads | None = None,
    ) -> None:  # fmt: skip
        self.layout, self.port, self.operator, self.outlet, self.pace = layout, port, operator, outlet, pace
        self.reader, self.journal = reader, journal
        self.threads = threads or ComputeThreads(operator)
        self.progress: TaskProgress = outlet.progress
        self.inbox: deque[Entry] = deque()
        self.feedback: deque[Entry] = deque()
        self.items = self.missed = 0
        self._recovery: dict[str, Any] = {}
        self.running, self._fresh, self._begun = False, fresh, False
        self.held: defaultdict[LinkKey, deque[Entry]] = defaultdict(deque)
        """Of each link, what may not be let in yet. It has no number, and nobody is told that it has come."""
        self._ahead = ReadAhead(port, self.progress)
        self._answers = Answers(layout, port, self.progress)
        self._inputs = {joint.edge: joint for joint in layout.inputs}
        self._replies = {joint.reply: joint for joint in layout.outputs}
        links = [link_key(j.edge, w) for j in layout.inputs if not j.feedback for w in j.workers]
        self._order = WindowOrder(links, self.progress, self.held) if links else None
        self._windows = self._order if layout.leads_to_feedback else None
        self._closer = WindowCloser(layout, port, operator, outlet, journal, links)
        self.progress.heard |= {link_key(j.edge, w): Heard(known=fresh) for j in layout.inputs for w in j.workers}

    def use(self, scheme: Scheme) -> None:
        """Set the scheme, which in turn works on the parts of this task."""
        self.scheme = self.outlet.scheme = self._closer.scheme = scheme
        self._on_take: Callable[[Entry], None] | None = own_hook(scheme, "on_take")
        self._may_come_next: Callable[[LinkKey], bool] | None = own_hook(scheme, "may_come")
        self._on_arrival: Callable[[Entry], None] | None = own_hook(scheme, "on_arrival")
        self._aside: Callable[[], bool] | None = own_hook(scheme, "aside")
        self._lacking = self._order if self.pace.staleness and not scheme.exact else None
        self.outlet.on_put, self.outlet.ends_feedback = own_hook(scheme, "on_put"), scheme.ordered
        if not self._fresh and not scheme.saves:
            self._recovery = scheme.recoveries(0)

    # what the worker asks
    @property
    def epoch(self) -> Epoch:
        """The last window closed here."""
        return Epoch(self.progress.epoch)

    @property
    def saves(self) -> bool:
        """True when a later incarnation restores what this one saves."""
        return self.scheme.saves

    @property
    def done(self) -> bool:
        """At a destination: all windows are closed, and that is safe."""
        return self.progress.last and self.scheme.safe

    @property
    def recovery(self) -> Mapping[str, Any]:
        """Possible losses of this incarnation against the one before; empty for the first one."""
        return self._recovery and {**self._recovery, "items_lost": self.missed}

    @property
    def lost(self) -> int:
        """Items that stay lost, those that it `missed` and those of coded rows; of the latter, whoever lived then."""
        return self.missed + sum(self.progress.lost.values())

    def model(self) -> dict[str, np.ndarray]:
        """The results, by name."""
        return returns.named_arrays(self.operator, "results", self.operator.results())

    def metrics(self) -> Mapping[str, float]:
        """Metrics of the job."""
        return returns.numbers(self.operator, "metrics", self.operator.metrics())

    @property
    def combines(self) -> Mapping[str, str]:
        """Combination of its metrics into the job's where several tasks report them."""
        return self.operator.combines

    def start(self) -> None:
        """All workers are up, or were once: the input may be read."""
        self.running = True

    def grant(self, windows: int, final: bool) -> None:
        """Sources of a stream without end may read so many windows; final: the last of them ends it."""
        if self.reader is not None:
            self.reader.grant(windows, final)

    def begin_from(self, beginning: Beginning) -> None:
        """Begin from a savepoint; an incarnation that has saved something of its own goes on from that (`restore`)."""
        vars(self.progress).update(vars(beginning.progress))
        beginning.load(self.layout.me.stage, self.operator.state)
        self.scheme.on_begun(beginning.nbytes)
        if isinstance(self.operator, TransactionalSink):
            for name in beginning.names:
                self.operator.commit(name)
        if self.reader is not None:
            self.reader.restore((), self.progress, self.port.now())
        if self.journal is not None:
            self.journal.begin(Epoch(self.progress.epoch), beginning.items)
        for entry in beginning.entries:
            self.held[entry.link].append(entry)  # before all that comes; it is let in when the task begins

    def restore(self, state: Block | None, items: Sequence[Block]) -> None:
        """Go on from what a former incarnation saved."""
        entries = self.scheme.restore(state, items)
        keep_what_is_left(self.held, entries, self.progress)
        if self.reader is not None:
            self.reader.restore(items, self.progress, self.port.now())
        if self.journal is not None:
            if self.progress.clock != CLOCK:
                self.journal.change_clock()
            self.journal.cut(self.progress.rows)
            self.journal.durable(Epoch(self.scheme.announced))
        self._recovery = self.scheme.recoveries(len(self.progress.failures))
        for entry in entries:
            on_our_clock(entry.block, self.port.now())
            if not entry.number:
                self.held[entry.link].append(entry)  # it was on its way
            else:
                (self.feedback if entry.block.kind == Kind.FEEDBACK else self.inbox).append(entry)
        self._let_held_in()
        self.port.count("replayed_items", sum(entry.block.items for entry in entries))

    @property
    def reached(self) -> Former:
        """All that is of use to the task of the next round."""
        read = self.reader.epoch - 1 if self.reader else self.epoch
        return Former(self.scheme.reached, max(self._answers.was, read))

    def on_reached(self, former: Former) -> None:
        """The same of the task that was here before; called once this one is restored."""
        self._answers.was = former.windows
        self.scheme.on_reached(former.loop)

    def close(self) -> None:
        """The worker ends."""
        self.threads.close()

    # what comes in
    def admits(self, block: Block) -> bool:
        """True when a peer of ours can have sent this."""
        return block.kind != Kind.REPLY or set(block.meta) - {"silent", "was"} in ({"heard"}, {"needed"}, {"digests"})

    def on_block(self, edge: Edge, sender: WorkerId, block: Block) -> None:
        """A block came in, in order on its link."""
        if block.kind == Kind.REPLY:
            self.port.ack(edge, sender, block.seq)
            link = self.outlet.link_to(self._replies[edge].edge, sender)
            if "needed" in block.meta:
                return self.scheme.on_needed(link, block.meta["needed"])
            if "digests" in block.meta:
                return self.scheme.on_digests(link, block.meta["digests"])
            heard = Heard.unpack(block.meta["heard"])
            self.outlet.place(link, heard, "silent" in block.meta, block.meta.get("was", 0))
            return self.scheme.on_placed(link, heard, block.arrays)
        link_of = link_key(edge, sender)
        if block.kind == Kind.TENTATIVE:
            self.port.ack(edge, sender, block.seq)
            return self.scheme.on_tentative(link_of, block)
        incarnation = self.port.incarnation(sender)
        entry = Entry(0, link_of, block, edge, sender, block.seq, incarnation, self._inputs[edge].stage)
        if self._on_arrival is not None:
            self._on_arrival(entry)
        if block.kind == Kind.BARRIER:
            self.scheme.on_barrier(link_of, block)
        if self.held[link_of] or not self._may_come(link_of, block):
            self.held[link_of].append(entry)
        else:
            self._let_in(entry)

    def _may_come(self, link: LinkKey, block: Block) -> bool:
        """True when its turn can come before that of what other links still owe: else the link waits alone."""
        if block.kind == Kind.BARRIER:
            return self.scheme.has_passed(link, block.epoch)
        is_next = self._windows is None or block.kind == Kind.FEEDBACK or self._windows.allows(link, block.epoch)
        in_pace = block.kind == Kind.FEEDBACK or self.pace.allows(block.epoch, self.progress.feedback)
        return is_next and in_pace and (self._may_come_next is None or self._may_come_next(link))

    def _let_in(self, entry: Entry) -> None:
        """Number a block that came: it has come, for this incarnation and later ones. Barriers have no number."""
        block, heard = entry.block, self.progress.heard[entry.link]
        if block.kind == Kind.BARRIER:
            self.scheme.bench.acknowledge(entry)
            return
        if entry.edge is not None and entry.sender is not None:
            if heard.known and number_of(block) <= heard.at.number:
                self.port.ack(entry.edge, entry.sender, block.seq)
                self.port.count("duplicates_dropped", block.items)
                return
            if heard.known and (before := At.before(block)).items > heard.at.items:
                self.missed += before.items - heard.at.items
            heard.note(block)
        on_our_clock(block, self.port.now())
        entry.number = self.progress.next_number()
        self._take(entry)

    def on_worker_failed(self, worker: WorkerId) -> None:
        """A worker that was up is down."""
        self.outlet.lost(worker)
        self._answers.forgive(worker)
        for joint in self.layout.inputs:
            if worker in joint.everybody:
                forget_held(self.held, link_key(joint.edge, worker), worker)
                self.scheme.on_sender_lost(link_key(joint.edge, worker))

    def on_copy_wanted(self, worker: WorkerId, wanted: bool) -> None:
        """A replica of a receiver is to run from now on, or is not to: then nothing is kept for it."""
        self.outlet.want(worker, wanted)

    def on_worker_restored(self, worker: WorkerId) -> None:
        """A new incarnation of a worker is up: it is told how far what it sends has come."""
        self._answers.owe(worker)
        self._answers.give(self.scheme, self.running)

    def on_alarm(self) -> None:
        """The scheme's alarm went off."""
        self.scheme.on_alarm()

    def checkpoint(self, triggered: int, completed: int, savepoint: str = "") -> None:
        """The checkpoint under way (0: none), and the newest that is whole; where the first goes as a savepoint."""
        self.scheme.on_checkpoint(triggered, completed, savepoint)
        self._let_held_in()
        if self.journal is not None:
            self.journal.durable(Epoch(self.scheme.announced))

    @property
    def part(self) -> SavedPart:
        """Its part of the newest checkpoint for which that is safe."""
        return self.scheme.part

    def on_durable(self, number: int) -> None:
        """Everything saved up to this number is safe."""
        if self.reader is not None:
            self.reader.on_durable(number)
        self.scheme.on_durable(number)

    def _take(self, entry: Entry) -> None:
        entry.first = self.progress.included_of(entry.link, entry.block)
        (self.feedback if entry.block.kind == Kind.FEEDBACK else self.inbox).append(entry)
        self.scheme.bench.receipts.note(entry, self.progress.epoch)
        self.scheme.on_receive(entry)

    # what is done
    def work(self) -> bool:
        """Send what waits, then process a few entries; False when there is nothing to do now."""
        if self._answers:
            self._answers.give(self.scheme, self.running)
        if not self._begun and not self._begin():
            return False
        for done in range(self.entries_max):
            aside = self._aside is not None and self._aside()
            if not self._turn() and not aside:
                return done > 0
        return True

    def _turn(self) -> bool:
        if self.scheme.on_turn() or self._windows is not None:
            self._let_held_in()
        self.outlet.flush()
        if self.outlet.blocked:
            return False
        self.scheme.on_left()
        return self._process_feedback() or self._process() or self._read() or self._skip_windows()

    def _begin(self) -> bool:
        """Nothing is processed before all receivers have said what they have; a source goes on from there."""
        if not self.outlet.placed:
            return False
        self._begun = True
        self._let_held_in()
        if self.reader is not None:
            self._go_to_input(self.reader)
        return True

    def _go_to_input(self, reader: InputReader) -> None:
        """Behind what the state includes; without a state, behind what all receivers have got. Windows that all have
        closed but the state has not are closed here too; their output is theirs already."""
        number = self.progress.done.get(INPUT, Heard()).at.number
        links = [link for link in self.outlet.links.values() if not link.joint.feedback]
        if self.operator.state is None and not self.scheme.exact and links:
            reached = min(link.muted.get(INPUT, (0, 0))[0] for link in links)
            number = max(number, reached, reader.number(min(link.closed for link in links)))
        reader.seek(number, max(self._answers.was, *(link.read for link in self.outlet.all_links), 0))
        self._closer.close_again(reader.epoch, reader.finished)

    def begin_again(self) -> None:
        """At a source without a state: go on from where its receivers are, as a new incarnation of it does."""
        self.inbox.clear()
        self._ahead.clear()
        vars(self.progress).update(vars(TaskProgress()))
        self.outlet.forget()
        self._begun = False

    @property
    def _is_input_first(self) -> bool:
        """True where nothing overtakes, and a block that came before the oldest feedback can be processed."""
        if self.scheme.overtakes or not self.inbox or self.progress.iterating:
            return False
        oldest = self.inbox[0]
        return oldest.number < self.feedback[0].number and self.pace.allows(oldest.block.epoch, self.progress.feedback)

    def _process_feedback(self) -> bool:
        if not self.feedback or self._is_input_first or not self.scheme.may_process(self.feedback[0]):
            return False
        entry = self.feedback.popleft()
        looping = self.progress.iterating
        if looping:
            self.outlet.begin_loop(Epoch(self.progress.epoch + 1))
        else:
            self.outlet.begin(Epoch(self.progress.epoch), entry.link, number_of(entry.block))
        self.operator.process_feedback(entry.items, self.outlet)
        if looping:
            self._closer.go_on_with_loop()
        self.progress.done_on(entry.link).note(entry.block)
        if not self.scheme.ordered:  # else the end of the window follows
            self.progress.feedback[entry.link] = max(self.progress.feedback.get(entry.link, 0), entry.block.epoch)
        self.scheme.on_processed(entry)
        if looping and not self.progress.iterating:
            self._closer.tell()
        self._let_held_in()
        return True

    def _let_held_in(self) -> None:
        for link, held in list(self.held.items()):
            while held and self._may_come(link, held[0].block):
                self._let_in(held.popleft())

    def _process(self) -> bool:
        if not self.inbox:
            return False
        entry = self.inbox[0]
        if self.progress.iterating or not self._is_allowed(entry):
            self.scheme.bench.receipts.pause()
            return False
        if self._on_take is not None:
            self._on_take(entry)
        if entry.block.kind == Kind.PUNCTUATION:
            self._punctuate(entry)
        else:
            self._process_data(entry)
        return True

    def _is_allowed(self, entry: Entry) -> bool:
        """True when nobody owes what must come before it."""
        self.threads.begin(self.inbox)
        return self.pace.allows(entry.block.epoch, self.progress.feedback) and self.scheme.may_process(entry)

    def _process_data(self, entry: Entry) -> None:
        if entry.is_empty or entry.block.epoch <= self.progress.closed.get(entry.link, 0):
            self._done_with(entry)  # of a window that its link has closed all was processed before a loss
            return
        if not entry.first and "lost" in entry.block.meta:
            self.items -= self.progress.note_lost(entry.block)
        items = self.threads.items(entry)
        before = entry.first
        self.outlet.begin(entry.block.epoch, entry.link, number_of(entry.block), before)
        left = self.operator.process_data(items, before, self.outlet)
        entry.first = returns.first_left(self.operator, left, before, items.count)
        self.items += entry.first - before
        if entry.first >= entry.block.items:
            self._done_with(entry)
        else:
            self.progress.partial[entry.link, identity(entry.block)] = entry.first
        state = self.operator.state
        if state is not None and state.exceeded:
            self.scheme.on_crossed()

    def _done_with(self, entry: Entry) -> None:
        self.inbox.popleft()
        entry.prepared = entry.work = None  # schemes may keep the entry for long
        self.progress.included = entry.number
        if self.progress.partial:
            self.progress.partial.pop((entry.link, identity(entry.block)), None)
        done = self.progress.done_on(entry.link)
        if entry.is_input:
            done.at = At(number_of(entry.block))
            if self.reader is not None:
                self.reader.note(entry.block, self.progress.source)
        elif number_of(entry.block):
            done.note(entry.block)
        self.scheme.on_processed(entry)

    def _punctuate(self, entry: Entry) -> None:
        block, progress = entry.block, self.progress
        if entry.link in self.pace.staleness:
            progress.feedback[entry.link] = block.epoch
            return self._done_with(entry)
        progress.note_end(entry.link, block)
        if block.meta["last"]:
            progress.final = block.epoch
        before = progress.epoch
        self._closer.close()
        self._done_with(entry)
        if progress.epoch > before:
            self._closer.tell()

    def _skip_windows(self) -> bool:
        """Close those whose ends were lost, for the feedback that they lead to is awaited."""
        if self._lacking is None or self.inbox or self.progress.iterating or not self._lacking.skip():
            return False
        self._closer.close()
        self._closer.tell()
        return True

    def _read(self) -> bool:
        """Take the next block of the input, or the end of a window."""
        if self.reader is None or self.inbox or not self.running:
            return False
        entry = self._ahead.next(self.reader, self.pace, self.threads)
        if entry is None:
            return False
        entry.number = entry.number or self.progress.next_number()
        self._take(entry)
        return self._process()
