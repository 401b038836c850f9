"""Checks that take more than one value: do the stages, edges, scheme and input of a topology fit together?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from shlex import quote

from riprap.configs.coded_stages import stage_scheme_problems
from riprap.configs.problems import FieldPath, Problem, one_of, shown, suggestion
from riprap.configs.schemes import SchemeOptions, read_options
from riprap.configs.sections import BackupOptions, Input, StageOptions
from riprap.configs.shape import EdgeSection, Shape, StageEdge, place


@dataclass(frozen=True)
class Parts:
    """The sections of a file that are sound by themselves; the others are absent, and reported already."""

    stage_names: tuple[str, ...]
    stages: Mapping[str, StageOptions]
    edges: Mapping[int, EdgeSection]
    named: tuple[tuple[FieldPath, str], ...]
    """Every name of a stage that an edge mentions, sound or not, and where."""
    whole: bool
    """All stages and all edges are sound: anything missing is missing from the file."""
    fault_tolerance: SchemeOptions | None
    input: Input | None
    backup: BackupOptions | None

    @cached_property
    def shape(self) -> Shape:
        """The sound stages and edges."""
        parallelism = {name: stage.parallelism for name, stage in self.stages.items()}
        return Shape(parallelism, tuple(place(edge, index) for index, edge in sorted(self.edges.items())))


def check_parts(parts: Parts) -> Iterator[Problem]:
    """Everything that does not fit under any scheme; the shape is asked about only when its parts are sound."""
    yield from _check_names(parts)
    yield from _check_edges(parts)
    if is_whole(parts):
        yield from _check_readers(parts)
        for check in SHAPE_CHECKS:
            yield from check(parts.shape)


def check_inputs(parts: Parts) -> Iterator[Problem]:
    """Inputs that are not there, and a storage that cannot be, on this host."""
    yield from _looked_at(_check_storage(parts.backup), ("backup", "storage"))
    inputs: dict[FieldPath, Input | None] = {("input", "path"): parts.input}
    inputs |= {("stages", name, "input", "path"): stage.input for name, stage in parts.stages.items()}
    for at, section in inputs.items():
        if section is not None:
            yield from _looked_at(_check_section(section, at), at)


def _looked_at(problems: Iterator[Problem], at: FieldPath) -> Iterator[Problem]:
    """The problems of a path; one where the system does not let us look there."""
    try:
        yield from problems
    except OSError as error:
        yield Problem(at, f"{error.filename}: {error.strerror}", "a path that you may look at")


def _check_section(section: Input, at: FieldPath) -> Iterator[Problem]:
    if section.path is None or section.is_remote:
        return
    if not section.follow:
        yield from check_input(section.path, at)
    elif not Path(section.path).exists():
        wrong, fix = f"there is no {section.path}", f"touch {quote(section.path)}, or make the directory"
        yield Problem(at, wrong, "the text file, or directory, to follow", fix)


def is_whole(parts: Parts) -> bool:
    """True when all stages and edges are there and well formed, so that questions about the shape make sense."""
    return parts.whole and not any(chain(_check_names(parts), _check_edges(parts)))


def scheme_problems(parts: Parts) -> Iterator[Problem]:
    """Conflicts of the scheme with parts that are whole."""
    scheme = parts.fault_tolerance
    given = {name: stage.fault_tolerance for name, stage in parts.stages.items()}
    own = {name: read_options(section) for name, section in given.items() if section}
    yield from stage_scheme_problems(parts.shape, scheme, own)
    if scheme is None:
        return
    yield from scheme.problems(parts.shape)
    needs_backup = scheme.needs_backup or any(one.needs_backup for one in own.values())
    if needs_backup and parts.backup and parts.backup.servers == 0:
        yield Problem(("backup", "servers"), "is 0", "1 or more for a scheme that persists items and states")


def fitting_schemes(names: Iterable[str], shape: Shape | None) -> list[str]:
    """The schemes among `names` that can work with a shape by their defaults; all where there is no shape."""
    made = {name: read_options({"scheme": name}) for name in names}
    return [name for name, scheme in made.items() if shape is None or not any(scheme.problems(shape))]


def check_input(path: str, at: FieldPath = ("input", "path")) -> Iterator[Problem]:
    """The input must be a shard directory, or text; the problem names the command that makes one."""
    directory = Path(path)
    if (directory / "manifest.json").is_file() or directory.is_file() or any(directory.glob("*.txt*")):
        return
    inside = [child for child in ("train", "test") if (directory / child / "manifest.json").is_file()]
    if inside:
        yield Problem(at, f"{path} has no manifest.json", "a shard directory", f"did you mean {directory / inside[0]}?")
        return
    wrong = f"{path} has no manifest.json" if directory.is_dir() else f"there is no directory {path}"
    yield Problem(at, wrong, "a shard directory", f"make one with: {_prep_command(directory)}")


def _prep_command(directory: Path) -> str:
    split = directory.name in ("train", "test")
    whole, out = quote(str(directory)), quote(str(directory.parent if split else directory))
    holdout = " --holdout 0.1" if split else ""
    name = str(directory).lower()
    if any(word in name for word in ("edges", "graph", "ratings")):
        return f"riprap prep graph FILES --out {whole}"
    if any(word in name for word in ("words", "text", "books", "lines")):
        return f"riprap prep text FILES --out {whole}"
    if any(word in name for word in ("packets", "cities", "pcap", "caida")):
        return f"riprap prep packets FILES --out {whole}"
    if "kdd12" in name:
        return f"riprap prep kdd12 training.txt --out {out}{holdout}"
    return f"riprap prep higgs HIGGS.csv.gz --out {out}{holdout}"


def _check_names(parts: Parts) -> Iterator[Problem]:
    known = parts.stage_names
    for path, stage in parts.named:
        if stage not in known:
            yield Problem(path, f"is {shown(stage)}", one_of(known), suggestion(stage, known))


def _check_edges(parts: Parts) -> Iterator[Problem]:
    seen: dict[tuple[str, str, bool], int] = {}
    for index, edge in parts.edges.items():
        back = edge.feedback or edge.loop
        if not back and edge.partitioning is None:
            yield Problem(
                ("edges", index, "partitioning"), "missing", "how items are dealt out", "add for example stripe or full"
            )
        if edge.loop and (edge.consistency != "bsp" or edge.staleness):
            yield Problem(
                ("edges", index, "consistency"), "the edge is a loop", "no consistency: a loop ends within its window"
            )
        if edge.loop and edge.partitioning not in (None, "full"):
            yield Problem(("edges", index, "partitioning"), f"is {edge.partitioning}", "full, for a loop")
        if edge.consistency != "bsp" and not back:
            yield Problem(("edges", index, "consistency"), "no feedback edge", "feedback: true, or no consistency")
        if edge.staleness and edge.consistency != "ssp":
            yield Problem(("edges", index, "staleness"), f"is {edge.staleness}", "consistency: ssp, or no staleness")
        first = seen.setdefault((edge.upstream, edge.downstream, back), index)
        if first != index:
            yield Problem(("edges", index), f"the same edge as edges.{first}", "one edge between two stages")


def _check_storage(backup: BackupOptions | None) -> Iterator[Problem]:
    """A backup server makes the folders of its storage that are missing, below one that is there."""
    if backup is None or backup.storage is None or "://" in backup.storage:
        return
    path = Path(backup.storage).absolute()
    there = next(one for one in (path, *path.parents) if one.exists())
    if not there.is_dir():
        yield Problem(("backup", "storage"), f"{there} is no directory", "a directory, or a URL that fsspec knows")


def _check_readers(parts: Parts) -> Iterator[Problem]:
    """An input of a stage that other stages feed would never be read."""
    for name, stage in parts.stages.items():
        if stage.input is not None and name not in parts.shape.sources:
            wrong = "is of a stage that data edges enter, which reads none"
            yield Problem(("stages", name, "input"), wrong, "an input for sources alone", "leave it out")


def _check_cycles(shape: Shape) -> Iterator[Problem]:
    for edge in shape.data_edges:
        if edge.upstream in shape.downstream_of(edge.downstream) | {edge.downstream}:
            yield Problem(
                ("edges", edge.index),
                f"{edge.name} closes a cycle",
                "data edges without cycles",
                "mark the edge that runs back with feedback: true, or with loop: true where its windows wait for it",
            )
    for edge in shape.edges:
        own = edge.loop and edge.upstream == edge.downstream
        if edge.feedback and not own and edge.upstream not in shape.downstream_of(edge.downstream):
            yield Problem(
                ("edges", edge.index, "feedback"),
                f"{edge.upstream} is not downstream of {edge.downstream}",
                "a feedback edge to run from a stage back to one of those that feed it",
            )


def _check_isolated(shape: Shape) -> Iterator[Problem]:
    for stage in shape.isolated:
        yield Problem(("stages", stage), "no data edge touches it", "an edge to or from every stage")


def _check_parallelism(shape: Shape) -> Iterator[Problem]:
    for edge in shape.edges:
        yield from _check_one_to_one(edge, shape.parallelism)


def _check_one_to_one(edge: StageEdge, parallelism: Mapping[str, int]) -> Iterator[Problem]:
    upstream, downstream = parallelism[edge.upstream], parallelism[edge.downstream]
    if edge.partitioning == "one_to_one" and upstream != downstream:
        yield Problem(
            ("edges", edge.index, "partitioning"),
            f"is one_to_one, but {edge.upstream} has {upstream} tasks and {edge.downstream} {downstream}",
            "the same parallelism on both ends",
        )


SHAPE_CHECKS: tuple[Callable[[Shape], Iterator[Problem]], ...] = (
    _check_cycles,
    _check_isolated,
    _check_parallelism,
)
