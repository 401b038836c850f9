"""Scheme `upstream_backup` (AF 6.1.1): senders keep every item until its receiver needs it no more, and save it too.

Every item that is sent, or read from the input, is saved; states are saved every 1 % of the job's items, and when
nothing has come for a while, with what was put out and has not been acknowledged. A receiver acknowledges what a
durable state of its includes. So whoever dies gets from its senders what its state lacks. What it puts out leaves when
it is durable, and its next incarnation sends just that again, for it may compute its input in another order. What
senders keep stays in memory up to `memory_bytes`, then it goes to disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from riprap.codec.blocks import Block
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.links import Window
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.progress import INPUT, LinkKey
from riprap.engine.flow.scheme import Bench, Scheme
from riprap.engine.schemes.parts.copies import bytes_of
from riprap.engine.schemes.parts.recorder import Recorder, Recovered, block_of, fields_of, plain, take_over
from riprap.engine.schemes.parts.spool import Spool

STATES = 100  # of a job
PROCESSED_MAX = 1024  # blocks without an acknowledgement; senders have room for more
IDLE_S = 0.1
"""After which without input a state is saved: a sender of another scheme may wait for acknowledgements."""


class UpstreamBackup(Scheme):
    """One task's half."""

    saves = exact = reorders = True
    waiting_max = 64
    window = Window(4 * PROCESSED_MAX)

    def __init__(self, bench: Bench, options: Mapping[str, Any]) -> None:
        super().__init__(bench, options)
        self.recorder = Recorder(bench.port, bench.progress, bench.operator.state)
        self.memory_bytes = options["memory_bytes"]
        self._every = max(1, bench.items // (STATES * bench.layout.parallelism))
        self._since = 0
        self._unsaved: deque[tuple[LinkKey, Block]] = deque()
        self._not_durable: deque[tuple[int, Block]] = deque()
        self._stays: set[int] = set()
        """Blocks that must not leave yet: those of these two that were put out, by id()."""
        self._processed: deque[Entry] = deque()  # and not included in a state that was saved
        self._seen: Entry | None = None
        """The last of these when the alarm was set; None while none is."""
        self._covering: list[Entry] = []  # by a state that waits for room in the store
        self._covered: deque[tuple[int, Entry]] = deque()  # by a state that is not durable yet
        self._spool = Spool()

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        recovered = Recovered(state, [record for record in records if "version" in record.meta])
        take_over(self.bench.progress, recovered, self.bench.operator.state)
        self.recorder.go_on_from(recovered)
        self.bench.outlet.put_back(recovered.extras)
        self.bench.outlet.mute_put_out(recovered.extras)
        sent = [record for record in records if "out" in record.meta and record.epoch >= recovered.since]
        self.bench.outlet.put_back_logged((link_of(r), block_of(r.meta["sent"], r.arrays)) for r in sent)
        self.bench.operator.recovered(0.0, 0)
        return []

    def on_receive(self, entry: Entry) -> None:
        if entry.record:  # of an input that is logged
            self.recorder.note_saved(entry.block.nbytes)
        elif entry.is_input:
            self._unsaved.append((INPUT, entry.block))
            self._save_waiting()

    def on_emit(self, link: OutletLink, block: Block) -> None:
        self._unsaved.append((link.key, block))
        self._stays.add(id(block))
        self._save_waiting()
        self._spool.note(block, self.memory_bytes, self._kept)  # the newest go to disk: they are needed last

    def _kept(self) -> Iterator[Block]:
        return (block for _, block in self.bench.outlet.pending())

    def _save_waiting(self) -> None:
        epoch = Epoch(2 * self.bench.progress.included + 1)
        while self._unsaved:
            link, block = self._unsaved[0]
            arrays = [plain(array) for array in block.arrays]
            meta = {"sent": fields_of(block)} | ({} if link == INPUT else {"out": list(link)})
            number = self.bench.port.save("item", epoch, meta, arrays)
            if not number:
                return
            self.bench.port.count("item_backups", block.items)
            size = bytes_of(arrays)
            self.bench.port.count("item_backup_bytes", size)
            self.recorder.note_saved(size)
            self._unsaved.popleft()
            if link != INPUT:
                self._not_durable.append((number, block))

    def may_process(self, entry: Entry) -> bool:
        self.recorder.retry()
        self._cover()
        self._save_waiting()
        return not self.recorder.full and not self._unsaved

    def may_leave(self, link: OutletLink, block: Block) -> bool:
        return id(block) not in self._stays

    def on_processed(self, entry: Entry) -> None:
        self._processed.append(entry)
        self._since += entry.block.items
        if self._since >= self._every or len(self._processed) >= PROCESSED_MAX:
            self._save_state()
        elif self._seen is None:
            self._wait(entry)

    def _wait(self, last: Entry) -> None:
        self._seen = last
        self.bench.port.alarm(IDLE_S)

    def on_alarm(self) -> None:
        """Save what was processed if nothing has been since; else wait on."""
        seen, self._seen = self._seen, None
        if not self._processed:
            return
        if self._processed[-1] is seen:
            self._save_state()
        else:
            self._wait(self._processed[-1])

    def on_window(self, epoch: int) -> None:
        if self.bench.layout.is_sink or not self._since:
            self._save_state()

    def _save_state(self) -> None:
        if self.recorder.full:
            return
        self._since = 0
        self.recorder.save_state(self.bench.outlet.pending())
        self._covering += self._processed
        self._processed.clear()
        self._cover()

    def _cover(self) -> None:
        if not self.recorder.full:
            self._covered += ((self.recorder.state_number, entry) for entry in self._covering)
            self._covering.clear()

    def on_durable(self, number: int) -> None:
        self.recorder.retry()
        self._cover()
        self._save_waiting()
        while self._not_durable and self._not_durable[0][0] <= number:
            self._stays.discard(id(self._not_durable.popleft()[1]))
        while self._covered and self._covered[0][0] <= number:
            self.bench.acknowledge(self._covered.popleft()[1])

    @property
    def safe(self) -> bool:
        return not (self.recorder.full or self._covering or self._covered or self._processed)


def link_of(record: Block) -> LinkKey:
    """The link on which the block of a record was put out."""
    edge, task = record.meta["out"]
    return edge, task
