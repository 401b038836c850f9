"""Runs `riprap` as users do, and finds every process that it left behind."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import numpy as np

from riprap.engine.cli.main import main

REPO = Path(__file__).resolve().parents[2]
MARK = "RIPRAP_SCENARIO"
TRANSPORT = os.environ.get("RIPRAP_TEST_TRANSPORT", "")
"""The transport of all runs that do not set one themselves; empty: the default."""
WORD_COUNT = """\
job: words
input: {path: text.txt, repeat: %d, limit: null}
micro_batch: %d
stages:
  split: {operator: "word_count:SplitWords", parallelism: 2}
  count: {operator: "word_count:CountWords", parallelism: 2}
edges:
  - {from: split, to: count, partitioning: full}
fault_tolerance: {scheme: none}
"""
"""Two tasks split lines and two count words; the repeats of the text and the lines of a window are to be filled in."""

PACED = """\
import time

from riprap.operators.inputs.shard_source import ShardSource


class Paced(ShardSource):
    def __init__(self, per_second):
        self._per_second = per_second

    def read(self, start, stop):
        time.sleep((stop - start) / self._per_second)
        return super().read(start, stop)
"""

GATED = """\
import time
from pathlib import Path

from riprap.operators.inputs.shard_source import ShardSource

HURRY = Path(__file__).with_name("hurry")


class Gated(ShardSource):
    def read(self, start, stop):
        if not HURRY.exists():
            time.sleep((stop - start) / 10_000)
        return super().read(start, stop)
"""

SLOW_WORDS = """\
import time
from pathlib import Path

from riprap.operators.text.word_count import SplitWords

HURRY = Path(__file__).with_name("hurry")


class SlowSplit(SplitWords):
    def process_data(self, items, first, out):
        if not HURRY.exists():
            time.sleep(items.count / %d)
        return super().process_data(items, first, out)
"""
"""The module `slow_words`: a task of SlowSplit takes so many lines a second at most, until `hurry` is called."""


def paced(per_second: int) -> tuple[str, ...]:
    """The options of a job of `write_topology` that reads so many items a second at most.

    A fault in its middle then meets it in its middle, however fast the machine is.
    """
    source = f'{{operator: "paced:Paced", options: {{per_second: {per_second}}}}}'
    return "--set", f"stages.source={source}"


UNTIL_HURRIED = ("--set", 'stages.source={operator: "gated:Gated"}')
"""The option of a job of `write_topology` that reads slowly until `hurry` is called, and then as fast as it can."""


def hurry(directory: Path) -> None:
    (directory / "hurry").touch()


def _heed_interrupts() -> None:
    """Shells have what they run in the background ignore interrupts, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Cli:
    """`riprap` in one working directory; every process that descends from it inherits a mark of its own."""

    def __init__(self, directory: Path, zookeeper: str = "") -> None:
        self.directory = directory
        self.zookeeper = zookeeper
        """The ensemble of all runs; empty: each has a server of its own, which takes as long as all the rest."""
        self.mark = uuid.uuid4().hex
        self.environment = os.environ | {
            MARK: self.mark,
            "XDG_RUNTIME_DIR": str(directory / "runtime"),
            "TMPDIR": str(directory),
        }

    def start(
        self, *arguments: str, environment: Mapping[str, str] | None = None, wrapper: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """Start a command, with pipes for its output; `wrapper` is a command that starts it in its turn."""
        return subprocess.Popen(
            [*wrapper, sys.executable, "-P", "-m", "riprap.engine.cli.main", *self._words(arguments)],
            cwd=self.directory,
            env=self.environment | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_heed_interrupts,
        )

    def _words(self, arguments: Sequence[str]) -> list[str]:
        """A command with the options that all runs here have."""
        chosen = ["--set", f"links.transport={TRANSPORT}"] if TRANSPORT and _is_new_run(arguments) else []
        if self.zookeeper and arguments[:1] == ("run",) and "--help" not in arguments:
            chosen += ["--zookeeper", self.zookeeper]
        return [*arguments[:1], *chosen, *arguments[1:]]

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None, wrapper: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        process = self.start(*arguments, environment=environment, wrapper=wrapper)
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            told = self._events()
            process.kill()
            _, err = process.communicate()
            raise AssertionError(f"{' '.join(arguments)}: did not end\n{err}\n{told}") from None
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def _events(self) -> str:
        """The ends of all event logs of runs here, for whoever must find out why one does not end."""
        logs = sorted(self.directory.rglob("events.jsonl"))
        return "\n".join(f"{log}:\n" + "\n".join(log.read_text().splitlines()[-40:]) for log in logs)

    def ask(self, *arguments: str) -> str:
        """What a command prints in this process; it must succeed."""
        with redirect_stdout(StringIO()) as said:
            assert self.call(*arguments) == 0, said.getvalue()
        return said.getvalue()

    def answer(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """How a command ends in this process."""
        with redirect_stdout(StringIO()) as said, redirect_stderr(StringIO()) as complained:
            code = self.call(*arguments, environment=environment)
        return subprocess.CompletedProcess(arguments, code, said.getvalue(), complained.getvalue())

    def call(self, *arguments: str, environment: Mapping[str, str] | None = None) -> int:
        """Run a command in this process, which costs no start of an interpreter; its exit code.

        The keys of a process are those that it has read first: a command under others needs a process of its own.
        """
        handlers = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGHUP)}
        imported, path = set(sys.modules), list(sys.path)
        before, own, mask = os.getcwd(), dict(os.environ), os.umask(0o022)
        os.umask(mask)
        os.chdir(self.directory)
        os.environ.update(self.environment | (environment or {}))
        try:
            main(self._words(arguments))
        except SystemExit as ended:
            return int(ended.code or 0)
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(own)
            os.umask(mask)
            sys.path[:] = path
            self._forget_modules(imported)
            for signum, handler in handlers.items():
                signal.signal(signum, handler)

    def _forget_modules(self, before: set[str]) -> None:
        """Users' modules here, whose names others may use for modules of their own."""
        for name in sys.modules.keys() - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(self.directory):
                del sys.modules[name]
        importlib.invalidate_caches()

    def processes(self) -> list[int]:
        """Every process alive that bears the mark."""
        wanted = f"{MARK}={self.mark}".encode()
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _bears(pid, wanted)]

    def commands(self) -> dict[int, list[str]]:
        """The command lines of these."""
        found = {}
        for pid in self.processes():
            with suppress(OSError):  # gone meanwhile
                found[pid] = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return found

    def pids_of(self, command: str) -> list[int]:
        """Those that run `riprap COMMAND`, and their forks."""
        return [pid for pid, words in self.commands().items() if words[4:5] == [command]]

    def await_no_process(self, timeout_s: float = 60.0) -> None:
        """Return as soon as nothing is left; AssertionError names what is left after the timeout."""
        await_that(lambda: not self.processes(), timeout_s, lambda: f"left behind: {self.commands()}")

    def kill_all(self) -> None:
        """End whatever a failed test has left."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def await_that(condition: Callable[[], bool], timeout_s: float, what: Callable[[], str]) -> None:
    """Look at a condition until it holds."""
    began = time.monotonic()
    deadline = began + timeout_s
    while not condition():
        now = time.monotonic()
        assert now < deadline, what()
        time.sleep(min(max(0.01, 3 * (now - began)), 0.2))  # looks that cost something take less of the time
        began = time.monotonic()


def write_shards(directory: Path, rows: int = 5000, weights: Sequence[float] = (1.0, -2.0, 0.5)) -> Path:
    """A small shard directory with a label that the features explain, each by its weight."""
    directory.mkdir(parents=True)
    features = np.random.default_rng(5).standard_normal((rows, len(weights)))
    label = (features @ weights > 0).astype(float)
    columns = ["label", *(f"x{number}" for number in range(len(weights)))]
    np.save(directory / "part-00000.npy", np.column_stack([label, features]))
    _write_manifest(directory, rows, columns)
    return directory


def change_rows(directory: Path, change: Callable[[np.ndarray], None]) -> np.ndarray:
    """Change the rows (label first) of what `write_shards` wrote, in place; returns them."""
    rows: np.ndarray = np.load(directory / "part-00000.npy")
    change(rows)
    np.save(directory / "part-00000.npy", rows)
    _write_manifest(directory, len(rows), json.loads((directory / "manifest.json").read_text())["columns"])
    return rows


def _write_manifest(directory: Path, rows: int, columns: Sequence[str]) -> None:
    content = (directory / "part-00000.npy").read_bytes()
    shard = {"file": "part-00000.npy", "rows": rows, "bytes": len(content), "crc32": f"{zlib.crc32(content):08x}"}
    manifest = {"format": "riprap-shards", "version": 1, "dtype": "<f8", "rows": rows}
    manifest |= {"columns": columns, "label": "label", "shards": [shard]}
    (directory / "manifest.json").write_text(json.dumps(manifest))


def write_topology(
    path: Path, processor: str = "logistic_regression:Gradient", sets: Sequence[tuple[str, str]] = ()
) -> Path:
    """A sound topology on `shards/` beside it, with texts replaced."""
    text = f"""\
job: trial
input: {{path: shards, repeat: 1, limit: null}}
micro_batch: 500
stages:
  source: {{operator: "shard_source:ShardSource"}}
  processor: {{operator: "{processor}", parallelism: 3}}
  sink: {{operator: "logistic_regression:Model", options: {{learning_rate: 0.5}}}}
edges:
  - {{from: source, to: processor, partitioning: stripe}}
  - {{from: processor, to: sink, partitioning: merge}}
  - {{from: sink, to: processor, feedback: true}}
fault_tolerance: {{scheme: erasure, code: gf256, k: 2, r: 1}}
"""
    for old, new in sets:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)
    write_modules(path.parent)
    return path


def write_modules(directory: Path) -> None:
    """The modules that `paced` and UNTIL_HURRIED name."""
    (directory / "paced.py").write_text(PACED)
    (directory / "gated.py").write_text(GATED)


def _is_new_run(arguments: Sequence[str]) -> bool:
    return arguments[:1] == ("run",) and "--resume" not in arguments


def _bears(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return mark in stream.read().split(b"\0")
    except OSError:
        return False
