"""The worker process: builds its task from the topology, joins network and control channel, and runs to the end.

Data path:  upstream socket -> engine/wire/network.pyx -> port.py -> engine/flow/links.py -> task -> scheme, operator
-> port -> network -> downstream socket. Everything between the two sockets' threads runs on this, the compute thread.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from riprap.codec.errors import JobFailed, RiprapError
from riprap.codec.events import EventLog
from riprap.codec.files import no_space
from riprap.codec.header import HEADER_BYTES_MAX
from riprap.codec.ids import Epoch, Incarnation, Round, WorkerId, fence_of, name_of, records_of
from riprap.codec.trust.keys import WorkerKeys, read_keys
from riprap.codec.users_code import is_users
from riprap.configs.topology import Topology
from riprap.controller.last_words import write_last_words
from riprap.controller.messages import sayable
from riprap.controller.processes import run_as_worker
from riprap.engine.flow.channels import Channels, senders, side_count
from riprap.engine.flow.runs import Runs
from riprap.engine.flow.scheme import Overtaken, SavedPart
from riprap.engine.wire.network import Network
from riprap.engine.wire.sharing import Borrower, Lender, Roots, open_arena
from riprap.engine.worker.build import WorkerParts
from riprap.engine.worker.calls import CallWatch, OpenCall
from riprap.engine.worker.carried_file import carried, write_carried
from riprap.engine.worker.control import ControlChannel
from riprap.engine.worker.guests import Guests, open_door
from riprap.engine.worker.membership import Membership
from riprap.engine.worker.persistence import Restored, open_store, restored
from riprap.engine.worker.port import Fenced, WorkerPort
from riprap.engine.worker.profiling import instrument
from riprap.engine.worker.standby import LOOK_S, Outputs, StandbyOutputs, outputs_of
from riprap.operators.finite import check_model
from riprap.operators.returns import undefined

CALM_TURNS = 2  # the compute thread's between two heartbeats, when it has nothing to do
CALM_HEARTBEAT_S = 0.3  # from one that was not worth sending to the next look
CALM_SHARE = 0.2  # of the time after which a silent worker counts as lost: a calm one beats as seldom as that
IDLE_S = 0.5  # the longest wait of an idle compute thread
LINGER_MS = 1000
ANSWER_SHARE = 0.8  # of a start's deadline, so that the error that names silent servers comes before "it is not ready"
ERROR_CHARACTERS_MAX = 4096  # an operator's own may hold a whole block; the log has all of it
SOCKET_NAME_BYTES_MAX = 106  # of unix(7), less what libzmq puts around it
ANSWER_S = 0.5  # for servers to answer even where the task took that long to make


class Worker:
    """One incarnation of one worker."""

    def __init__(self, spec: dict[str, Any], channel: ControlChannel) -> None:
        self._born = time.monotonic()
        self.channel = channel
        self.me, self.incarnation = WorkerId.parse(spec["worker"]), Incarnation(spec["incarnation"])
        topology = Topology.from_dict(spec["topology"])
        schema = spec["topology"]["schema"]
        self._form = form = WorkerParts(topology, schema, self.me)
        self.run_dir = Path(spec["run_dir"])
        bytes_max = topology.links.block_bytes * 16 + HEADER_BYTES_MAX + (1 << 24)
        receivers = form.layout.receivers()
        arena, refusal = None, ""
        if topology.links.transport == "auto":
            arena, refusal = open_arena(len(receivers), side_count(form.layout), topology.links.shared_bytes)
        self._keys = WorkerKeys.read(spec["keys"])
        self.network = Network(bytes_max, arena=arena, keys=self._keys.own)
        self.ipc = self.network.bind(f"ipc://@{socket_name(topology.job, self.me, self.incarnation)}")
        self.tcp = listen(self.network, spec["address"], spec["host"]) if spec["address"] else ""
        log = EventLog(self.run_dir / "events.jsonl")
        roots = Roots(topology.input_paths)
        self.port = WorkerPort(
            *(topology.job, form.layout, form.gate, self.incarnation, self.network, form.window, log),
            Lender(roots, receivers, arena, refusal),
            Borrower(roots),
            Channels(arena, form.layout, self.network, bytes_max),
        )
        self._attempt = spec["topology"].get("attempt", 1)
        self.outputs = outputs_of(form.layout, self.run_dir, self._attempt)
        self._must_be_finite = not topology.keeps_bad_rows
        self._is_first = self.incarnation == 1 and self._attempt == 1
        self.task = form.make_task(self.port, self.outputs, self.run_dir, self._is_first)
        self._restore(topology, spec)
        stage = topology.stages[self.me.stage]
        pin(stage.cpus, self.me.index, stage.threads)
        self.guests = Guests(senders(form.layout))
        transport = topology.links.transport
        twins: list[WorkerId] = []
        if isinstance(self.outputs, StandbyOutputs):
            twins = [copy for copy in topology.copies_with(self.me) if copy != self.me]
            self.port.count("standby")
        self._stood_by = False
        """True once the controller has said that another copy writes."""
        parts = (self.port, self.task, self.guests, spec["host"], transport)
        self.membership = Membership(*parts, self._begin_anew, twins, self._on_role)
        self.turns = 0
        self.heartbeats = 0
        self._part_told = 0
        self._said_done = False
        self._adapts = bool(topology.fault_tolerance.get("adapt"))
        self._doubtful = False
        """True when a heartbeat could not get the metrics."""
        self.calls = CallWatch(threading.get_ident())
        self._call: OpenCall | None = None
        self._calm_s = topology.cluster.heartbeat_timeout_s * CALM_SHARE
        self._beaten = (0, 0.0)  # what `turns` was when the progress was last told, and when
        self.first_item_at = self.caught_up_at = 0.0
        self._first_epoch = Epoch(0)
        if spec["topology"].get("profile"):
            instrument(self)

    def _restore(self, topology: Topology, spec: dict[str, Any]) -> None:
        """Go on from what a former incarnation saved, where this worker is one that saves."""
        task, servers = self.task, topology.backup.addresses
        if not task.saves:
            return
        began = time.monotonic()
        fence = fence_of(self._attempt, self.incarnation)
        deadline_s = max(ANSWER_S, self._born + topology.cluster.startup_timeout_s * ANSWER_SHARE - began)
        records = records_of(topology.job, spec["topology"].get("run", ""))
        checkpoint = spec.get("checkpoint", 0)
        others = [] if self._is_first else [one for one in topology.copies_with(self.me) if one != self.me]
        names = [name_of(records, str(worker)) for worker in (self.me, *others)]
        store, saved = open_store(
            servers, names[0], fence, self._keys, deadline_s, self.network.wake, checkpoint, names[1:]
        )
        self.port.store, self.port.author = store, names[0]
        self.port.confirm_s = topology.cluster.stall_timeout_s
        if not self._is_first:
            self._take_over(saved, began, checkpoint)

    def _take_over(self, saved: Restored, began: float, checkpoint: int) -> None:
        if checkpoint and (saved.state is None or saved.dropped):
            raise JobFailed(
                f"no backup server has the part of {self.me} of checkpoint {checkpoint}{': ' * bool(saved.dropped)}"
                f"{saved.dropped}",
                "start all servers that the job had, and resume it; or run it anew",
            )
        self.task.restore(saved.state, saved.items)
        self.port.report(
            "restored",
            epoch=self.task.epoch,
            items=sum(block.items for block in saved.items),
            seconds=time.monotonic() - began,
            dropped=saved.dropped,
            **({"of": saved.of.rpartition("/")[2]} if saved.of else {}),
        )

    def _begin_anew(self, round_: Round, checkpoint: int) -> Runs:
        """Make the task once more, in this process, and take over what it has saved: the job was rolled back."""
        began, saves, former = time.monotonic(), self.task.saves, self.task.reached
        saved = restored(self.port.store.recall(self.port.confirm_s, checkpoint)) if saves else Restored()
        self.port.enter(round_)
        if self.outputs is not None:
            self.outputs.close()
            self.outputs = outputs_of(self._form.layout, self.run_dir, self._attempt, self.outputs)
            self._said_done = False
        self.task = self._form.make_task(self.port, self.outputs, self.run_dir, is_first=False)
        if saves:
            self._take_over(saved, began, checkpoint)
            self.task.on_reached(former)
        self.port.report("rolled_back", round=round_, epoch=self.task.epoch)
        return self.task

    def _on_role(self, writes: bool, is_other_clock: bool) -> None:
        """Of a destination that has a replica. Who writes and is not to do so any more begins anew, to stand by."""
        assert isinstance(self.outputs, StandbyOutputs)
        if not writes and not self.outputs.stands_by:
            raise Overtaken
        if writes and self.outputs.stands_by:
            self.outputs.begin_to_write(is_other_clock and self._stood_by)
            self.port.count("standby", -1)
            if self._stood_by:
                self.port.report("took_over")
        self._stood_by = not writes

    def run(self) -> None:
        """Until the controller says stop."""
        self.door = open_door(self.network, self.guests)
        try:
            self._run()
        finally:
            self.door.close()  # in whatever way it ends: libzmq waits for what is open

    def _run(self) -> None:
        self.network.start()
        run_as_worker()
        self.channel.send({"type": "ready", "ipc": self.ipc, "tcp": self.tcp, "peers": self.membership.peers()})
        self.channel.start(self.heartbeat, self.network.wake, min(CALM_HEARTBEAT_S, self._calm_s))
        idle_s = min(IDLE_S, self._calm_s)
        while not self._take_orders():
            self._ask_again()
            worked = self.task.work()
            self.port.step(self.task, 0.0 if worked else self._wait_s(idle_s))
            self.turns += 1
            self._mark_times()
            self._say_what_is_safe()
            if self.outputs is not None and not self._said_done:
                self._note_results(self.outputs)
        self.task.close()
        write_carried(self.run_dir, self.me, self._form.layout.inputs, self.task.progress)
        self.channel.send(self.progress())
        self.channel.stop()
        self.port.store.close(LINGER_MS / 1000)
        if self.outputs is not None:
            self.outputs.close()
        self.door.close()
        self.network.close(LINGER_MS)

    def _wait_s(self, idle_s: float) -> float:
        """The longest wait of the compute thread for a message: nobody sends one when another copy has written."""
        return LOOK_S if self.outputs is not None and self.outputs.holds else idle_s

    def _note_results(self, outputs: Outputs) -> None:
        """Note the metrics, and at the end the model."""
        outputs.note_metrics(self.task)
        if self.task.done and outputs.writes:
            model = self.task.model()
            if self._must_be_finite:
                check_model(self.task.epoch, model)
            outputs.save_model(model)
            self._say_done(outputs.accounted)
            self._said_done = True

    def _say_done(self, accounted: int) -> None:
        """Tell the agent, and the run directory, that all is committed."""
        stats = self.stats()
        said = {"epoch": stats["epoch"], "accounted": accounted, "stats": stats}
        write_last_words(self.run_dir, str(self.me), self.incarnation, said)
        self.channel.send({"type": "done", **said})

    def _take_orders(self) -> bool:
        """Apply the views that have come; True when the order is to stop."""
        while order := self.channel.poll():
            if order["type"] == "stop":
                return True
            if order["type"] == "view":
                self.membership.on_view(order)
                self.door.look_again()
            if order["type"] == "keys":
                self.port.store.use_keys(read_keys(order["servers"]))
        return False

    def _say_what_is_safe(self) -> None:
        """A checkpoint waits for the last of its parts, so the agent hears of each at once; that is a heartbeat too."""
        if self.task.part.number > self._part_told:
            self._part_told = self.task.part.number
            self._beat(self.turns, time.monotonic())
            self.channel.send(self.progress())

    def _mark_times(self) -> None:
        if not self.first_item_at and self.task.items:
            self.first_item_at = time.monotonic()
            self._first_epoch = self.task.epoch
        elif self.first_item_at and not self.caught_up_at and self.task.epoch > self._first_epoch:
            self.caught_up_at = time.monotonic()

    def heartbeat(self) -> dict[str, Any] | None:
        """The progress; None while the compute thread has nothing to do and has not been silent for long.

        The control thread's: it proves that the process answers, whatever the compute thread does.
        """
        turns, now = self.turns, time.monotonic()
        self._watch_call(turns, now)
        before, at = self._beaten
        if turns - before <= CALM_TURNS and now - at < self._calm_s:
            return None
        self._beat(turns, now)
        try:
            return self.progress()
        except Exception:  # of the operator's metrics, perhaps because they change meanwhile
            self._doubtful = True
            self.network.wake()
            return None

    def _beat(self, turns: int, now: float) -> None:
        self._beaten = turns, now
        self.heartbeats += 1

    def _ask_again(self) -> None:
        """Ask for the metrics on the thread that changes them, where a heartbeat could not; raises what they raise."""
        if self._doubtful:
            self._doubtful = False
            self.progress()

    def _watch_call(self, turns: int, now: float) -> None:
        """Note a call of the operator that lasts long, and leave a word of it in the job's events."""
        self._call = call = self.calls.look(turns, now)
        if call is not None and self.calls.told.is_news(call.name, call.seconds):
            self.port.report("slow_call", call=call.name, line=call.line, seconds=call.seconds)

    def progress(self) -> dict[str, Any]:
        """Report to the agent; `beat` stands still when the process does."""
        stats = self.stats()
        return {
            "type": "progress",
            "beat": self.heartbeats,
            "epoch": stats["epoch"],
            "items": stats["items"],
            **(self._call.fields() if self._call else {}),
            "accounted": self.outputs.accounted if self.outputs is not None else 0,
            "checkpoint": self.task.part.number,
            "stats": stats,
        }

    def stats(self) -> dict[str, Any]:
        """Cumulative statistics of this incarnation."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        links = self.port.links
        return {
            "epoch": self.task.epoch,
            "items": self.task.items,
            "bytes_sent": dict(self.port.bytes_sent),
            "bytes_shared": dict(self.port.bytes_shared),
            "peak_rss_mb": usage.ru_maxrss / 1024,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "first_item_at": self.first_item_at,
            "caught_up_at": self.caught_up_at,
            "malformed": sum(self.port.intake.malformed.values()),
            "network": self.network.counters(),
            "refused_connections": self.door.refused,
            "fenced_messages": links.fenced,
            "replayed_blocks": links.replayed,
            "recovery": dict(self.task.recovery),
            "last_window": self.task.progress.final,
            **_part_stats(self.task.part),
            **({"carried": carried(self._form.layout.inputs, self.task.progress)} if self._adapts else {}),
            **self.port.counts,
            **(self.outputs.stats(self.task) if self.outputs is not None else {}),
        }


def listen(network: Network, address: str, host: str) -> str:
    """The endpoint at which workers of other hosts reach this one; JobFailed where that is no address of this host."""
    try:
        return network.bind(f"tcp://{address}:0")
    except OSError as error:
        raise JobFailed(
            f"no worker can listen at {address}, which the agent of {host} has for its address: {error.strerror}",
            "start that agent again, with --address if it chooses another than you wish; then run the job again",
        ) from error


def socket_name(job: str, me: WorkerId, incarnation: Incarnation) -> str:
    """A name in the abstract namespace that no other process takes; of long names of job and stage the end is cut."""
    unique = f"-{os.getpid():x}-{time.monotonic_ns():x}"
    return f"riprap-{job}-{me}-{incarnation}"[: SOCKET_NAME_BYTES_MAX - len(unique)] + unique


def _part_stats(part: SavedPart) -> dict[str, Any]:
    if not part.number:
        return {}
    told = {"bytes": part.nbytes, "aligned_ms": part.aligned_ms, "copy_ms": part.copy_ms}
    return {"checkpoint": told | ({"savepoint": part.savepoint} if part.savepoint else {})}


def pin(cpus: Sequence[int] | None, index: int, threads: int = 1) -> None:
    """Keep this process on its CPUs, one for each of its compute threads, of those that there are here."""
    if cpus:
        wanted = {cpus[(index * threads + i) % len(cpus)] for i in range(threads)} & os.sched_getaffinity(0)
        if wanted:
            os.sched_setaffinity(0, wanted)


def main(control_fd: int) -> int:
    """Run the worker that the first message on the channel describes; the process's exit code."""
    faulthandler.enable()  # a crash in compiled code leaves its trace in the log
    sys.setswitchinterval(0.0005)  # the control thread must not hold up the compute thread for 5 ms
    channel = ControlChannel(control_fd)
    try:
        Worker(channel.receive(), channel).run()
    except (Fenced, Overtaken):
        return 0
    except EOFError:
        return 1
    except RiprapError as error:
        return _fail(channel, str(error.args[0]), error.remedy)
    except BaseException as error:  # sys.exit in an operator too
        if full := no_space(error):
            return _fail(channel, str(full.args[0]), full.remedy)
        return _fail(channel, _describe(error), "Correct that line; the whole traceback is in the worker's log.")
    return 0


def _fail(channel: ControlChannel, message: str, remedy: str) -> int:
    with suppress(OSError):  # its log may be what finds no room
        traceback.print_exc()
    said = {"error": sayable(message, ERROR_CHARACTERS_MAX), "remedy": sayable(remedy, ERROR_CHARACTERS_MAX)}
    channel.send({"type": "failed", **said})
    return 1


def _describe(error: BaseException) -> str:
    """The error and the innermost line that raised it: where operators raise, the user's own."""
    if missing := undefined(error):
        return f"{missing[0]} is not defined ({missing[1]})"
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((frame for frame in reversed(frames) if is_users(frame.filename)), frames[-1])
    what = f"sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    return f"{what} ({frame.filename}:{frame.lineno}: {frame.line})"
