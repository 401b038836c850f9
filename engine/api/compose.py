"""Composes a topology in Python and runs it: the same keys, checks and run directory as a YAML file (AF Appendix C).

job = Job("word_count", input="books", micro_batch=100_000, scheme=approximate(theta=1e4, l=1e3, gamma=1e3))
split = job.stage("split", SplitWords, parallelism=2)
count = job.stage("count", CountWords, parallelism=2)
split.to(count, "full")
summary = job.run(out="runs/words")     # or run = job.start(), and look at it while it goes on
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.files import replace as replace_file
from riprap.configs.document import read_document, written_document
from riprap.configs.topology import Topology
from riprap.engine.api import messages
from riprap.engine.api.run import Run, begin
from riprap.engine.api.values import plain
from riprap.engine.run import preflight
from riprap.engine.run_directory.directory import read_summary
from riprap.operators import by_value
from riprap.operators.base import Operator
from riprap.operators.names import short_name

__all__ = [
    "Job",
    "Stage",
    "approximate",
    "barrier",
    "erasure",
    "mini_batch",
    "none",
    "optimistic",
    "partially_active",
    "reactive",
    "replication",
    "resume",
    "scheme",
    "stop_the_world",
    "upstream_backup",
]  # fmt: skip

Section = Mapping[str, Any]
Given = type | FunctionType | str
"""A class or a function, or the import path of one."""


def scheme(name: str, /, **options: Any) -> dict[str, Any]:
    """The section `fault_tolerance` of a job: a scheme by its name, and its options (docs/schemes.md)."""
    return {"scheme": name, **options}


none = partial(scheme, "none")
approximate = partial(scheme, "approximate")
"""Options: theta, l, gamma, beta; the window by `window` and `window_epochs` (AF 3.4, 3.5)."""
barrier = partial(scheme, "barrier")
"""Options: interval_ms, min_pause_ms, timeout_ms, tolerated_failures, alignment, alignment_timeout_ms,
debloat_ms, guarantee, recovery, memory_bytes (ABS; docs/guarantees.md)."""
optimistic = partial(scheme, "optimistic")
"""Options: interval_ms, min_pause_ms, timeout_ms, tolerated_failures (ABS 6.0.4; docs/iteration.md)."""
stop_the_world = partial(scheme, "stop_the_world")
mini_batch = partial(scheme, "mini_batch")
upstream_backup = partial(scheme, "upstream_backup")
partially_active = partial(scheme, "partially_active")
erasure = partial(scheme, "erasure")
replication = partial(scheme, "replication")
reactive = partial(scheme, "reactive")


class Job:
    """A topology that is being composed. Nothing is checked before `check` or `run`, which report all problems at once.

    `input` is the directory of the items, streamed `repeat` times and cut after `limit` items; further keys of that
    section are for the `input` of a source's stage. `micro_batch` counts the items of a window; a `scheme` with its
    defaults may be given by its name. `links`, `backup`, `cluster`, `output` and `placement` are the sections of those
    names, each with some of its keys; `start_from` is the directory of a savepoint.
    """

    def __init__(
        self, name: str, *, micro_batch: int, scheme: Section | str, input: str | os.PathLike[str] | None = None,
        repeat: int | str = 1, limit: int | None = None, seed: int = 1,
        links: Section | None = None, backup: Section | None = None, cluster: Section | None = None,
        output: Section | None = None, placement: Section | None = None,
        start_from: str | os.PathLike[str] | None = None,
    ) -> None:  # fmt: skip
        self._by_value: dict[str, type | FunctionType] = {}
        self._last: Run | None = None
        self._values: dict[str, Any] = {
            "job": name,
            "input": _given(path=input, repeat=repeat, limit=limit),
            "micro_batch": micro_batch,
            "seed": seed,
            "stages": {},
            "edges": [],
            "fault_tolerance": scheme,
        }
        self._values |= _given(links=links, backup=backup, cluster=cluster, output=output)
        self._values |= _given(placement=placement, start_from=start_from)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Job:
        """The job of a YAML file, to go on composing; ConfigError when it cannot be read as one."""
        values = read_document(path).values
        if not isinstance(values, dict) or not isinstance(values.get("job"), str):
            raise ConfigError(f"{os.fspath(path)}: not a topology", "name a file with job, input, stages, edges, ...")
        values |= {"stages": values.get("stages") or {}, "edges": values.get("edges") or []}
        for section, kind, name in (("stages", dict, "mapping"), ("edges", list, "list")):
            if not isinstance(values[section], kind):
                raise ConfigError(f"{os.fspath(path)}: not a topology: {section} is no {name}", f"make it a {name}")
        job = cls.__new__(cls)
        job._by_value, job._last = {}, None
        job._values = values
        return job

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self._values["job"])

    @property
    def stages(self) -> dict[str, Stage]:
        """The stages so far, in the order in which they were added."""
        return {name: Stage(self, name) for name in self._values["stages"]}

    def stage(
        self, name: str, operator: type[Operator] | str, /, *, parallelism: int = 1,
        input: str | os.PathLike[str] | Section | None = None, cpus: Sequence[int] | None = None,
        threads: int | None = None, fault_tolerance: Section | str | None = None, **options: Any,
    ) -> Stage:  # fmt: skip
        """Add a stage of `parallelism` tasks, each a process of its own. ConfigError for a name that is taken.

        The operator is a class, or its import path `module:Class`; `options` are its constructor's keyword arguments.
        A class of the running script or notebook is sent to the workers by value (operators/by_value.py).
        `input` is of a source that does not read the job's, a path or the section; `cpus` pins task i to cpus[i modulo
        their number]; `threads` are the compute threads of each task (docs/dataflow.md). `fault_tolerance` is the
        scheme of a stage that does not go by the job's, as in `Job`.
        """
        if name in self._values["stages"]:
            raise ConfigError(f"job {self.name} has a stage {name} already", "choose another name")
        own = {"path": os.fspath(input)} if isinstance(input, str | os.PathLike) else input
        values = {"operator": self._path(operator), "parallelism": parallelism}
        values |= _given(options=options or None, input=own, threads=threads)
        values |= _given(cpus=None if cpus is None else list(cpus), fault_tolerance=fault_tolerance)
        self._values["stages"][name] = values
        return Stage(self, name)

    def iterate(
        self, name: str, step: Given, /, *, first: Given | None = None, until: Given | None = None,
        combine: Given | None = None, **stage: Any,
    ) -> Stage:  # fmt: skip
        """Add a stage that iterates over each window's rows, with its loop edge: all keys in each superstep.

        `first(rows)` makes keys and values, `step(at)` new values and messages to keys (docs/iteration.md); the loop
        ends after `supersteps`, when there are no messages, or when `until(total)` is true of the parts that steps
        return: they are added up, or joined by `combine(one, other)`. Or `step` is a class that derives from Iterate
        and has such methods. All else is as of `stage`.
        """
        functions = {"first": first, "until": until, "combine": combine}
        return self._loop(name, "iterate:Iterate", step, functions, stage)

    def delta_iterate(
        self, name: str, step: Given, /, *, solution: Given | None = None, workset: Given | None = None,
        until: Given | None = None, combine: Given | None = None, **stage: Any,
    ) -> Stage:  # fmt: skip
        """Add a stage that iterates with its loop edge, and works only on keys that have messages.

        `solution(rows)` makes keys and values, `workset(rows)` the first messages, `step(at)` new values of the keys
        that have some, and the next messages. It ends when there are none, and else as `iterate`. Or `step` is a class
        that derives from DeltaIterate.
        """
        functions = {"solution": solution, "workset": workset, "until": until, "combine": combine}
        return self._loop(name, "delta_iterate:DeltaIterate", step, functions, stage)

    def _loop(
        self, name: str, base: str, step: Given, functions: Mapping[str, Given | None], stage: Mapping[str, Any]
    ) -> Stage:
        given = {option: function for option, function in functions.items() if function is not None}
        if isinstance(step, type):
            if given:
                methods = " and ".join(given)
                raise ConfigError(f"{step.__name__} is a class, and {methods} is given too", "make that a method of it")
            return self.stage(name, step, **stage).loop()
        options = {option: self._path(function) for option, function in {"step": step, **given}.items()}
        return self.stage(name, base, **{**stage, **options}).loop()

    def _path(self, named: Given) -> str:
        """The import path of a class or function, which is sent by value where it is one of the running program."""
        if isinstance(named, str):
            return named
        path = import_path(named)
        if named.__module__ == by_value.MAIN:
            self._by_value[named.__name__] = named
        return path

    def _sent(self) -> dict[str, type | FunctionType]:
        """The classes and functions of the running program, those included that a loaded file names."""
        stages = [stage for stage in self._values["stages"].values() if isinstance(stage, Mapping)]
        options = [stage["options"] for stage in stages if isinstance(stage.get("options"), Mapping)]
        named = [*(stage.get("operator") for stage in stages), *(value for one in options for value in one.values())]
        prefix = f"{by_value.MAIN}:"
        names = [one.removeprefix(prefix) for one in named if isinstance(one, str) and one.startswith(prefix)]
        found = {name: getattr(sys.modules[by_value.MAIN], name, None) for name in names}
        return {name: one for name, one in found.items() if isinstance(one, type | FunctionType)} | self._by_value

    def edge(self, upstream: Stage, downstream: Stage, **values: Any) -> None:
        """Add an edge with the values that it has in a file; ConfigError for a stage of another job."""
        for stage in (upstream, downstream):
            if not isinstance(stage, Stage):
                raise ConfigError(f"{stage!r} is no stage of a job", "join what `job.stage` or `job.stages` returns")
            if stage.job is not self:
                raise ConfigError(
                    f"stage {stage.name} is of another job than {upstream.name}", "join stages of one job"
                )
        self._values["edges"].append({"from": upstream.name, "to": downstream.name, **values})

    def to_yaml(self) -> str:
        """The file that says the same; ConfigError for a value that none can say."""
        try:
            return written_document(plain(self._values))
        except RecursionError:
            wrong = f"job {self.name}: its values hold themselves, or go too deep"
            raise ConfigError(wrong, "give lists and mappings that end") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write that file, for `riprap run`."""
        replace_file(path, self.to_yaml())

    def check(self) -> Topology:
        """The topology with all defaults filled in; ConfigError lists everything that is wrong with the job."""
        with self._file() as file:
            return preflight.check_job(file, ()).topology

    def start(
        self, *, out: str | os.PathLike[str] | None = None, faults: Sequence[str] = (),
        zookeeper: str | None = None, zookeeper_auth: str | os.PathLike[str] | None = None, standby: int = 0,
        hosts: int = 1, domains: Mapping[str, int] | None = None,
    ) -> Run:  # fmt: skip
        """Start the job on this machine and return its handle; `out` is the run directory.

        `faults` are injected, in the words of `--fault`; `zookeeper` and `zookeeper_auth` are as for `riprap run`.
        This machine acts as so many `hosts`, over which so many values of each label of `domains` are dealt
        (`hosts=4, domains={"rack": 2}`; docs/domains.md).
        ConfigError or DataError when the job is refused; nothing was started then. The job ends with this program at
        the latest, whatever ends that.
        """
        with self._file() as file:
            sent = self._sent()
            classes = str(by_value.write(Path(file).parent, sent)) if sent else None
            path = None if out is None else os.fspath(out)
            what: dict[str, Any] = {"topology": file, "out": path, "classes": classes}
            keys = (zookeeper, _path(zookeeper_auth), standby, os.getpid(), hosts, domains)
            order = messages.order(faults, *keys, **what)
            self._last = begin(order, _workers_environment())
        return self._last

    def run(
        self, *, out: str | os.PathLike[str] | None = None, faults: Sequence[str] = (),
        zookeeper: str | None = None, zookeeper_auth: str | os.PathLike[str] | None = None, standby: int = 0,
        hosts: int = 1, domains: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Run on this machine to the end and return the summary (docs/guide.md): `start`, and `wait`.

        JobFailed when the job did not complete; its message says how to go on. Ctrl-C ends the job cleanly.
        """
        with self.start(
            out=out, faults=faults, zookeeper=zookeeper, zookeeper_auth=zookeeper_auth, standby=standby,
            hosts=hosts, domains=domains,
        ) as run:  # fmt: skip
            return run.wait()

    def resume(
        self, directory: str | os.PathLike[str], *, faults: Sequence[str] = (), zookeeper: str | None = None,
        zookeeper_auth: str | os.PathLike[str] | None = None, standby: int = 0,
        hosts: int = 1, domains: Mapping[str, int] | None = None,
    ) -> Run:  # fmt: skip
        """Go on in the run directory of a run that did not complete, as riprap.resume does: by the topology there."""
        self._last = resume(
            directory, faults=faults, zookeeper=zookeeper, zookeeper_auth=zookeeper_auth, standby=standby,
            hosts=hosts, domains=domains,
        )  # fmt: skip
        return self._last

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """A figure of the last run that this object started, as of `Run.plot`; ConfigError when there is none."""
        if self._last is None:
            raise ConfigError(f"job {self.name} has not been run yet", "run it, or use `riprap plot RUNDIR`")
        return self._last.plot(path)

    @contextmanager
    def _file(self) -> Iterator[str]:
        """A file of this job for a while; errors name the job and not the file."""
        with tempfile.TemporaryDirectory(prefix="riprap-job-") as folder:
            file = str(Path(folder) / "topology.yaml")
            self.save(file)
            try:
                yield file
            except RiprapError as error:
                error.args = (str(error.args[0]).replace(file, f"job {self.name}"), *error.args[1:])
                error.remedy = error.remedy.replace(file, f"job {self.name}")
                raise


@dataclass(frozen=True)
class Stage:
    """A stage of a job, to be joined to others."""

    job: Job
    name: str

    def to(self, downstream: Stage, partitioning: str) -> Stage:
        """Stream to another stage, which is returned: one_to_one, split, merge, full or stripe."""
        self.job.edge(self, downstream, partitioning=partitioning)
        return downstream

    def feed_back(
        self, upstream: Stage, partitioning: str = "full", *, consistency: str = "bsp", staleness: int = 0
    ) -> Stage:
        """Send feedback to a stage that feeds this one, and return it.

        That stage may not run ahead of the feedback (bsp), by `staleness` windows (ssp), or freely (asp) (AF 5).
        """
        slack = {"staleness": staleness} if staleness else {}
        self.job.edge(self, upstream, partitioning=partitioning, feedback=True, consistency=consistency, **slack)
        return upstream

    def loop(self, upstream: Stage | None = None) -> Stage:
        """Send back within the window, which stays open until the loop has ended (docs/iteration.md).

        To this stage itself, or to one that feeds it, where the loop goes over several stages. Returns this stage.
        """
        self.job.edge(self, upstream or self, loop=True)
        return self


def resume(
    directory: str | os.PathLike[str], *, faults: Sequence[str] = (), zookeeper: str | None = None,
    zookeeper_auth: str | os.PathLike[str] | None = None, standby: int = 0,
    hosts: int = 1, domains: Mapping[str, int] | None = None,
) -> Run:  # fmt: skip
    """Go on with a job that did not complete, in its run directory, as `riprap run --resume` does.

    ConfigError for one that has completed, or whose directory lacks what is needed.
    """
    path = Path(directory).resolve()
    if read_summary(path).get("completed"):
        raise ConfigError(f"{path}: its job has completed, so there is nothing to go on with", "use its model.npz")
    keys = (zookeeper, _path(zookeeper_auth), standby, os.getpid(), hosts, domains)
    order = messages.order(faults, *keys, resume=str(path))
    return begin(order, _workers_environment())


def import_path(named: type | FunctionType) -> str:
    """`module:Name`, by which workers find a class or function; ConfigError for one that they cannot import."""
    if not isinstance(named, type | FunctionType):
        raise ConfigError(f"{named!r} is no class and no function", "give it itself, or its import path MODULE:NAME")
    name = f"{named.__module__}:{named.__qualname__}"
    if getattr(sys.modules.get(named.__module__), named.__qualname__, None) is not named:
        raise ConfigError(
            f"workers cannot import {name}: it is not at the top of its module", "define it there, under its own name"
        )
    return short_name(name)


def _path(given: str | os.PathLike[str] | None) -> str | None:
    return None if given is None else os.path.abspath(given)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _workers_environment() -> dict[str, str]:
    """Ours; what Python finds beside the script that is running, workers must find too."""
    environment, script = dict(os.environ), getattr(sys.modules["__main__"], "__file__", None)
    if script is not None:
        given = environment.get("PYTHONPATH")
        folders = [*([given] if given else []), str(Path(script).resolve().parent)]
        environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment
