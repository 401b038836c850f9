"""Kills all roles of a cluster with several jobs at once, while users cancel, resume, rescale, copy and drain them.

    python tests/soak/soak_cluster.py --count 40 --seed 1

Each schedule has a cluster of its own, with a standby controller and two backup servers. Its jobs write transactions,
count words of a stream under a scheme or under two of them, and sum up panes of event time. Around each act up to three
hits kill processes of all jobs or stop them for a while. At the end each job must have counted all of its stream once,
each window must be announced once, panes must be those of the undisturbed job; every job can be forgotten, and once the
cluster is down nothing may be left. Outcomes are kept in bench/results/soak_cluster.json.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/scenarios")]

import fault_points  # noqa: E402
import soak_endless  # noqa: E402
import test_panes  # noqa: E402
import transactions  # noqa: E402
from hits import AROUND_S, STOP_MS, Hit, Hitting  # noqa: E402
from soaking import Wrong, main, run_each, tabulate, with_kept  # noqa: E402
from watched import GONE_S, Cli, words_of  # noqa: E402

from bench import runs  # noqa: E402
from riprap.engine.run.losses import sentences  # noqa: E402

ROWS, WORDS, PANES = "rows", "words", "panes"
CANCEL, RESCALE, SAVE, NOTHING = "cancel", "rescale", "savepoint", "nothing"
RATE = 40_000
WORD_SCHEMES = (
    ("upstream_backup", ""),
    ("mini_batch", ""),
    ("{scheme: barrier, interval_ms: 40}", ""),
    ("{scheme: partially_active, checkpoint_s: 0.2}", ""),
    ("mini_batch", "upstream_backup"),
    ("upstream_backup", "mini_batch"),
)
"""Of the job, and of its second stage if that has its own."""
COUNT_WORDS = f"""\
input: {{path: text.txt, repeat: forever, rate: {RATE}}}
micro_batch: {soak_endless.WINDOW}
links: {{block_bytes: 65536}}
stages:
  split: {{operator: "word_count:SplitWords", parallelism: 2}}
  count: {{operator: "word_count:CountWords", parallelism: 2OWN}}
edges:
  - {{from: split, to: count, partitioning: full}}
cluster: {{restarts_max: 100}}
"""
WORKERS = ("read.0", "read.1", "tally.0", "tally.1", "write.0", "split.0", "split.1", "count.0", "count.1",
           "sums.0", "sums.1")  # fmt: skip
SERVICES = ("agent", "controller", "controller.2", "backup", "backup.2", "zookeeper")
RESTARTS = 4
"""Services that are hit in one schedule; a cluster takes more within a minute for no accident."""
DEADLINE_S = 150.0


class Act(NamedTuple):
    """What is done to a job, so many seconds after the one before, and the hits around it."""

    kind: str
    job: str
    after_s: float
    hits: tuple[Hit, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.job} after {self.after_s:.2f} s [{', '.join(map(str, self.hits))}]"


class Schedule(NamedTuple):
    """What is done to a cluster."""

    number: int
    rows: str
    words: tuple[str, str]
    acts: tuple[Act, ...]

    def __str__(self) -> str:
        return f"{self.number}: rows {self.rows}, words {' + '.join(filter(None, self.words))}; " + "; ".join(
            map(str, self.acts)
        )


def draw(seed: int, number: int) -> Schedule:
    """A schedule, the same for the same seed and number; each of WORD_SCHEMES has its turn."""
    rng = random.Random((seed << 32) + number)
    words = WORD_SCHEMES[number % len(WORD_SCHEMES)]
    may = {ROWS: (CANCEL, RESCALE, SAVE, NOTHING), WORDS: (CANCEL, NOTHING), PANES: (NOTHING, CANCEL)}
    acts, restarts = [], RESTARTS
    for _ in range(rng.randint(2, 3)):
        job = rng.choice((ROWS, ROWS, WORDS, PANES))
        hits = []
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            targets = [rng.choice(WORKERS if rng.random() < 0.6 or not restarts else SERVICES)]
            targets += [rng.choice(WORKERS)] if rng.random() < 0.3 else []
            restarts -= targets[0] in SERVICES
            stopped = rng.random() < 0.4
            stopped_ms = rng.randint(*rng.choice(STOP_MS)) if stopped else 0
            hits.append(Hit(round(rng.uniform(*AROUND_S), 2), tuple(targets), stopped_ms))
        acts.append(Act(rng.choice(may[job]), job, round(rng.uniform(0.0, 1.5), 2), tuple(sorted(hits))))
    return Schedule(number, rng.choice(transactions.SCHEMES), words, tuple(acts))


class Cluster:
    """One schedule, in a directory of its own."""

    def __init__(self, directory: Path, schedule: Schedule) -> None:
        directory.mkdir()
        self.directory, self.schedule = directory, schedule
        self._cli = Cli(directory)
        self.deadline = time.monotonic() + DEADLINE_S
        self.hitting = Hitting()
        self._lines = soak_endless.text()
        self._outs = {job: [directory / f"out-{job}"] for job in (ROWS, WORDS, PANES)}
        self._write()

    def _write(self) -> None:
        fault_points.write_job(self.directory)
        rows = fault_points.TOPOLOGY.partition("\n")[2].partition("fault_tolerance: ")[0].replace("merge", "full")
        own = f", fault_tolerance: {self.schedule.words[1]}" if self.schedule.words[1] else ""
        words = COUNT_WORDS.replace("OWN", own)
        panes = test_panes.JOB.partition("\n")[2]
        texts = {
            "tallies.py": transactions.TALLIES,
            "text.txt": "".join(" ".join(line) + "\n" for line in self._lines),
            "visits.txt": test_panes.visits(),
            "slow_lines.py": test_panes.SLOW_LINES,
            f"{ROWS}.yaml": f"job: {ROWS}\n{rows}fault_tolerance: {self.schedule.rows}\n",
            f"{WORDS}.yaml": f"job: {WORDS}\n{words}fault_tolerance: {self.schedule.words[0]}\n",
            f"{PANES}.yaml": f"job: {PANES}\n{panes}",
        }
        for name, text in texts.items():
            (self.directory / name).write_text(text)

    def run(self, truth: dict[str, Any]) -> dict[str, Any]:
        """Run it to its end, and check all; the panes that came out."""
        read = transactions.Reader(lambda seen={}: transactions.files(self.directory, seen))
        read.start()
        try:
            self._obey("up", "--standby", "1", "--backups", "2")
            for job in self._outs:
                self._obey("submit", f"{job}.yaml", "--out", f"out-{job}")
            for act in self.schedule.acts:
                self._sleep(act.after_s)
                self._do(act)
            for job in (ROWS, WORDS):
                self._repeat("drain", job)
            ends = {job: self._summary(job) for job in self._outs}
            for job in self._outs:
                self._repeat("forget", job)
            self.hitting.go_on(everybody=True)
            self._obey("down")
            self._check_traces()
        finally:
            self.hitting.go_on(everybody=True)
            self._cli.kill_all()
            read.finish()
        panes = self._check(ends, read, truth)
        shutil.rmtree(self.directory)
        return panes

    def _check(self, ends: dict[str, Any], read: transactions.Reader, truth: dict[str, Any]) -> dict[str, Any]:
        for job, summary in ends.items():
            _expect((summary["completed"], list(sentences(summary["lost"]))), (True, []), f"{job}: how it ended")
        _expect(read.wrong[:3], [], "what an outside reader saw")
        windows: list[int] = []
        for out in self._outs[ROWS]:
            lines = (out / "epochs.csv").read_text().splitlines()[1:] if (out / "epochs.csv").exists() else []
            windows += [int(line.partition(",")[0]) for line in lines if not line.startswith("#")]
        _expect(windows, list(range(1, len(windows) + 1)), "windows of rows")
        rows = fault_points.truth(len(windows))
        beside = sorted(set(read.rows).symmetric_difference(rows))
        _expect((len(read.rows), beside[:4]), (len(rows), []), "rows")
        _expect(list(soak_endless.wrong_counts(self._outs[WORDS][-1], self._lines, ends[WORDS])), [], "words")
        panes = test_panes.rows_of(self._outs[PANES][-1])
        if truth:
            unlike = [name for name in {*panes, *truth} if panes.get(name) != truth.get(name)]
            _expect(unlike, [], "files of panes that are not those of the undisturbed job")
        return panes

    def _summary(self, job: str) -> dict[str, Any]:
        """That of the run that came to the job's end; the one before may have left another there."""
        path, summary = self._outs[job][-1] / "summary.json", dict[str, Any]()

        def has_completed() -> bool:
            if path.exists():
                summary.update(json.loads(path.read_text()))
            return bool(summary.get("completed"))

        self._wait(has_completed, f"the end of {job}")
        return summary

    def _do(self, act: Act) -> None:
        now, command = min((hit.seconds for hit in act.hits), default=0.0), None
        for seconds, hit in sorted([*((hit.seconds, hit) for hit in act.hits), (0.0, None)], key=lambda one: one[0]):
            self._sleep(max(0.0, seconds - now))
            now = seconds
            if hit is not None:
                self._hit(hit)
            elif act.kind != NOTHING:
                command = self._start(*self._words(act))
        if command is not None:
            self._finish(act, command)

    def _words(self, act: Act) -> list[str]:
        if act.kind == RESCALE:
            out = self.directory / f"out-{act.job}-{len(self._outs[act.job])}"
            self._outs[act.job].append(out)
            return [RESCALE, act.job, f"tally={len(self._outs[act.job]) % 2 + 2}", "--out", out.name]
        if act.kind == SAVE:
            return [SAVE, act.job, f"saved-{time.monotonic_ns()}"]
        return [act.kind, act.job]

    def _finish(self, act: Act, command: subprocess.Popen[str]) -> None:
        code, said = self._end(command)
        if act.kind == RESCALE:
            self._after_rescaling(act, code, said)
        elif act.kind == SAVE and code:
            self._repeat(*self._words(act))
        elif act.kind == CANCEL:
            if code:
                self._repeat(CANCEL, act.job)
            self._wait(lambda: self._phase(act.job) in ("CANCELLED", "COMPLETED", "FAILED"), f"the end of {act.job}")
            if self._phase(act.job) != "COMPLETED":
                self._repeat("submit", "--resume", act.job)

    def _after_rescaling(self, act: Act, code: int, said: str) -> None:
        """A command that failed says how to go on; where it has stopped nothing, it is given again."""
        outs = self._outs[act.job]
        if not code and "nothing was stopped" not in said:
            return
        if code and "--from" in said:
            again = said.split("riprap submit ", 1)[1].split()
            if not outs[-1].exists():
                self._repeat("submit", *again, "--out", outs[-1].name)
            return
        outs.pop()
        if code:
            words = self._words(act)
            code, said = self._end(self._start(*words))
            _expect(code, 0, f"rescaling once more: {said[-500:]}")

    def _phase(self, job: str) -> str:
        code, said = self._end(self._start("status", job, "--json"))
        return "" if code else str(json.loads(said.partition("\n\x00")[0])["phase"])

    # commands
    def _start(self, *words: str) -> subprocess.Popen[str]:
        return self._cli.start(*words)

    def _end(self, command: subprocess.Popen[str]) -> tuple[int, str]:
        """The exit code and what was said; Wrong when it hangs or falls over."""
        out, err = words_of(command, self.hitting.go_on)
        return command.returncode, f"{out}\n\x00{err}"

    def _obey(self, *words: str) -> None:
        code, said = self._end(self._start(*words))
        _expect(code, 0, f"{' '.join(words)}: {said[-1000:]}")

    def _repeat(self, *words: str) -> None:
        """Give a command until it is obeyed."""
        while True:
            code, said = self._end(self._start(*words))
            if not code:
                return
            self._wait(lambda: True, f"{' '.join(words)}: {said[-1000:]}")
            self._sleep(0.3)

    def _wait(self, condition: Any, what: str) -> None:
        while not condition():
            self.hitting.go_on()
            if time.monotonic() > self.deadline:
                raise Wrong(f"it hung: waited in vain for {what}; see {self.directory}")
            time.sleep(0.02)
        if time.monotonic() > self.deadline:
            raise Wrong(f"it hung: waited in vain for {what}; see {self.directory}")

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.hitting.go_on()
            time.sleep(0.005)

    # hits
    def _hit(self, hit: Hit) -> None:
        self.hitting.hit(hit, [pid for pid, role in self._roles() if role in hit.targets])

    def _roles(self) -> Iterator[tuple[int, str]]:
        for pid, words in self._cli.commands().items():
            with suppress(OSError):
                role = Path(os.readlink(f"/proc/{pid}/fd/1")).stem
                if role != "agent" or _is_first(pid, words):
                    yield pid, role

    def _check_traces(self) -> None:
        by = time.monotonic() + GONE_S
        while (left := self._cli.processes()) and time.monotonic() < by:
            time.sleep(0.01)
        _expect([self._cli.commands().get(pid) for pid in left], [], "processes left behind")
        names = [json.loads(line)["run"] for outs in self._outs.values() for out in outs for line in _attempts(out)]
        sockets = Path("/proc/net/unix").read_text().split()
        traces = [name for name in (*sockets, *os.listdir("/dev/shm")) if any(run in name for run in names)]
        traces += map(str, (self.directory / "rows/.staging").glob("*"))
        _expect(traces, [], "traces left behind")


def _attempts(out: Path) -> list[str]:
    path = out / "attempts.jsonl"
    return path.read_text().splitlines()[:1] if path.exists() else []


def _is_first(pid: int, words: Sequence[str]) -> bool:
    """True for an agent itself, and not for its spare workers, which have its log."""
    if words[4:5] != ["agent"]:
        return False
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return b"\0agent\0" not in Path(f"/proc/{parent}/cmdline").read_bytes()


def _expect(found: Any, expected: Any, what: str) -> None:
    if found != expected:
        raise Wrong(f"{what}: found {str(found)[:600]}, expected {str(expected)[:200]}")


def run_one(directory: Path, schedule: Schedule, truth: dict[str, Any]) -> dict[str, Any]:
    """Run a schedule, and say what became of it."""
    reason, started = "", time.monotonic()
    cluster = Cluster(directory / f"{schedule.number}", schedule)
    try:
        cluster.run(truth)
    except AssertionError as wrong:
        reason = str(wrong)
    about = {"number": schedule.number, "faults": str(schedule), "words": " + ".join(filter(None, schedule.words))}
    kinds = [act.kind for act in schedule.acts]
    found = {
        "acts": kinds,
        "hits": cluster.hitting.hits,
        "reason": reason,
        "seconds": round(time.monotonic() - started, 1),
    }
    return about | found


def run_all(seed: int, numbers: Sequence[int], directory: Path) -> list[dict[str, Any]]:
    """Run schedules one after the other, telling of each."""
    calm = Schedule(-1, transactions.SCHEMES[0], WORD_SCHEMES[0], ())
    truth = Cluster(directory / "calm", calm).run({})
    return run_each("soak_cluster.py", seed, numbers, draw, lambda one: run_one(directory, one, truth))


def keep(seed: int, outcomes: list[dict[str, Any]]) -> None:
    """Add outcomes to those of the same seed that are kept, and tabulate all."""
    every = with_kept("soak_cluster", seed, outcomes)
    passed = sum(not one["reason"] for one in every)
    ended = f"{passed} of {len(every)} schedules of seed {seed} ended with all counted once and left nothing"
    schemes = [" + ".join(filter(None, names)) for names in WORD_SCHEMES]
    tables = {
        f"{ended}; by the schemes of words": tabulate("schemes", schemes, every, lambda one: [one["words"]]),
        "By act": tabulate("act", [CANCEL, RESCALE, SAVE, NOTHING], every, lambda one: one["acts"]),
    }
    runs.save("soak_cluster", "Random kills in a cluster of several jobs", tables, {"seed": seed, "outcomes": every})


if __name__ == "__main__":
    sys.exit(main(__doc__, 40, run_all, keep))
