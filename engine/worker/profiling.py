"""Has the threads of a worker record where their time goes, for `riprap run --profile`.

Everything is wrapped from outside, here alone: task, scheme, operator and port know nothing of it, and a job that is
not profiled runs none of this. What the compute thread does outside of what is wrapped (the Python of tasks, links and
schemes) leaves no span.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from riprap.codec.blocks import Block, Kind
from riprap.codec.codes.code import Code
from riprap.codec.files import replace
from riprap.codec.ids import Incarnation, WorkerId
from riprap.codec.json_text import to_json
from riprap.engine.flow.logged_reader import LoggedReader
from riprap.engine.flow.reader import Reader
from riprap.engine.flow.task import Task
from riprap.engine.spreads.coded_stage import CodedStageTask, StatelessTask
from riprap.engine.spreads.decoder import SegmentDecoder
from riprap.engine.spreads.encoder import INCARNATION_SHIFT
from riprap.engine.spreads.end import SegmentEndTask
from riprap.engine.spreads.trained_stage import TrainedStageTask
from riprap.engine.wire.network import Network
from riprap.engine.wire.trace import Timed, Trace
from riprap.engine.worker.port import WorkerPort
from riprap.engine.worker.profile_folder import ABOUT, PROFILE, SUFFIX, UNRECORDED, boot
from riprap.operators.adapters.stages import SinkStage

SPANS_MAX = 1 << 15  # of a thread; 1 MiB, the newest

COMPUTED = {
    "compute": (
        *("process_data", "process_linear", "process_nonlinear", "process_feedback", "process_punctuation"),
        *("aggregate", "recompute", "recompute_linear", "commit"),
    ),
    "copy": ("outputs", "snapshot"),
}
"""Kind -> the methods of an operator, of either kind, that are of it."""

RECORDED = ("upstream", "downstream", "prepare")
"""First letters of the names of the threads that record spans, beside the compute thread."""

T = TypeVar("T")


def instrument(worker: Instrumented) -> None:
    """Record into files from here on. Before the worker runs; OSError when the run directory has no room for them."""
    traces = Traces(worker.run_dir / PROFILE / f"{worker.me}#{worker.incarnation}")
    compute = traces.make("compute")
    worker.network.trace(traces.make("upstream"), traces.make("downstream"))
    worker.port.network = cast(Network, TracedNetwork(worker.network, compute))
    time_methods(worker.port.lender, compute, "copy", "copy")
    time_methods(worker.port.store, compute, "send", "save")
    task = worker.task
    _time_halves(task, compute)
    _before(task, "close", traces.note_unrecorded)
    task.on_block = Timed(compute, "nothing", task.on_block, _epoch_of_message)  # type: ignore[method-assign]
    match task:
        case TrainedStageTask():
            for pair in task.pairs:
                time_operator(pair.operator, compute)
            make = task.make_operator
            task.make_operator = lambda: time_operator(make(), compute)
        case Task():
            _time_dataflow(task, compute, traces)
        case CodedStageTask():
            time_operator(task.operator, compute)


class Instrumented(Protocol):
    """A worker as it is known here."""

    me: WorkerId
    incarnation: Incarnation
    run_dir: Path
    network: Network
    port: WorkerPort
    task: Task | StatelessTask


class Traces:
    """The files of one incarnation of a worker."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        replace(folder / ABOUT, to_json({"boot": boot()}))

    def make(self, thread: str) -> Trace:
        """The trace of a thread; it lives as long as what records into it."""
        return Trace(self._folder / f"{thread}{SUFFIX}", SPANS_MAX)

    def note_unrecorded(self) -> None:
        """Leave the CPU time (s) of the threads that record no spans: libzmq's, and those of control and backups."""
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        used: defaultdict[str, float] = defaultdict(float)
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # it has just ended
                name, seconds = cpu_time(task)
                name = names.get(int(task.name), name)
                if int(task.name) != os.getpid() and not name.startswith(RECORDED):
                    used[name] += seconds
        replace(self._folder / UNRECORDED, to_json(used))


def cpu_time(task: Path) -> tuple[str, float]:
    """The name of a thread, by its folder in /proc, and the CPU time (s) that it has used (proc(5), stat)."""
    name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
    user, system = fields.split()[11:13]
    return name, (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class TracedNetwork:
    """A network whose sends and receives are recorded; the rest is the network's own."""

    def __init__(self, network: Network, trace: Trace) -> None:
        self._network = network
        self.send = Timed(trace, "send", network.send)
        self.reply = Timed(trace, "send", network.reply)
        self._take = Timed(trace, "receive", network.receive)
        self._wait = Timed(trace, "wait", network.receive)

    def receive(self, timeout_ms: float = 0.0) -> list[Any]:
        """Messages at hand, or else those of a wait, which counts as waiting."""
        return self._take(0.0) or (self._wait(timeout_ms) if timeout_ms > 0 else [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


def time_methods(owner: T, trace: Trace, kind: str, *names: str) -> T:
    """Record each call of these methods of one object, where it has them; returns the object."""
    for name in names:
        method = getattr(owner, name, None)
        if callable(method):
            # A compiled class of a user's need not take attributes; its time is nobody's then.
            with contextlib.suppress(AttributeError):
                setattr(owner, name, Timed(trace, kind, method))
    return owner


def _before(owner: Any, name: str, first: Callable[[], None]) -> None:
    method = getattr(owner, name)

    def both() -> None:
        first()
        method()

    setattr(owner, name, both)


def time_operator(operator: T, trace: Trace) -> T:
    """Record the work of an operator; returns the operator."""
    for kind, names in COMPUTED.items():
        time_methods(operator, trace, kind, *names)
    return operator


def time_codes(scheme: Any, trace: Trace) -> None:
    """Record encoding and decoding of a scheme that has a code, or pieces to decode from."""
    for code in (getattr(scheme, "code", None), getattr(getattr(scheme, "pieces", None), "code", None)):
        if isinstance(code, Code):
            time_methods(code, trace, "code", "encode", "decode")


def _time_halves(task: Task | StatelessTask, trace: Trace) -> None:
    """Record coding in the halves of spreads that a task has; a decoder gets one with each incarnation of its
    encoder."""
    if isinstance(task, StatelessTask):
        time_codes(task.half, trace)
    for end in task.ends if isinstance(task, SegmentEndTask) else ():
        time_codes(end.half, trace)
        if isinstance(end, SegmentDecoder):
            end.forget = _Anew(end, trace)  # type: ignore[method-assign]


class _Anew:
    """Calls a decoder's `forget`, as it begins anew, and records decoding in the half that it has then."""

    def __init__(self, decoder: SegmentDecoder, trace: Trace) -> None:
        self._decoder, self._trace, self._forget = decoder, trace, decoder.forget

    def __call__(self) -> None:
        self._forget()
        time_codes(self._decoder.half, self._trace)


def _epoch_of_message(edge: Any, sender: Any, block: Block) -> int:
    """Work on a message is for its epoch; on feedback, for the next one. Of a coded segment some messages name a row
    and no window: for them it is not known, 0."""
    window = block.meta.get("window", block.epoch)
    return 0 if window >> INCARNATION_SHIFT else int(window) + (block.kind == Kind.FEEDBACK)


def _time_dataflow(task: Task, compute: Trace, traces: Traces) -> None:
    operator = task.operator
    if isinstance(operator, SinkStage):  # each call of the user's own, not of what calls them
        time_operator(operator.sink, compute)
        time_operator(operator.sink.processor, compute)
    else:
        time_operator(operator, compute)
    if operator.state is not None:
        time_methods(operator.state, compute, "copy", "backup_state", "backup_all")
    if isinstance(task.reader, Reader):
        time_methods(task.reader.source, compute, "copy", "read")
    elif isinstance(task.reader, LoggedReader):
        time_methods(task.reader.source, compute, "copy", "take")
    task.outlet.begin = Timed(compute, "nothing", task.outlet.begin, lambda epoch, *_: epoch)  # type: ignore[method-assign]
    if operator.prepares:
        operator.prepare = TimedByThread(operator.prepare, compute, traces)  # type: ignore[method-assign]


class TimedByThread:
    """Calls `prepare`. Helpers do so too (engine/flow/threads.py): each records into a trace of its own, and waits
    between two calls."""

    def __init__(self, prepare: Callable[..., Any], compute: Trace, traces: Traces) -> None:
        self._prepare, self._traces = prepare, traces
        self._numbers = itertools.count(1)
        self._own = threading.local()
        self._own.timed, self._own.trace = Timed(compute, "compute", prepare), None

    def __call__(self, items: Any) -> Any:
        own = self._own
        if not hasattr(own, "timed"):
            own.trace = self._traces.make(f"prepare-{next(self._numbers)}")
            own.timed = Timed(own.trace, "compute", self._prepare, lambda items: items.epoch)
        if own.trace is not None:
            own.trace.idle()
        return own.timed(items)
