"""Kills all roles while users act on a job: savepoints, other tasks, cancelling, interrupting, draining.

    python tests/soak/soak_acts.py --count 60 --seed 1

A job writes transactions, as CSV, Parquet or into SQLite. A schedule has one to three acts and a drain; around each of
them up to three hits, that kill some processes or stop them for a while, often for longer than they may be silent. On
some schedules this machine acts as several hosts, which are hit as a whole: agent and workers are killed, or stand
still together, as a suspended machine does, and go on when others have taken their place. At the end all rows are
there once, over all runs of the job; an outside reader has seen no row twice, and none go; each window is announced
once; and nothing is left. Outcomes are kept in bench/results/soak_acts.json, where parts of one seed add up.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/scenarios")]

import fault_points  # noqa: E402
from acts import ACTS, DRAIN, FULL, GO_ON, INTERRUPT, KILL, SAVE, Act, Schedule, draw  # noqa: E402
from full_disk import SmallDisk, small_disk  # noqa: E402
from hits import Hit, Hitting  # noqa: E402
from soaking import Wrong, main, run_each, tabulate, with_kept  # noqa: E402
from transactions import OUTPUTS, TALLIES, Reader, Row, files, table  # noqa: E402
from watched import Cli, Watched, words_of  # noqa: E402

from bench import runs  # noqa: E402
from riprap.controller import paths  # noqa: E402
from riprap.controller.session import disconnect, open_client  # noqa: E402
from riprap.controller.zookeeper import EmbeddedZooKeeper  # noqa: E402
from riprap.engine.run.losses import sentences  # noqa: E402
from riprap.engine.run_directory.directory import read_events  # noqa: E402

ENDED_S = 40.0
FULL_S, ROOM = 1.5, "64m"
"""The time without room, and the room that there is else."""


class Trial(Watched):
    """One schedule in a directory of its own."""

    def __init__(self, directory: Path, zookeeper: str, schedule: Schedule, disk: SmallDisk | None) -> None:
        self._schedule, self._disk = schedule, disk
        self._root = disk.path if disk is not None else directory
        super().__init__(Cli(directory, "" if schedule.own_ensemble else zookeeper), self._root / "out-0")
        self.deadline += 60.0 * len(schedule.acts)
        fault_points.write_job(directory)
        (directory / "tallies.py").write_text(TALLIES)
        text = fault_points.TOPOLOGY.partition("\n")[2]
        text = text.replace(_between(text, "write: ", "\n"), OUTPUTS[schedule.output])
        text = text.replace("partitioning: merge", "partitioning: full")
        text = text.replace(_between(text, "fault_tolerance: ", "\n"), schedule.scheme)
        (directory / "job.yaml").write_text(f"job: {self.job}\n{text}")
        self._outs: list[Path] = [self.out]
        self._launcher: subprocess.Popen[str]
        self._begun = 0
        """Attempts of the present run directory."""
        self._said = ("", "")
        """The launcher's words, once it has ended."""
        self._saves = 0
        self._tries: list[Path] = []
        """The directories of savepoints that were asked for by the present act."""
        self.hitting = Hitting()
        self._early: list[tuple[float, Hit]] = []
        """The hits that are due while the present job begins, and when."""

    def run(self) -> None:
        """Run it to its end, and check everything."""
        seen: dict[str, list[Row]] = {}
        folder, is_table = self.cli.directory, self._schedule.output == "sqlite"
        reader = Reader(lambda: table(folder) if is_table else files(folder, seen))
        reader.start()
        try:
            writers = f"stages.write.parallelism={self._schedule.writers}"
            self._start(["job.yaml", "--out", str(self.out), "--set", writers])
            for act in self._schedule.acts:
                self._await_running(act.after_s)
                self._do(act)
            self._check_end()
            self._continue(everybody=True)
            self.check_traces()
        finally:
            self._continue(everybody=True)
            self.cli.kill_all()
            reader.finish()
        self.expect(reader.wrong[:3], [], "what an outside reader saw")
        windows = self._check_windows()
        truth = fault_points.truth(windows)
        beside = sorted(set(reader.rows).symmetric_difference(truth))
        self.expect((len(reader.rows), beside[:4]), (len(truth), []), "rows")

    def _start(self, words: Sequence[str], early: Sequence[Hit] = ()) -> None:
        hosts = ["--hosts", str(self._schedule.hosts)] if self._schedule.hosts > 1 else []
        self._launcher = self.cli.start("run", *words, *hosts, "--json")
        self._begun += 1
        self._early = [(time.monotonic() + hit.seconds, hit) for hit in early]

    def _await_running(self, seconds: float) -> None:
        self.wait(lambda: self._runs() or self._launcher.poll() is not None, "the job to run")
        self._check_lives()
        self._sleep(seconds)

    def _check_lives(self) -> None:
        if self._launcher.poll() is not None:
            raise Wrong(f"exit code {self._launcher.returncode}: {self._launcher.communicate()[1][-1500:]}")

    def _runs(self) -> bool:
        self._continue()
        if len(self.lines("attempts.jsonl")) < self._begun:
            return False
        begun = [event for event in read_events(self.out) if event["event"] in ("cluster_started", "phase")]
        starts = [place for place, event in enumerate(begun) if event["event"] == "cluster_started"]
        return len(starts) >= self._begun and any(event.get("phase") == "RUNNING" for event in begun[starts[-1] :])

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._continue()
            time.sleep(0.005)

    def _do(self, act: Act) -> None:
        """An act and the hits around it; afterwards the next job is started, or the last has ended."""
        now, command = 0.0, None
        left = sorted([*((hit.seconds, hit) for hit in act.hits), (0.0, None)], key=lambda one: one[0])
        for seconds, hit in left:
            self._sleep(max(0.0, seconds - now) if now or seconds > 0 else 0.0)
            now = seconds
            if hit is None:
                command = self._begin(act)
            else:
                self._hit(hit)
        self._finish(act, command)

    def _begin(self, act: Act) -> subprocess.Popen[str] | None:
        if act.kind == KILL:
            self._continue(everybody=True)
            self._launcher.kill()
        elif act.kind == INTERRUPT:
            self._launcher.send_signal(signal.SIGINT)
        elif self._disk is not None and act.kind == FULL:
            self._disk.fill()
        else:
            self._tries = []
            return self._command(act)
        return None

    def _command(self, act: Act) -> subprocess.Popen[str]:
        started = [event for event in read_events(self.out) if event["event"] == "cluster_started"][-1]
        there = ("--zookeeper", str(started["zookeeper"]))
        if act.kind in (SAVE, GO_ON):
            stop = ("--stop",) if act.kind == GO_ON else ()
            self._saves += 1
            self._tries.append(self.cli.directory / f"saved-{self._saves}")
            return self.cli.start("savepoint", self.job, self._tries[-1].name, *stop, *there)
        return self.cli.start(act.kind, self.job, *there)

    def _finish(self, act: Act, command: subprocess.Popen[str] | None) -> None:
        while command is not None and not self._has_succeeded(command):
            if (act.kind == GO_ON and self._whole()) or self._launcher.poll() is not None:
                break  # it did what it was to do, and could not say so
            command = self._command(act)
        if act.kind == SAVE or (act.kind == FULL and self._lives_with_room()):
            return
        self._await_launcher(act)
        if act.kind == GO_ON:
            if not self._whole():
                raise Wrong(f"the job ended without the savepoint: {self._said}")
            self._go_on(act, self._whole()[0])
        elif act.kind != DRAIN:
            self.wait(self._all_gone, "the end of what a launcher had started")
            self._start(["--resume", str(self.out)], act.early)

    def _lives_with_room(self) -> bool:
        """After a while there is room again; True when windows are announced then, False when the job ends."""
        assert self._disk is not None
        self._sleep(FULL_S)
        self._disk.make_room()
        before = self._count_announced()
        self.wait(lambda: self._moves(before) or self._launcher.poll() is not None, "windows, once there is room")
        return self._launcher.poll() is None

    def _moves(self, before: int) -> bool:
        self._continue()
        return self._count_announced() > before

    def _count_announced(self) -> int:
        return sum(len(self.lines(path.name)) for path in self.out.glob("epochs*.csv"))

    def _whole(self) -> list[Path]:
        """The savepoints of the present act that are whole."""
        manifests = [path / "savepoint.json" for path in self._tries]
        return [one.parent for one in manifests if one.exists() and one.read_bytes().endswith(b"\n")]

    def _all_gone(self) -> bool:
        self._continue()
        return not self.cli.processes()

    def _has_succeeded(self, command: subprocess.Popen[str]) -> bool:
        """Once it has ended; Wrong when it hangs, or falls over."""
        words_of(command, self._continue, self.deadline)
        return not command.returncode

    def _await_launcher(self, act: Act) -> None:
        """Until the launcher has ended, as it must after this act."""
        launcher = self._launcher
        by = time.monotonic() + ENDED_S
        while launcher.poll() is None:
            self._continue()
            if time.monotonic() > by:
                raise Wrong(f"the launcher did not end after {act.kind}; see {self.out}")
            time.sleep(0.005)
        self._said = launcher.communicate()
        codes = {DRAIN: (0,), INTERRUPT: (130,), KILL: (-signal.SIGKILL,)}.get(act.kind, (1,))
        if launcher.returncode not in codes or "Traceback" in self._said[1]:
            raise Wrong(f"after {act.kind} the launcher's exit code was {launcher.returncode}: {self._said[1][-1500:]}")

    def _go_on(self, act: Act, saved: Path) -> None:
        self.wait(self._all_gone, "the end of what a launcher had started")
        self.out = self._root / f"out-{len(self._outs)}"
        self._outs.append(self.out)
        self._begun = 0
        tasks = (f"stages.tally.parallelism={act.tasks}", f"stages.write.parallelism={act.writers}")
        sets = [word for change in (*tasks, f"fault_tolerance={act.scheme}") for word in ("--set", change)]
        self._start(["job.yaml", "--out", str(self.out), "--from", saved.name, *sets], act.early)

    def _hit(self, hit: Hit) -> None:
        named = {*hit.targets}
        self.hitting.hit(hit, [pid for pid, role, host in self._roles() if not named.isdisjoint((role, host))])

    def _roles(self) -> Iterator[tuple[int, str, str]]:
        """Its processes by role, which their logs are named after, and the host that they are of."""
        commands = self.cli.commands()
        agents = {pid: _host(words) for pid, words in commands.items() if words[4:5] == ["agent"]}
        for pid in commands:
            with suppress(OSError):
                role, lineage = Path(os.readlink(f"/proc/{pid}/fd/1")).stem, _lineage(pid)
                if role.startswith("agent"):  # spare workers have that log too
                    role = "" if any(one in agents for one in lineage[1:]) else "agent"
                yield pid, role, next((agents[one] for one in lineage if one in agents), "")

    def _continue(self, everybody: bool = False) -> None:
        while self._early and time.monotonic() >= self._early[0][0]:
            self._hit(self._early.pop(0)[1])
        self.hitting.go_on(everybody)

    def _check_end(self) -> None:
        summary = json.loads(self._said[0])
        self.expect((summary["completed"], list(sentences(summary["lost"]))), (True, []), "completed, and losses")
        told = summary["items"]
        self.expect(told, summary["epochs"] * fault_points.WINDOW * fault_points.SOURCES, "items")

    def _check_windows(self) -> int:
        """The windows that were announced, each once by all runs of the job; their number."""
        windows: list[int] = []
        for out in self._outs:
            announced = [self._announced(path) for path in sorted(out.glob("epochs*.csv"))] or [[]]
            self.expect(announced, [announced[0]] * len(announced), f"windows that all tasks announce in {out.name}")
            windows += announced[0]
        self.expect(windows, list(range(1, len(windows) + 1)), "windows announced")
        return len(windows)

    def _announced(self, path: Path) -> list[int]:
        return [int(line.partition(",")[0]) for line in path.read_text().splitlines()[1:] if not line.startswith("#")]

    def traces(self) -> Iterator[str]:
        """Of all its runs, its transactions, and nodes too."""
        for out in self._outs:
            self.out = out
            kept = str(out / "backup") if out != self._outs[-1] else ""  # of a job that was cancelled, to be resumed
            yield from (trace for trace in super().traces() if trace != kept)
            if self.cli.zookeeper:
                client = open_client(self.cli.zookeeper)
                try:
                    yield from (str(name) for name in client.get_children(paths.RUNS) if self.run_name() in name)
                finally:
                    disconnect(client)
        yield from map(str, (self.cli.directory / "rows/.staging").glob("*"))
        yield from (f"prepared row {row}" for row in table(self.cli.directory, "rows__prepared")[:3])


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def _host(words: Sequence[str]) -> str:
    return next((words[i + 1] for i, word in enumerate(words[:-1]) if word == "--host"), "")


def _lineage(pid: int) -> list[int]:
    """A process, its parent, and so on."""
    found = []
    while pid > 1:
        found.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def run_one(directory: Path, zookeeper: str, schedule: Schedule) -> dict[str, Any]:
    """Run a schedule, and say what became of it."""
    reason, started = "", time.monotonic()
    folder, fills = directory / f"{schedule.number}", any(act.kind == FULL for act in schedule.acts)
    folder.mkdir()
    with small_disk(folder / "disk", ROOM) if fills else nullcontext() as disk:
        trial = Trial(folder, zookeeper, schedule, disk)
        try:
            trial.run()
        except AssertionError as wrong:
            reason = str(wrong)
            if disk is not None:
                disk.make_room()
                shutil.copytree(disk.path, folder / "kept", ignore_dangling_symlinks=True)
    if not reason:
        shutil.rmtree(folder)
    about = {"number": schedule.number, "output": schedule.output, "faults": str(schedule), "hits": trial.hitting.hits}
    kinds = [act.kind for act in schedule.acts]
    return about | {"acts": kinds, "reason": reason, "seconds": round(time.monotonic() - started, 1)}


def run_all(seed: int, numbers: Sequence[int], directory: Path) -> list[dict[str, Any]]:
    """Run schedules one after the other, telling of each."""
    with EmbeddedZooKeeper(directory / "ensemble") as ensemble:
        zookeeper = ensemble.connect_string
        return run_each("soak_acts.py", seed, numbers, draw, lambda one: run_one(directory, zookeeper, one))


def keep(seed: int, outcomes: list[dict[str, Any]]) -> None:
    """Add outcomes to those of the same seed that are kept, and tabulate all."""
    every = with_kept("soak_acts", seed, outcomes)
    passed = sum(not one["reason"] for one in every)
    ended = f"{passed} of {len(every)} schedules of seed {seed} ended with each row once and left nothing"
    tables = {
        f"{ended}; by output": tabulate("output", list(OUTPUTS), every, lambda one: [one["output"]]),
        "By act": tabulate("act", [*ACTS, DRAIN], every, lambda one: one["acts"]),
    }
    runs.save("soak_acts", "Random kills around users' acts", tables, {"seed": seed, "outcomes": every})


if __name__ == "__main__":
    sys.exit(main(__doc__, 60, run_all, keep))
