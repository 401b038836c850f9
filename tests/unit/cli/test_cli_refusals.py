"""Each shipped topology under each scheme: it loads, or its first line says the one reason and names what loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.document import read_document
from riprap.configs.loading import load
from riprap.configs.schemes import SCHEMES
from riprap.configs.topology import Topology
from riprap.engine.run.operator_checks import operator_problems
from riprap.engine.run.preflight import check_job

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "configs").glob("*.yaml"))
ROLES = tuple(scheme for scheme in SCHEMES if scheme != "optimistic")
"""Schemes of jobs of Source, Processor and Sink."""
OF_THE_WHOLE = ("barrier", "optimistic", "stop_the_world")
"""Schemes that leave no stage one of its own."""
DATAFLOW = ("none", "approximate", "mini_batch", "partially_active", "reactive", "upstream_backup", *OF_THE_WHOLE)

SPELLINGS = ("fault_tolerance.scheme={}", "fault_tolerance={{scheme: {}}}")


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A directory that looks like shards to the schema, which opens none."""
    (tmp_path / "manifest.json").write_text("{}")
    return tmp_path


def loaded(path: Path, shards: Path, *sets: str) -> Topology:
    own = [name for name, stage in read_document(path).values["stages"].items() if "input" in stage]
    inputs = [f"input.path={shards}", *(f"stages.{name}.input.path={shards}" for name in own)]
    return load(path, [*inputs, *sets], [operator_problems])


def has_loop(path: Path) -> bool:
    return "loop: true" in path.read_text()


def leads_back_freely(path: Path) -> bool:
    return "consistency: asp" in path.read_text()


def is_dataflow(path: Path) -> bool:
    own = ("approximate", "partially_active", "upstream_backup")
    return has_loop(path) or any(scheme in path.read_text() for scheme in own)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_topology_under_each_scheme(path: Path, scheme: str, shards: Path) -> None:
    """Each is written in both spellings, in turns."""
    turn = EXAMPLES.index(path) + list(SCHEMES).index(scheme)
    one = SPELLINGS[turn % len(SPELLINGS)].format(scheme)
    schemes = DATAFLOW if is_dataflow(path) else ROLES
    if has_loop(path) and scheme == "approximate":
        with pytest.raises(ConfigError, match="approximate may lose blocks that a loop waits for") as caught:
            loaded(path, shards, one)
        assert len(str(caught.value).splitlines()) == 2 and "barrier" in caught.value.remedy
        return
    if not has_loop(path) and scheme == "optimistic":
        with pytest.raises(ConfigError, match="optimistic, but no edge is a loop") as caught:
            loaded(path, shards, one)
        assert "barrier" in caught.value.remedy or path.stem == "coded_words"
        return
    if scheme == "partially_active" and leads_back_freely(path):
        with pytest.raises(ConfigError, match=r"is partially_active, and .* feeds back under asp") as caught:
            loaded(path, shards, one)
        assert len(str(caught.value).splitlines()) == 2 and "barrier" in caught.value.remedy
        return
    if path.stem == "coded_words" and scheme in (*OF_THE_WHOLE, "partially_active"):
        why = "has all stages take blocks in one order" if scheme not in OF_THE_WHOLE else "takes checkpoints of all"
        with pytest.raises(ConfigError, match=rf"{scheme} {why}") as caught:
            loaded(path, shards, one)
        assert len(str(caught.value).splitlines()) == 2 and "upstream_backup" in caught.value.remedy
        return
    if scheme in schemes:
        assert loaded(path, shards, one).scheme == scheme
        return
    with pytest.raises(ConfigError) as caught:
        loaded(path, shards, one)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2, "one problem and its remedy, and nothing that follows from it"
    said = f"is {scheme}, which protects jobs of Source, Processor and Sink; these operators are DataflowOperators: "
    assert lines[0].startswith(f"--set {one}: fault_tolerance.scheme: {said}")
    named = lines[0].rpartition("expected one of ")[2].split(", ")
    fitting = set(schemes) - {"approximate" if has_loop(path) else "optimistic"}
    fitting -= {"partially_active"} if leads_back_freely(path) else set()
    assert set(named) == fitting, "each of which loads, as this test's other cases show: no second round"


def problems(text: str, tmp_path: Path) -> list[str]:
    """The lines of the message about a file, without its remedies."""
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, (), [operator_problems])
    return [line.removeprefix(f"{file}:") for line in str(caught.value).splitlines() if line.startswith(str(file))]


JOB = """\
job: trial
input: {path: SHARDS}
micro_batch: 100
stages:
  source: {operator: "shard_source:ShardSource"}
  processor: {operator: "kmeans:Assignment", parallelism: 3, options: {k: 4}}
  sink: {operator: "kmeans:Model", options: {decay: 0.5}}
edges:
  - {from: source, to: processor, partitioning: stripe}
  - {from: processor, to: sink, partitioning: merge}
  - {from: sink, to: processor, feedback: true}
fault_tolerance: {scheme: erasure}
"""


def job(shards: Path, *replacements: tuple[str, str]) -> str:
    text = JOB.replace("SHARDS", str(shards))
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_all_options_of_all_stages_are_told_with_what_is_wrong_elsewhere(shards: Path, tmp_path: Path) -> None:
    wrong = (
        ("micro_batch: 100", "micro_batch: 0"),
        ("k: 4", "kk: 4, spread: 0"),
        ("decay: 0.5", "decay: 2, fading: x"),
    )
    found = problems(job(shards, *wrong), tmp_path)
    assert [line.partition(": ")[0] for line in found] == ["3", "6", "6", "7", "7"]
    assert found[1].startswith("6: stages.processor.options.kk: unknown option; expected one of: k: whole number = 10;")
    assert "spread: is 0; expected a number above 0" in found[2]
    assert "decay: is 2; expected a number from 0 to 1" in found[3]
    assert "fading: is 'x'; expected a number from 0 to 1" in found[4]


def test_options_are_looked_at_though_edges_and_scheme_are_wrong(shards: Path, tmp_path: Path) -> None:
    wrong = (("to: sink", "to: snik"), ("scheme: erasure", "scheme: erasur"), ("k: 4", "k: none"))
    found = problems(job(shards, *wrong), tmp_path)
    assert [line.partition(": ")[0] for line in found] == ["6", "10", "12"]
    assert "k: is 'none'; expected a whole number from 1 (centres)" in found[0]


def test_a_wrong_fault_is_told_with_a_wrong_topology(shards: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(job(shards, ("k: 4", "k: 0")))
    with pytest.raises(ConfigError) as caught:
        check_job(str(tmp_path / "job.yaml"), (), ["kil:processor.1@50%", "stop:processor.1@50%"])
    told = str(caught.value)
    assert "k: is 0" in told and "did you mean kill?" in told and "stop needs a duration" in told
    assert told.count("remedy: ") == 1
    (tmp_path / "job.yaml").write_text(job(shards))
    with pytest.raises(ConfigError, match=r"^fault 'kil:"):
        check_job(str(tmp_path / "job.yaml"), (), ["kil:processor.1@50%"])


def test_an_operator_that_is_nearly_right_is_suggested(shards: Path, tmp_path: Path) -> None:
    text = job(shards, ("kmeans:Assignment", "kmean:Assignment"))
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"Did you mean kmeans:Assignment\?"):
        load(tmp_path / "job.yaml", (), [operator_problems])


def test_operators_of_both_kinds_lead(shards: Path, tmp_path: Path) -> None:
    found = problems(job(shards, ("kmeans:Model", "grep:MergeLines"), ("micro_batch: 100", "micro_batch: 0")), tmp_path)
    assert found[0].startswith("7: stages.sink.operator: grep:MergeLines is not a Source, Processor or Sink, which")
    assert found[1].startswith("3: micro_batch")


WORDS = """\
job: trial
input: {path: SHARDS}
micro_batch: 100
stages:
  read: {operator: "forward:Forward", parallelism: 2}
  find: {operator: "grep:Grep", parallelism: 4, options: {pattern: a}}
  merge: {operator: "grep:MergeLines", parallelism: 2}
edges:
  - {from: read, to: find, partitioning: full}
  - {from: find, to: merge, partitioning: full}
fault_tolerance: approximate
"""


def test_a_scheme_of_other_operators_names_those_that_fit(shards: Path, tmp_path: Path) -> None:
    """What that scheme would want of the edges is not told beside it."""
    found = problems(WORDS.replace("SHARDS", str(shards)).replace("approximate", "erasure"), tmp_path)
    assert len(found) == 1 and found[0].startswith("11: fault_tolerance.scheme: is erasure, which protects jobs of")
    assert found[0].endswith(
        "expected one of none, approximate, barrier, mini_batch, partially_active, reactive, stop_the_world,"
        " upstream_backup"
    )


def test_tasks_that_an_edge_leaves_alone_are_refused(shards: Path, tmp_path: Path) -> None:
    """One that sends to nobody could not say what it has, one that hears nobody would never close a window."""
    full = ("to: find, partitioning: full", "to: merge, partitioning: full")
    text = WORDS.replace("SHARDS", str(shards))
    found = problems(text.replace(full[0], "to: find, partitioning: merge"), tmp_path)
    said = "is merge, but read has 2 tasks and find 4: nobody would send to find.2"
    assert found == [f"9: edges.0.partitioning: {said}; expected at most 2 tasks of find, or split"]
    found = problems(text.replace(full[1], "to: merge, partitioning: split"), tmp_path)
    said = "is split, but find has 4 tasks and merge 2: find.2 would send to nobody"
    assert found == [f"10: edges.1.partitioning: {said}; expected at least 4 tasks of merge, or merge"]
    fitting = text.replace(full[0], "to: find, partitioning: split").replace(full[1], "to: merge, partitioning: merge")
    (tmp_path / "job.yaml").write_text(fitting)
    load(tmp_path / "job.yaml", (), [operator_problems])


def test_adapters_find_their_tasks_whatever_the_partitioning(shards: Path, tmp_path: Path) -> None:
    wide = ('operator: "shard_source:ShardSource"', 'operator: "shard_source:ShardSource", parallelism: 2')
    pairs = ('operator: "kmeans:Model"', 'operator: "kmeans:Model", parallelism: 2')
    one = ("parallelism: 3", "parallelism: 1")
    (tmp_path / "job.yaml").write_text(job(shards, wide, pairs, one, ("scheme: erasure", "scheme: none")))
    load(tmp_path / "job.yaml", (), [operator_problems])
