"""Kills all roles of jobs under the schemes that checkpoint, loops among them: exact results, and nothing is left.

    python tests/soak/soak_snapshots.py --count 300 --seed 1

A schedule has one to four moments, at any time from the deployment on; at each of them one process, two, several or all
workers are killed or stopped for a while, or the launcher is killed with all that it has started, and the job resumed.
Results must be those of the undisturbed job, each window announced once, an outside reader of a transactional output
must have seen no row come too early, twice, or go; no process, socket, shared memory, backup or node may be left, and
disk and memory may not be much more than in the undisturbed job. Outcomes are kept in
bench/results/soak_snapshots.json, where parts (--first, --count) of one seed add up.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/scenarios")]

import numpy as np  # noqa: E402
from fault_points import Reader  # noqa: E402
from hits import Hit, Hitting  # noqa: E402
from snapshot_jobs import CASES, JOBS, Results  # noqa: E402
from soaking import Wrong, main, run_each, with_kept  # noqa: E402
from watched import DEADLINE_S, Cli, Watched  # noqa: E402

from bench import runs  # noqa: E402
from riprap.controller import paths  # noqa: E402
from riprap.controller.session import disconnect, open_client  # noqa: E402
from riprap.controller.zookeeper import EmbeddedZooKeeper  # noqa: E402
from riprap.engine.run.losses import sentences  # noqa: E402
from riprap.engine.run_directory.directory import read_events  # noqa: E402
from riprap.engine.services.host import RESTARTS_MAX  # noqa: E402

LAUNCHER, ZOOKEEPER, ALL = "launcher", "zookeeper", "all workers"
SERVICES = ("agent", "controller", "backup")
ROLES = ("first", "middle", "last", *SERVICES, ZOOKEEPER, ALL, LAUNCHER)
"""What a schedule's first moment hits, in turn; of the workers the first, one between, and the last."""
LASTS_S = 3.0
STOP_MS = (200, 1_500)
DISK_MB, DISK_TIMES, MEMORY_MB, MEMORY_TIMES = 16.0, 2.0, 64.0, 1.3
"""A job that is disturbed may use so many times as much, and so much more."""


@dataclass(frozen=True)
class Schedule:
    """What is done to one job; `hits` are in the order of their times."""

    number: int
    job: str
    scheme: str
    section: str
    hits: tuple[Hit, ...] = ()

    @property
    def own_ensemble(self) -> bool:
        """True when its ZooKeeper is hit, which then must be its own."""
        return any(ZOOKEEPER in hit.targets for hit in self.hits)

    def __str__(self) -> str:
        return f"{self.number}: {self.job}, {self.scheme}; {', '.join(map(str, self.hits))}"


def draw(seed: int, number: int) -> Schedule:
    """A schedule, the same for the same seed and number; each case meets each role as its first hit within as many
    numbers as there are cases times roles."""
    rng = random.Random((seed << 32) + number)
    round_, case = divmod(number, len(CASES))
    job, scheme, section = CASES[case]
    roles = [ROLES[(round_ + case) % len(ROLES)], *rng.choices(ROLES, k=rng.randrange(4))]
    hits = []
    for role in roles:
        targets = [_target(rng, role, JOBS[job].workers)]
        if role not in (LAUNCHER, ALL) and rng.random() < 0.35:
            others = [one for one in (*JOBS[job].workers, *SERVICES) if one != targets[0]]
            targets += rng.sample(others, rng.choice((1, 1, 2, 3)))
        stopped_ms = rng.randint(*STOP_MS) if role != LAUNCHER and rng.random() < 0.2 else 0
        hits.append(Hit(round(rng.uniform(0.0, LASTS_S), 2), tuple(targets), stopped_ms))
    return Schedule(number, job, scheme, section, tuple(sorted(_bounded(hits))))


def _bounded(hits: list[Hit]) -> Iterator[Hit]:
    """Hits without the services that would be started again more often than is taken for an accident."""
    restarts = RESTARTS_MAX
    for hit in hits:
        targets = []
        for target in hit.targets:
            restarts -= target in (*SERVICES, ZOOKEEPER)
            targets += [target] if restarts >= 0 or target not in (*SERVICES, ZOOKEEPER) else []
        if targets:
            yield hit._replace(targets=tuple(targets))


def _target(rng: random.Random, role: str, workers: Sequence[str]) -> str:
    named = {"first": workers[0], "middle": rng.choice(workers[1:-1]), "last": workers[-1]}
    return named.get(role, role)


class Use(NamedTuple):
    """The most that a run used: of disk under its directory, and of memory by one of its workers."""

    disk_mb: float
    memory_mb: float


class Ended(NamedTuple):
    """A run that ended as it must."""

    results: Results
    use: Use
    hits: int
    attempts: int


class Arena:
    """Runs schedules in directories of their own below one, on one ZooKeeper; it knows the undisturbed jobs."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self._directory, self._zookeeper = directory, zookeeper
        self._calms = itertools.count()
        self._calm: dict[tuple[str, str], Ended] = {}

    def run(self, schedule: Schedule) -> Ended:
        """Run a schedule; Wrong says what was wrong."""
        job, calm = JOBS[schedule.job], self.calm(schedule)
        ended = Trial(self._directory / f"{schedule.number}", self._zookeeper, schedule).run()
        truth = self.calm(Schedule(-1, schedule.job, CASES[0][1], CASES[0][2])).results
        check_alike(ended.results, truth, 0.0 if schedule.scheme.startswith(("barrier", "stop")) else job.closeness)
        disk, memory = DISK_TIMES * calm.use.disk_mb + DISK_MB, MEMORY_TIMES * calm.use.memory_mb + MEMORY_MB
        if ended.use.disk_mb > disk or ended.use.memory_mb > memory:
            raise Wrong(f"it used {ended.use}, and undisturbed {calm.use}")
        shutil.rmtree(self._directory / f"{schedule.number}")
        return ended

    def calm(self, schedule: Schedule) -> Ended:
        """The undisturbed job of a schedule."""
        case = schedule.job, schedule.scheme
        if case not in self._calm:
            folder = self._directory / f"calm-{next(self._calms)}"
            self._calm[case] = Trial(folder, self._zookeeper, Schedule(-1, *case, schedule.section)).run()
        return self._calm[case]


def check_alike(found: Results, truth: Results, closeness: float) -> None:
    """Wrong unless results are the same, or as close as that."""
    unlike = [name for name in truth if name not in found or found[name].shape != truth[name].shape]
    for name in set(truth) - set(unlike):
        if not np.allclose(found[name], truth[name], rtol=closeness, atol=closeness):
            unlike.append(name)
    if unlike or found.keys() != truth.keys():
        raise Wrong(f"{', '.join(unlike) or sorted(found)} of the results are not those of the undisturbed job")


class Trial(Watched):
    """One schedule in a directory of its own."""

    def __init__(self, directory: Path, zookeeper: str, schedule: Schedule) -> None:
        directory.mkdir()
        self._schedule, self._kind = schedule, JOBS[schedule.job]
        super().__init__(Cli(directory, "" if schedule.own_ensemble else zookeeper), directory / "out")
        self._kind.prepare(directory)
        text = self._kind.topology(schedule.section)
        (directory / "job.yaml").write_text(f"job: {self.job}\n{text.partition(chr(10))[2]}")
        self._disk_mb = 0.0
        self._attempts = 0
        self._hitting = Hitting()
        """When they go on, and the processes that stand still."""

    def run(self) -> Ended:
        """Run it to its end, check all but the results, and hand those over."""
        reader = Reader(self.cli)
        reader.start()
        try:
            summary = self._run()
            self._check(summary)
        finally:
            self._hitting.go_on(everybody=True)
            self.cli.kill_all()
            reader.finish()
        if reader.wrong:
            raise Wrong(f"a reader was wrong: {reader.wrong[:3]}")
        use = Use(self._disk_mb, max(summary["peak_rss_mb"].values()))
        return Ended(self._kind.found(self.out), use, self._hitting.hits, self._attempts)

    def _run(self) -> dict[str, Any]:
        left, begun_s = list(self._schedule.hits), 0.0
        while True:
            words = ["--resume", "out"] if self._attempts else ["job.yaml", "--out", "out"]
            launcher = self.cli.start("run", *words, *self._kind.words, "--json")
            self._attempts += 1
            self._hit_in_turn(launcher, left, begun_s)
            if launcher.returncode != -signal.SIGKILL:
                break
            begun_s = self._schedule.hits[len(self._schedule.hits) - len(left) - 1].seconds
            self.wait(lambda: not self.cli.processes(), "the end of what a killed launcher had started")
        out, err = launcher.communicate()
        if launcher.returncode:
            raise Wrong(f"exit code {launcher.returncode}: {err[-1500:]}")
        summary: dict[str, Any] = json.loads(out)
        return summary

    def _hit_in_turn(self, launcher: subprocess.Popen[str], left: list[Hit], begun_s: float) -> None:
        """Do what is left to be done at its time, until the launcher has ended."""
        runs_at = 0.0
        while launcher.poll() is None:
            if time.monotonic() > self.deadline:
                launcher.kill()
                raise Wrong(f"it hung; after {DEADLINE_S:.0f} s it said: {launcher.communicate()[1][-1500:]}")
            self._look_at_disk()
            self._hitting.go_on()
            runs_at = runs_at or self._runs_at()
            if runs_at and left and time.monotonic() >= runs_at + left[0].seconds - begun_s:
                hit = left.pop(0)
                if LAUNCHER in hit.targets:
                    self._hitting.hits += 1
                    self._hitting.go_on(everybody=True)
                    launcher.kill()
                    launcher.communicate()
                    return
                self._hit(hit)
            time.sleep(0.01)

    def _runs_at(self) -> float:
        """The time at which this attempt began to run; 0 while it does not."""
        if len(self.lines("attempts.jsonl")) < self._attempts:
            return 0.0
        begun = [event for event in read_events(self.out) if event["event"] in ("cluster_started", "phase")]
        starts = [place for place, event in enumerate(begun) if event["event"] == "cluster_started"]
        if len(starts) < self._attempts:
            return 0.0
        runs = (event["monotonic"] for event in begun[starts[-1] :] if event.get("phase") == "RUNNING")
        return next(runs, 0.0)

    def _hit(self, hit: Hit) -> None:
        targets = {*hit.targets} | ({*self._kind.workers} if ALL in hit.targets else set())
        self._hitting.hit(hit, [pid for pid, role in self._roles() if role in targets])

    def _roles(self) -> Iterator[tuple[int, str]]:
        """Its processes by role: a worker's or a service's log is named after it."""
        for pid, words in self.cli.commands().items():
            with suppress(OSError):
                role = Path(os.readlink(f"/proc/{pid}/fd/1")).stem
                if role != "agent" or "agent" in words:  # spare workers have that log too
                    yield pid, role

    def _look_at_disk(self) -> None:
        used = 0
        for folder, _, names in os.walk(self.out):
            for name in names:
                with suppress(OSError):
                    used += os.stat(os.path.join(folder, name)).st_blocks * 512
        self._disk_mb = max(self._disk_mb, used / 2**20)

    def _check(self, summary: dict[str, Any]) -> None:
        self.expect(summary["completed"], True, "completed")
        self.expect(list(sentences(summary["lost"])), [], "losses")
        for path in self.out.glob("epochs*.csv"):
            rows = [int(line.split(",")[0]) for line in path.read_text().splitlines()[1:] if not line.startswith("#")]
            self.expect(rows, list(range(1, summary["epochs"] + 1)), path.name)
        self.check_traces()

    def traces(self) -> Iterator[str]:
        """Of its transactions and nodes too."""
        yield from super().traces()
        yield from map(str, (self.cli.directory / "rows/.staging").glob("*"))
        if self.cli.zookeeper:
            client = open_client(self.cli.zookeeper)
            try:
                yield from (str(name) for name in client.get_children(paths.RUNS) if self.run_name() in name)
            finally:
                disconnect(client)


def run_one(arena: Arena, schedule: Schedule) -> dict[str, Any]:
    """Run a schedule, and say what became of it."""
    reason, ended, started = "", None, time.monotonic()
    try:
        arena.calm(schedule)
        started = time.monotonic()
        ended = arena.run(schedule)
    except AssertionError as wrong:
        reason = str(wrong)
    found = {"hits": ended.hits, "attempts": ended.attempts, **ended.use._asdict()} if ended else {}
    about = {"number": schedule.number, "job": schedule.job, "scheme": schedule.scheme, "faults": str(schedule)}
    roles = sorted({_role_of(target, schedule.job) for hit in schedule.hits for target in hit.targets})
    return about | {"roles": roles, "reason": reason, "seconds": round(time.monotonic() - started, 1), **found}


def _role_of(target: str, job: str) -> str:
    workers = JOBS[job].workers
    return "a worker" if target in workers else target


def run_all(seed: int, numbers: Sequence[int], directory: Path) -> list[dict[str, Any]]:
    """Run schedules one after the other, telling of each."""
    with EmbeddedZooKeeper(directory / "ensemble") as ensemble:
        arena = Arena(directory, ensemble.connect_string)
        return run_each("soak_snapshots.py", seed, numbers, draw, lambda schedule: run_one(arena, schedule))


def table(heading: str, every: list[dict[str, Any]], names: Sequence[str], of: Any) -> str:
    """A row for each name, of the outcomes that have it."""
    rows = []
    for name in names:
        mine = [one for one in every if name in of(one)]
        if mine:
            passed, hits = sum(not one["reason"] for one in mine), sum(one.get("hits", 0) for one in mine)
            resumed = sum(one.get("attempts", 0) > 1 for one in mine)
            disk, memory = (max(one.get(key, 0.0) for one in mine) for key in ("disk_mb", "memory_mb"))
            seconds = runs.median(one["seconds"] for one in mine)
            rows.append((name, len(mine), passed, hits, resumed, round(disk, 1), round(memory), seconds))
    headings = [
        heading, "schedules", "as undisturbed", "processes hit", "resumed", "most disk (MB)", "largest worker (MB)",
        "median s",
    ]  # fmt: skip
    return runs.table(headings, rows)


def keep(seed: int, outcomes: list[dict[str, Any]]) -> None:
    """Add outcomes to those of the same seed that are kept, and tabulate all."""
    every = with_kept("soak_snapshots", seed, outcomes)
    passed = sum(not one["reason"] for one in every)
    ended = f"{passed} of {len(every)} schedules of seed {seed} ended with the undisturbed results and left nothing"
    cases = [f"{job}, {scheme}" for job, scheme, _ in CASES]
    roles = ["a worker", *SERVICES, ZOOKEEPER, ALL, LAUNCHER]
    tables = {
        f"{ended}; by job and scheme": table("case", every, cases, lambda one: [f"{one['job']}, {one['scheme']}"]),
        "By who was hit (killed, or stopped for a while)": table("role", every, roles, lambda one: one["roles"]),
    }
    runs.save("soak_snapshots", "Random kills under checkpoints", tables, {"seed": seed, "outcomes": every})


if __name__ == "__main__":
    sys.exit(main(__doc__, 300, run_all, keep))
