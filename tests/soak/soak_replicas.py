"""Kills all roles and whole failure domains of jobs under `partially_active`: the output is always the undisturbed one.

    python tests/soak/soak_replicas.py --count 200 --seed 1

The job's results depend on the order of all blocks; in some cases on what is fed back too, or a stage loops. A
schedule has one to three hits, at one moment or at several: a primary, a replica, both of a task, a stage, all
primaries, a host, a rack, a service, or the launcher, after which the job is resumed. Under some cases its replicas
are given to other tasks again and again. Each window must be announced once, each tentative one be shown once and
amended once, and nothing may be left. Outcomes are kept in bench/results/soak_replicas.json, where parts (--first,
--count) of one seed add up.
"""

from __future__ import annotations

import csv
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/scenarios")]

from attempts import Trial  # noqa: E402
from ordered_jobs import CHAINED, REPEAT, ROWS, write_keyed_shards  # noqa: E402
from schedules import LAUNCHER, STOP_MS, Hit, Schedule  # noqa: E402
from soak import table  # noqa: E402
from soaking import Wrong, main, run_each, with_kept  # noqa: E402

from bench import runs  # noqa: E402
from riprap.codec.errors import RiprapError  # noqa: E402
from riprap.engine.run_directory.directory import read_events  # noqa: E402
from riprap.engine.services.cluster import open_client  # noqa: E402

ITEMS = ROWS * REPEAT
MICRO_BATCH = 200
WINDOWS = ITEMS // MICRO_BATCH
TOPOLOGY = """\
job: JOB
input: {path: shards, repeat: %d}
micro_batch: %d
stages:
  read: {operator: "chained:SlowRead", parallelism: 2}
  chain: {operator: "chained:Chained", parallelism: 2}
  pass: {operator: "chained:%s", parallelism: 2}
  total: {operator: "chained:%s", parallelism: 1}
edges:
  - {from: read, to: chain, partitioning: full}
  - {from: chain, to: pass, partitioning: one_to_one}
  - {from: pass, to: total, partitioning: full}
%slinks: {block_bytes: 4096}
"""
FORWARD, FED_BACK, LOOP = "forward", "fed back", "loop"
FORMS = {
    FORWARD: ("Passed", "Rows", ""),
    FED_BACK: (
        "Passed",
        "Returned",
        "  - {from: total, to: chain, feedback: true, consistency: ssp, staleness: 2}\n",
    ),
    LOOP: ("Circled", "CircledRows", "  - {from: pass, to: pass, loop: true}\n"),
}
"""Of jobs that have no way back, whose destination feeds back, and that loop before it: two operators, an edge."""
RACKS = ("--hosts", "4", "--domains", "rack=2")
SPREAD = "placement: {spread: [rack], when_unsatisfiable: best_effort}\n"


class Case(NamedTuple):
    """Options of the scheme, the tasks that have a replica, whether there are hosts in racks, whether replicas are
    given to other tasks meanwhile, and which of FORMS the job has.
    """

    replicas: tuple[str, ...] = ()
    options: str = ""
    racks: bool = False
    adapts: bool = False
    form: str = FORWARD

    @property
    def topology(self) -> str:
        """Of the job, as text."""
        named = ", ".join(self.replicas)
        options = f"{self.options}, adapt: true" if self.adapts else self.options
        scheme = f"{{scheme: partially_active, checkpoint_s: 0.2, replicate: [{named}]{options}}}\n"
        text = TOPOLOGY % (REPEAT, MICRO_BATCH, *FORMS[self.form])
        return f"{text}fault_tolerance: {scheme}{SPREAD if self.racks else ''}"


SOME, ALL = ("chain.0", "pass.1", "read.0"), ("read.0", "read.1", "chain.0", "chain.1", "pass.0", "pass.1")
SHOWN, LITTLE = ", tentative_after_ms: 100", ", memory_bytes: 65536"
CASES = {
    "no replica": Case(),
    "no replica, tentative": Case((), SHOWN),
    "some": Case(SOME),
    "some, tentative": Case(SOME, SHOWN),
    "all, tentative, little memory": Case(ALL, SHOWN + LITTLE),
    "some, racks": Case(SOME, "", racks=True),
    "some, tentative, racks": Case(SOME, SHOWN, racks=True),
    "all, racks": Case(ALL, "", racks=True),
    "some, adapting": Case(SOME, adapts=True),
    "some, tentative, racks, adapting": Case(SOME, SHOWN, racks=True, adapts=True),
    "some, fed back": Case(SOME, form=FED_BACK),
    "all, racks, fed back, little memory": Case(ALL, LITTLE, racks=True, form=FED_BACK),
    "destination": Case(("total.0",)),
    "some, destination, tentative": Case((*SOME, "total.0"), SHOWN),
    "all, destination, racks, fed back": Case((*ALL, "total.0"), "", racks=True, form=FED_BACK),
    "no replica, loop": Case(form=LOOP),
    "some, loop, adapting": Case(SOME, adapts=True, form=LOOP),
    "all, destination, racks, loop, little memory": Case((*ALL, "total.0"), LITTLE, racks=True, form=LOOP),
}
WORKERS = ALL
CHANGES = 4
"""Times that a job with such a case is told of other replicas."""
ROLES = (
    "a primary", "a replica", "both", "a stage", "primaries", "destination", "backup", "controller", "agent",
    "zookeeper", "a host", "a rack", LAUNCHER,
)  # fmt: skip
STOPPED = ("a primary", "a replica", "destination")
"""Who may be stopped for a while instead."""


def draw(seed: int, number: int) -> Schedule:
    """A schedule, the same for the same seed and number; each case meets each role as its first hit."""
    rng = random.Random((seed << 32) + number)
    round_, place = divmod(number, len(CASES))
    name = list(CASES)[place]
    roles = [ROLES[(round_ + place) % len(ROLES)], *rng.choices(ROLES, k=rng.randrange(3))]
    together, first = rng.random() < 0.4, rng.randrange(1, WINDOWS)
    hits = [_hit(rng, role, CASES[name], first if together else rng.randrange(1, WINDOWS)) for role in roles]
    return Schedule(seed, number, name, tuple(sorted(hits, key=lambda hit: hit.epoch)))


def _hit(rng: random.Random, role: str, case: Case, window: int) -> Hit:
    is_stopped = role in STOPPED and rng.random() < 0.25
    action, duration = ("stop", f",for={rng.randint(*STOP_MS)}ms") if is_stopped else ("kill", "")
    specs = (f"{action}:{target}@epoch={window}{duration}" for target in _targets(rng, role, case))
    return Hit(role, window, tuple(specs))


def _targets(rng: random.Random, role: str, case: Case) -> Sequence[str]:
    """Of a role that the case has not, a worker in its place."""
    worker, doubled = rng.choice(WORKERS), rng.choice(case.replicas or WORKERS)
    if role == LAUNCHER:
        return ()
    copies = [doubled, f"{doubled}~1"] if case.replicas else [doubled]
    destination = ["total.0", "total.0~1"] if "total.0" in case.replicas else ["total.0"]
    named = {
        "a primary": [worker],
        "a replica": copies[-1:],
        "both": copies,
        "a stage": [f"stage:{worker.partition('.')[0]}"],
        "destination": rng.sample(destination, rng.randint(1, len(destination))),
        "a host": [f"host:host-{rng.randint(1, 4)}" if case.racks else worker],
        "a rack": [f"domain:rack=rack-{rng.randint(1, 2)}" if case.racks else worker],
    }
    return named.get(role, [role])


def changes(schedule: Schedule) -> list[tuple[int, list[str]]]:
    """The windows at which the replicas are given to other tasks, and the tasks; the same for the same schedule."""
    if not CASES[schedule.scheme].adapts:
        return []
    rng = random.Random((schedule.seed << 32) + schedule.number)
    windows = sorted(rng.randrange(1, WINDOWS) for _ in range(CHANGES))
    return [(window, rng.sample(ALL, rng.randint(0, 3))) for window in windows]


class Replicated(Trial):
    """One schedule. `truth`: the digests of the undisturbed job; None: whichever come out."""

    def __init__(self, directory: Path, schedule: Schedule, truth: tuple[str, str] | None) -> None:
        case = CASES[schedule.scheme]
        super().__init__(directory, schedule, case.topology, RACKS if case.racks else ())
        self._truth, self._changes = truth, changes(schedule)
        self.digests = ("", "")
        """Of the model and of the output."""
        self.changed = 0
        """Times that other replicas were decided."""

    def meanwhile(self, launcher: subprocess.Popen[str], number: int) -> None:
        Thread(target=self._change_replicas, args=(launcher, number), daemon=True).start()

    def _change_replicas(self, launcher: subprocess.Popen[str], number: int) -> None:
        for window, tasks in self._changes:
            self.wait(lambda at=window: self.is_at(number, at) or launcher.poll() is not None, "other replicas")
            if launcher.poll() is not None:
                return
            begun = [event for event in read_events(self.out) if event["event"] == "cluster_started"]
            with suppress(RiprapError), open_client(begun[-1]["zookeeper"]) as client:  # it may have ended
                client.adapt(self.job, tasks)
                self.changed += 1

    def check(self, summary: dict[str, Any]) -> None:
        with (self.out / "epochs.csv").open() as file:
            rows = [(int(row["epoch"]), int(row["items"])) for row in csv.DictReader(file)]
        self.expect(rows, [(window, MICRO_BATCH) for window in range(1, WINDOWS + 1)], "epochs.csv")
        self.digests = summary["model"]["sha256"], summary["output"]["sha256"]
        if self._truth is not None:
            self.expect(self.digests, self._truth, "the digests of model and output")
        shown = self.shown()
        told = summary.get("tentative", {"windows": 0, "amended": 0})
        self.expect((told["windows"], told["amended"]), (len(shown), len(shown)), "windows shown, and amended")

    def shown(self) -> list[int]:
        """The windows of tentative output; Wrong unless each was shown once, and amended after that."""
        path = self.out / "tentative.csv"
        if not path.exists():
            return []
        with path.open() as file:
            rows = list(csv.DictReader(file))
        windows = [int(row["window"]) for row in rows]
        self.expect(len(set(windows)), len(windows), "windows that were shown once")
        early = [row for row in rows if not float(row["shown_at"]) <= float(row["amended_at"].strip() or 0)]
        self.expect(early, [], "windows that were not amended after they were shown")
        return windows


class Arena:
    """A directory in which schedules run one after the other; it knows what the undisturbed job comes to."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        write_keyed_shards(directory)
        (directory / "chained.py").write_text(CHAINED)
        self._truths = {form: self._undisturbed(form) for form in FORMS}

    def _undisturbed(self, form: str) -> tuple[str, str]:
        name = next(name for name, case in CASES.items() if case.form == form)
        calm = Replicated(self._directory, Schedule(0, 0, name, ()), None)
        calm.run()
        return calm.digests

    def run(self, schedule: Schedule) -> dict[str, Any]:
        """Run a schedule, and say what became of it."""
        started, reason, summary = time.monotonic(), "", dict[str, Any]()
        trial = Replicated(self._directory, schedule, self._truths[CASES[schedule.scheme].form])
        try:
            summary = trial.run()
        except Wrong as wrong:
            reason = str(wrong)
        return {
            "number": schedule.number,
            "scheme": schedule.scheme,
            "roles": [hit.role for hit in schedule.hits],
            "faults": str(schedule).partition(f"{schedule.scheme}, ")[2],
            "reason": reason,
            "attempts": summary.get("attempts", 0),
            "injected": summary.get("injected", 0),
            "shown": summary.get("tentative", {}).get("windows", 0),
            "takeovers": len(summary.get("replicas", {}).get("takeovers", ())),
            "changed": trial.changed,
            "begun": len(summary.get("replicas", {}).get("begun", ())),
            "seconds": round(time.monotonic() - started, 1),
        }


def run_all(seed: int, numbers: Sequence[int], directory: Path) -> list[dict[str, Any]]:
    """Run schedules one after the other, telling of each."""
    arena = Arena(directory)
    return run_each("soak_replicas.py", seed, numbers, draw, arena.run)


def keep(seed: int, outcomes: list[dict[str, Any]]) -> None:
    """Add outcomes to those of the same seed that are kept, and tabulate all."""
    every = with_kept("soak_replicas", seed, outcomes)
    passed = sum(not one["reason"] for one in every)
    parts = ("shown", "takeovers", "changed", "begun")
    shown, takeovers, changed, begun = (sum(one[key] for one in every) for key in parts)
    ended = (
        f"{passed} of {len(every)} schedules of seed {seed} ended with the undisturbed output and left nothing;"
        f" {takeovers} takeovers, {shown} tentative windows, each amended once; replicas were given to other tasks"
        f" {changed} times, and {begun} begun by that"
    )
    tables = {
        f"{ended}; by replicas": table("replicas", CASES, every, lambda one: [one["scheme"]]),
        "By who was hit (a schedule has one to three hits)": table("role", ROLES, every, lambda one: one["roles"]),
    }
    runs.save("soak_replicas", "Random kills of replicas and domains", tables, {"seed": seed, "outcomes": every})


if __name__ == "__main__":
    sys.exit(main(__doc__, 200, run_all, keep))
