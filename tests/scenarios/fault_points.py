"""The steps of the checkpoint protocol, by where they are in the code, and a job at whose steps processes are killed.

The job's rows are the same in every run that counts each item once, and its destination is transactional. `Watched`
runs it beside a reader of the rows that trusts nobody.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cli_harness import Cli, await_that

import riprap
from riprap.engine.run_directory.checkpoints import last_checkpoint, read_checkpoints
from riprap.engine.run_directory.directory import read_events

DEVICE = Path(__file__).with_name("fault_device")
ROWS, KEYS, SOURCES, WINDOW, RATE = 6_000, 20, 2, 150, 6_000
CHECKPOINTS_MIN = 3
LAUNCHER = "launcher"
"""The victim with which all others die."""
TOPOLOGY = f"""\
job: tally
input: {{path: numbers, repeat: forever, rate: {RATE}}}
micro_batch: {WINDOW}
stages:
  read: {{operator: "tallies:Keyed", parallelism: {SOURCES}}}
  tally: {{operator: "tallies:Tally", parallelism: 2}}
  write: {{operator: "row_files:RowFiles", options: {{directory: rows, columns: "window, key, total"}}}}
edges:
  - {{from: read, to: tally, partitioning: full}}
  - {{from: tally, to: write, partitioning: merge}}
fault_tolerance: {{scheme: barrier, interval_ms: 20}}
"""
TALLIES = f"""\
import numpy as np

import riprap


class Keyed(riprap.DataflowOperator):
    def process_data(self, items, first, out):
        numbers = items.arrays[0][first:, 1].astype(np.int64)
        out.send_by_key(numbers % {KEYS}, (numbers,))
        return items.count


class Tally(riprap.DataflowOperator):
    def __init__(self):
        self.state = riprap.HashMap(values="int64")

    def process_data(self, items, first, out):
        keys, numbers = items.arrays
        return first + self.state.add(items.epoch * {KEYS} + keys[first:], numbers[first:])

    def process_punctuation(self, epoch, out):
        keys, totals = self.state.items()
        mine = keys // {KEYS} == epoch
        rows = np.column_stack([keys[mine] // {KEYS}, keys[mine] % {KEYS}, totals[mine]])
        out.send((rows,), len(rows))
"""


@dataclass(frozen=True)
class Step:
    """One step of the protocol.

    `process` runs `place` (module:function, or module:Class.function) there; the step is before that call or after it,
    or after one that returned something (`true`). Only calls count that are made by the function `within`
    (FILE.FUNCTION; empty: any) with arguments whose representation matches `arguments`; the `call`th is meant.
    """

    name: str
    process: str
    place: str
    when: str = "before"
    call: int = 3
    within: str = ""
    arguments: str = ""
    in_rollback: bool = False
    """It comes only when another worker has been lost."""

    @property
    def at_end(self) -> bool:
        """True for a step that comes only as the job ends."""
        return self.place.endswith("_say_done")


@dataclass(frozen=True)
class Kill:
    """A process killed at a step, which counts once the kill `behind` has happened (empty: from the start)."""

    name: str
    step: Step
    victim: str = ""
    """A process that runs while another is at the step, or LAUNCHER; empty: the one that is at the step."""
    behind: str = ""

    @property
    def holds(self) -> bool:
        """True when the victim stands still during the call, behind which it would soon end: a worker when all is
        done."""
        return self.step.at_end and self.step.when == "after" and "." in self.victim


BARRIER = "riprap.engine.schemes.barrier:Barrier"
CHAIN = "riprap.engine.schemes.parts.chain:Chain"
OUTLET = "riprap.engine.flow.outlet:Outlet"
PORT = "riprap.engine.worker.port:WorkerPort"
WORKER = "riprap.engine.worker.worker:Worker"
CHANNEL = "riprap.engine.worker.control:ControlChannel"
EPOCHS = "riprap.engine.worker.epochs_file:EpochsFile"
FILES = "riprap.operators.outputs.row_files"
CORE = "riprap.controller"
BACKUP = "riprap.backupserver"
PARTS = (
    Step("source told of the trigger", "read.0", f"{BARRIER}.on_checkpoint"),
    Step("first barrier came", "tally.0", f"{BARRIER}.on_barrier", "after", call=5),
    Step("last barrier came", "tally.0", f"{BARRIER}.on_barrier", "after", call=6),
    Step("line not drawn", "tally.0", f"{BARRIER}._draw"),
    Step("state copied", "tally.0", f"{CHAIN}.copy", "after"),
    Step("barriers put out", "read.1", f"{OUTLET}.put_barrier", "after"),
    Step("one barrier sent", "read.1", f"{OUTLET}._sent", "true", call=5, arguments="Kind.BARRIER"),
    Step("part not handed over", "tally.1", f"{PORT}.save"),
    Step("part handed over", "tally.1", f"{PORT}.save", "after"),
    Step("part sent", "read.0", f"{BACKUP}.peer:Peer._post", "after", within="peer.send"),
    Step("part safe", "tally.0", f"{BARRIER}.on_durable"),
    Step("part told", "tally.0", f"{CHANNEL}.send", "after", within="worker._say_what_is_safe"),
    Step("told that it is whole", "tally.1", f"{CHAIN}.complete"),
    Step("parts released", "tally.1", f"{PORT}.release", "after"),
)
"""A worker's part of a checkpoint."""
TRANSACTION = (
    Step("rows not synced", "write.0", f"{FILES}:_sync", call=5, within="row_files.pre_commit"),
    Step("rows synced", "write.0", f"{FILES}:_sync", "after", call=5, within="row_files.pre_commit"),
    Step("transaction prepared", "write.0", f"{FILES}:RowFiles.pre_commit", "true"),
    Step("commit due", "write.0", f"{BARRIER}._commit"),
    Step("before the rename", "write.0", f"{FILES}:RowFiles.commit"),
    Step("after the rename", "write.0", f"{FILES}:_sync", within="row_files.commit"),
    Step("committed", "write.0", f"{FILES}:RowFiles.commit", "after"),
    Step("windows not announced", "write.0", f"{EPOCHS}.append"),
    Step("windows announced", "write.0", f"{EPOCHS}.append", "after"),
)
"""The destination's."""
DECISION = (
    Step("numbers reserved", "controller", f"{CORE}.checkpoints:Coordinator.reserve", "after"),
    Step("triggered", "controller", f"{CORE}.checkpoints:Coordinator.trigger", "true"),
    Step("trigger logged", "controller", f"{CORE}.executor:Executor._log", "after", arguments="event='triggered'"),
    Step("trigger told", "controller", f"{CORE}.executor:Executor._tell", "after", call=10),
    Step("part heard", "controller", f"{CORE}.core:Core.hear", "after", call=10),
    Step("all parts heard", "controller", f"{CORE}.checkpoints:Coordinator.hear", "true"),
    Step("decision not written", "controller", f"{CORE}.store:JobStore.save", arguments="completed=[1-9]"),
    Step("decision written", "controller", f"{CORE}.store:JobStore.save", "after", arguments="completed=[1-9]"),
    Step("decision not logged", "controller", f"{CORE}.errands:append", arguments="event='completed'"),
    Step("decision logged", "controller", f"{CORE}.errands:append", "after", arguments="event='completed'"),
    Step("decision known", "controller", f"{CORE}.core:Core.persisted", arguments="completed=[1-9]"),
)
"""The controller's."""
SERVICES = (
    Step("trigger not passed on", "agent", f"{CORE}.agent:Agent._take_desired", call=8),
    Step("trigger passed on", "agent", f"{CORE}.agent:Agent._take_desired", "after", call=8),
    Step("part not reported", "agent", f"{CORE}.agent:Agent._send_report", call=8),
    Step("part came", "backup", f"{BACKUP}.store:Store.append", call=8),
    Step("part written", "backup", f"{BACKUP}.store:Store.append", "after", call=8),
    Step("part not answered", "backup", f"{BACKUP}.server:Server._send", call=8, arguments="'saved'"),
    Step("part answered", "backup", f"{BACKUP}.server:Server._send", "after", call=8, arguments="'saved'"),
    Step("parts dropped", "backup", f"{BACKUP}.store:Store.release", "after", call=8),
)
"""Of those who pass on and keep."""
ROLLBACK = tuple(
    replace(step, call=step.call if step.call > 3 else 1, in_rollback=True)
    for step in (
        Step("loss noted", "controller", f"{CORE}.recovery:note", "after"),
        Step("rollback heard", "tally.0", f"{WORKER}._begin_anew"),
        Step("replacement ordered", "agent", f"{CORE}.spawner:Spawner.start", "after"),
        Step("rollback decided", "controller", f"{CORE}.recovery:recover", "after"),
        Step("replacement begins", "tally.1", f"{WORKER}.__init__"),
        Step("replacement forked", "agent", f"{CORE}.child:Child.started", "after"),
        Step("rollback not written", "controller", f"{CORE}.store:JobStore.save", arguments="RECOVERING"),
        Step("survivor not restored", "read.0", f"{WORKER}._take_over"),
        Step("replacement not ready", "agent", f"{CORE}.child:Child._take", arguments="'ready'"),
        Step("rollback written", "controller", f"{CORE}.store:JobStore.save", "after", arguments="RECOVERING"),
        Step("survivor restored", "tally.0", f"{WORKER}._take_over", "after"),
        Step("replacement not told of", "zygote", f"{CORE}.channel:send", within="zygote._start", arguments="started"),
        Step("rollback told", "controller", f"{CORE}.executor:Executor._tell", "after", arguments="RECOVERING"),
        Step("orphans not dropped", "write.0", f"{FILES}:RowFiles.abort"),
        Step("restore asked for", "backup", f"{BACKUP}.store:Store.live", within="server._give"),
        Step("orphans dropped", "write.0", f"{FILES}:RowFiles.abort", "after"),
        Step("restore point sent", "backup", f"{BACKUP}.server:Server._give", "after"),
        Step("replacement restored", "tally.1", f"{WORKER}._take_over", "after"),
        Step("links asked anew", "read.1", f"{PORT}.ask_anew"),
        Step("rolled back", "write.0", f"{WORKER}._begin_anew", "after"),
    )
)
"""Behind a loss."""
END = (
    Step("done and not said", "write.0", f"{WORKER}._say_done", call=1),
    Step("done", "write.0", f"{WORKER}._say_done", "after", call=1),
)
STEPS = (*PARTS, *TRANSACTION, *DECISION, *SERVICES, *ROLLBACK, *END)
LOSS = Step("loss", "tally.1", f"{CHAIN}.copy", "after")
"""A worker dies in the middle of a checkpoint, and all are rolled back."""


def named(*names: str) -> tuple[Step, ...]:
    """The steps of these names."""
    by_name = {step.name: step for step in STEPS}
    return tuple(by_name[name] for name in names)


def in_turn(*strikes: tuple[Step, str]) -> list[Kill]:
    """Kills one after the other, each at a step and of a victim; before a step of a rollback comes a loss."""
    kills: list[Kill] = []
    for step, victim in strikes:
        for one, whom in ((LOSS, ""), (step, victim)) if step.in_rollback else ((step, victim),):
            name = f"{len(kills):02d} {one.name}{f', {whom} killed' if whom else ''}"
            kills.append(Kill(name, one, whom, kills[-1].name if kills else ""))
    return kills


def _fields(kill: Kill) -> dict[str, Any]:
    return asdict(kill) | asdict(kill.step) | {"name": kill.name, "holds": kill.holds}


def write_job(folder: Path) -> None:
    """What the job needs besides its topology."""
    numbers = np.arange(ROWS, dtype=float)
    riprap.write_shards(folder / "numbers", (numbers[:, None], np.zeros(ROWS)), columns=["n"])
    (folder / "tallies.py").write_text(TALLIES)


def truth(windows: int) -> list[tuple[int, int, int]]:
    """The rows: of each window each key's total."""
    rows, share = [], ROWS // SOURCES
    for window in range(windows):
        totals = np.zeros(KEYS, np.int64)
        for source in range(SOURCES):
            numbers = source * share + (window * WINDOW + np.arange(WINDOW)) % share
            np.add.at(totals, numbers % KEYS, numbers)
        rows += [(window + 1, key, int(total)) for key, total in enumerate(totals.tolist())]
    return rows


class Reader(threading.Thread):
    """An outside reader, who reads each file as it comes and believes that what it has seen stays.

    `wrong` says where it was mistaken, or saw rows of a checkpoint that nobody had decided.
    """

    def __init__(self, cli: Cli) -> None:
        super().__init__(name="reader")
        self._rows, self._out = cli.directory / "rows", cli.directory / "out"
        self._over = threading.Event()
        self._seen: dict[str, list[tuple[int, int, int]]] = {}
        self.wrong: list[str] = []

    @property
    def rows(self) -> list[tuple[int, int, int]]:
        """All rows that were seen."""
        return [row for name in sorted(self._seen) for row in self._seen[name]]

    def run(self) -> None:
        """Look until it is over, and once more."""
        while not self._over.wait(0.01):
            self._look()
        self._look()

    def _look(self) -> None:
        there = {path.name: path for path in self._rows.glob("part-*.csv")}
        self.wrong += [f"{name} is gone" for name in self._seen.keys() - there.keys()]
        for name in sorted(there.keys() - self._seen.keys()):
            self._seen[name] = rows_of(there[name])
            decided = last_checkpoint(self._out)
            if int(name.rpartition("-")[2].removesuffix(".csv")) > decided:
                self.wrong.append(f"{name} is there, and checkpoint {decided} is the last that was decided")

    def finish(self) -> None:
        """Stop."""
        self._over.set()
        self.join()
        self.wrong += [f"{name} has changed" for name in self._seen if rows_of(self._rows / name) != self._seen[name]]


def rows_of(path: Path) -> list[tuple[int, int, int]]:
    """A file's rows."""
    lines = (line.split(",") for line in path.read_text().splitlines()[1:])
    return [(int(window), int(key), int(total)) for window, key, total in lines]


class Watched:
    """A run of the job in the directory of `cli`, with kills; its stream ends when all have happened."""

    def __init__(self, cli: Cli, kills: Sequence[Kill]) -> None:
        self._cli, self._kills = cli, list(kills)
        self._out = cli.directory / "out"
        write_job(cli.directory)
        (cli.directory / "tally.yaml").write_text(TOPOLOGY)
        self._plan = cli.directory / "kills" / "kills.json"
        self._plan.parent.mkdir()
        self._plan.write_text(json.dumps(list(map(_fields, kills))))
        path = os.pathsep.join(filter(None, (str(DEVICE), cli.environment.get("PYTHONPATH", ""))))
        self._environment = {"PYTHONPATH": path, "FAULT_POINTS": str(self._plan)}

    def run(self, *words: str) -> None:
        """Run to the end, resumed where all were killed, and check everything."""
        reader = Reader(self._cli)
        reader.start()
        try:
            ended = self._attempt("tally.yaml", "--out", "out", *words)
            if ended.returncode == -signal.SIGKILL:
                self._cli.await_no_process()
                ended = self._attempt("--resume", "out")
        finally:
            reader.finish()
        assert ended.returncode == 0, ended.stderr
        assert not self._pending(at_end=True), f"nobody was killed at {self._pending(at_end=True)}"
        assert not reader.wrong, reader.wrong[:3]
        self._check(json.loads(ended.stdout), reader.rows)

    def _attempt(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One life of the launcher."""
        begun = self._count("cluster_started")
        process = self._cli.start("run", *words, "--json", environment=self._environment)
        try:
            await_that(lambda: process.poll() is not None or self._is_due(begun), 60, lambda: str(self._pending()))
            await_that(lambda: process.poll() is not None or self._is_drained(), 60, lambda: "it cannot be drained")
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def _is_due(self, begun: int) -> bool:
        """True once all kills have happened, and the attempt behind the first `begun` has made some checkpoints."""
        return (
            not self._pending()
            and self._count("cluster_started") > begun
            and sum(one.state == "completed" for one in read_checkpoints(self._out)) > CHECKPOINTS_MIN
        )

    def _is_drained(self) -> bool:
        """Have the stream end; False while no controller knows the job."""
        started = [event for event in read_events(self._out) if event["event"] == "cluster_started"][-1]
        return not self._cli.answer("drain", "tally", "--zookeeper", str(started["zookeeper"])).returncode

    def _pending(self, at_end: bool = False) -> list[str]:
        """The kills that have not happened; those that come with the job's end too, if asked."""
        kills = [kill for kill in self._kills if at_end or not kill.step.at_end]
        return [kill.name for kill in kills if not (self._plan.parent / kill.name).exists()]

    def _count(self, event: str) -> int:
        return sum(one["event"] == event for one in read_events(self._out))

    def _check(self, summary: dict[str, Any], rows: list[tuple[int, int, int]]) -> None:
        assert summary["completed"] and summary["items"] == summary["epochs"] * WINDOW * SOURCES
        assert sorted(rows) == truth(summary["epochs"]), "all rows, each once"
        lines = (self._out / "epochs.csv").read_text().splitlines()[1:]
        epochs = [int(line.partition(",")[0]) for line in lines if not line.startswith("#")]
        assert epochs == list(range(1, summary["epochs"] + 1)), "each window is announced once"
        assert not list((self._cli.directory / "rows/.staging").glob("*")), "no transaction is left"
        self._cli.await_no_process()
