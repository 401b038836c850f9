"""Jobs composed in Python: they say what a file says, and what is wrong with them is reported alike."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.document import read_document
from riprap.configs.sections import Input, StageOptions
from riprap.configs.shape import EdgeSection
from riprap.configs.topology import Topology
from riprap.engine.api.compose import (
    Job,
    Stage,
    _workers_environment,
    approximate,
    import_path,
    mini_batch,
    none,
    upstream_backup,
)
from riprap.engine.run.preflight import check_job
from riprap.operators import by_value
from riprap.operators.graphs.read_edges import ReadEdges
from riprap.operators.iteration.iterate import Iterate
from riprap.operators.text.word_count import CountWords, SplitWords
from tests.unit.operators import test_keyed_loops

BY_HAND = """\
job: words
input: {{path: {path}, repeat: 2, limit: 5}}
micro_batch: 2
seed: 3
stages:
  split: {{operator: "word_count:SplitWords", parallelism: 2, cpus: [0, 1], threads: 3}}
  count: {{operator: "word_count:CountWords", parallelism: 3}}
edges:
  - {{from: split, to: count, partitioning: full}}
  - {{from: count, to: split, partitioning: full, feedback: true, consistency: ssp, staleness: 5}}
fault_tolerance: {{scheme: approximate, theta: 20, l: 10, gamma: 5, window: none, window_epochs: 4}}
backup: {{servers: 2}}
"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("one two\ntwo\nthree\n")
    return path


def words(text: Path, **values: Any) -> Job:
    """A sound job, with values of its constructor replaced."""
    kept = {"micro_batch": 2, "scheme": approximate(), "input": text} | values
    job = Job("words", **kept)
    job.stage("split", SplitWords).to(job.stage("count", CountWords), "full")
    return job


def composed(text: Path) -> Job:
    """What `BY_HAND` says."""
    thresholds = approximate(theta=20, l=10, gamma=5, window="none", window_epochs=4)
    job = Job(
        "words", input=text, repeat=2, limit=5, micro_batch=2, seed=3, scheme=thresholds, backup={"servers": 2}
    )  # fmt: skip
    split = job.stage("split", SplitWords, parallelism=2, cpus=[0, 1], threads=3)
    count = job.stage("count", "word_count:CountWords", parallelism=3)
    assert split.to(count, "full") is count
    assert count.feed_back(split, consistency="ssp", staleness=5) is split
    return job


def test_a_composed_job_is_the_topology_of_the_file(text: Path, tmp_path: Path) -> None:
    (tmp_path / "hand.yaml").write_text(BY_HAND.format(path=text))
    wanted = check_job(str(tmp_path / "hand.yaml"), ()).topology
    assert composed(text).check().to_dict() == wanted.to_dict()
    assert [stage.threads for stage in wanted.stages.values()] == [3, 1]
    assert Topology.from_dict(wanted.to_dict()) == wanted


def test_what_is_saved_is_the_same_job_and_can_be_loaded(text: Path, tmp_path: Path) -> None:
    job = composed(text)
    job.save(tmp_path / "saved.yaml")
    assert check_job(str(tmp_path / "saved.yaml"), ()).topology.to_dict() == job.check().to_dict()
    again = Job.load(tmp_path / "saved.yaml")
    assert again.to_yaml() == job.to_yaml() == (tmp_path / "saved.yaml").read_text()
    assert again.name == "words" and list(again.stages) == ["split", "count"]


def test_a_loaded_job_can_be_composed_further(text: Path, tmp_path: Path) -> None:
    words(text).save(tmp_path / "saved.yaml")
    job = Job.load(tmp_path / "saved.yaml")
    job.stages["count"].feed_back(job.stages["split"], consistency="asp")
    edges = job.check().edges
    assert [(edge.name, edge.feedback, edge.consistency) for edge in edges] == [
        ("split->count", False, "bsp"), ("count->split", True, "asp"),
    ]  # fmt: skip


def test_options_are_keyword_arguments_and_a_source_may_have_an_input_of_its_own(text: Path) -> None:
    job = Job("grep", micro_batch=2, scheme=upstream_backup())
    lines = job.stage("lines", "grep:Grep", input=text, pattern="two")
    lines.to(job.stage("merge", "grep:MergeLines"), "merge")
    topology = job.check()
    assert dict(topology.stages["lines"].options) == {"pattern": "two"}
    assert topology.input_of("lines").path == str(text) and topology.input.path is None
    assert topology.scheme == "upstream_backup" and topology.fault_tolerance["memory_bytes"] == 1 << 30


def test_all_problems_are_reported_at_once_and_name_the_job(tmp_path: Path) -> None:
    job = words(tmp_path / "nowhere", micro_batch=0, scheme=approximate(thetta=1))
    with pytest.raises(ConfigError) as caught:
        job.check()
    message = str(caught.value)
    for said in (
        "micro_batch: is 0",
        "there is no directory",
        "did you mean theta?",
        "the 3 problems above in job words",
    ):
        assert said in message
    assert "topology.yaml" not in message


def test_an_unknown_option_is_reported_by_run_as_by_check_and_leaves_nothing(text: Path, tmp_path: Path) -> None:
    job = Job("words", input=text, micro_batch=2, scheme=none())
    job.stage("split", SplitWords, colour="red").to(job.stage("count", CountWords), "full")
    for act in (job.check, lambda: job.run(out=tmp_path / "out")):
        with pytest.raises(ConfigError, match=r"options\.colour: unknown option; expected one of: ascii"):
            act()
    assert not (tmp_path / "out").exists()


def test_threads_are_refused_where_nothing_is_prepared(text: Path) -> None:
    job = Job("words", input=text, micro_batch=2, scheme=none())
    job.stage("split", SplitWords, threads=2).to(job.stage("count", CountWords, threads=2), "full")
    with pytest.raises(ConfigError, match=r"stages.count.threads: is 2; expected 1, as .*:CountWords prepares nothing"):
        job.check()


def test_faults_are_checked_before_anything_is_started(text: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has only 1 tasks"):
        words(text).run(out=tmp_path / "out", faults=["kill:count.1@50%"])
    assert not (tmp_path / "out").exists()


def test_a_name_is_taken_once_and_edges_join_stages_of_one_job(text: Path) -> None:
    job, other = words(text), words(text)
    with pytest.raises(ConfigError, match="has a stage count already"):
        job.stage("count", CountWords)
    with pytest.raises(ConfigError, match="stage split is of another job"):
        job.stages["count"].feed_back(other.stages["split"])
    assert isinstance(job.stages["count"], Stage) and len(job.check().edges) == 1


def test_a_scheme_may_be_given_by_its_name(text: Path) -> None:
    assert words(text, scheme="mini_batch").check() == words(text, scheme=mini_batch()).check()
    with pytest.raises(ConfigError, match="is 'minibatch'; expected one of"):
        words(text, scheme="minibatch").check()


def test_numbers_of_numpy_and_paths_are_as_those_of_a_file(text: Path) -> None:
    job = words(text, micro_batch=np.int64(2), scheme=approximate(theta=np.float32(2)), seed=np.int32(7))
    assert job.check() == words(text, scheme=approximate(theta=2.0), seed=7).check()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"input": {"path": "text.txt"}}, "input.path: is {'path': 'text.txt'}; expected text"),
        ({"input": np.zeros(2)}, "input.path: is a ndarray, which no topology can say"),
        ({"scheme": None}, "fault_tolerance"),
        ({"scheme": mini_batch}, "fault_tolerance: is a partial, which no topology can say"),
        ({"links": {"block_bytes": [1, object()]}}, "links.block_bytes.1: is a object"),
    ],
)
def test_a_value_of_another_kind_is_a_problem_of_the_job(values: dict[str, Any], said: str, text: Path) -> None:
    job = words(text, **values)
    with pytest.raises(ConfigError, match=said):
        job.check()


def test_what_is_no_operator_and_no_stage_is_refused(text: Path) -> None:
    job = words(text)
    with pytest.raises(ConfigError, match="is no class and no function"):
        job.stage("more", CountWords())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'count' is no stage of a job"):
        job.stages["split"].to("count", "full")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"standby": -1}, "standby is -1"),
        ({"domains": ["rack"]}, "domains is"),
        ({"faults": "kill"}, "fault 'kill': it names no moment"),
        ({"faults": [3]}, "fault '3': unknown action"),
    ],
)
def test_an_order_of_another_kind_is_refused(given: dict[str, Any], said: str, text: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        words(text).start(out=tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["[1, 2]\n", "stages: {}\n", "job: [1]\n"])
def test_only_a_topology_is_loaded(content: str, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(content)
    with pytest.raises(ConfigError, match="not a topology"):
        Job.load(tmp_path / "other.yaml")


class AtTheTop(CountWords):
    """A class that can be imported by its path."""

    class Within(CountWords):
        """One that cannot."""


def test_a_class_is_known_by_its_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert import_path(CountWords) == "word_count:CountWords"
    module = ModuleType("mine_alone")
    monkeypatch.setitem(sys.modules, "mine_alone", module)
    monkeypatch.setattr(AtTheTop, "__module__", "mine_alone")
    with pytest.raises(ConfigError, match="not at the top of its module"):
        import_path(AtTheTop)
    module.AtTheTop = AtTheTop  # type: ignore[attr-defined]
    assert import_path(AtTheTop) == "mine_alone:AtTheTop"


def test_a_class_that_workers_cannot_import_is_refused() -> None:
    class Local(CountWords):
        pass

    for operator in (Local, AtTheTop.Within):
        with pytest.raises(ConfigError, match="not at the top of its module"):
            import_path(operator)


def test_a_class_of_the_script_is_named_by_it(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AtTheTop, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "AtTheTop", AtTheTop, raising=False)
    job = Job("words", input=text, micro_batch=2, scheme=none())
    job.stage("split", SplitWords).to(job.stage("count", AtTheTop), "full")
    assert job.check().stages["count"].operator == "__main__:AtTheTop"


def test_a_job_that_was_not_run_has_no_picture(text: Path) -> None:
    with pytest.raises(ConfigError, match="has not been run yet"):
        words(text).plot()


@pytest.mark.parametrize("before", [None, "a"])
def test_workers_find_what_lies_beside_the_script(
    before: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONPATH", before)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "script.py"), raising=False)
    path = _workers_environment()["PYTHONPATH"]
    assert path.split(os.pathsep) == [*([before] if before else []), str(tmp_path)]
    assert os.environ.get("PYTHONPATH") == before


LOOPS = """\
job: loops
input: {{path: {path}}}
micro_batch: 2
stages:
  read: {{operator: "read_edges:ReadEdges"}}
  bulk:
    operator: "iterate:Iterate"
    parallelism: 2
    options: {{step: "{own}:lower", first: "{own}:first", until: "{own}:nothing_changed", columns: 3}}
  delta:
    operator: "delta_iterate:DeltaIterate"
    options: {{step: "{own}:lower_of_changed", solution: "{own}:first", workset: "{own}:told"}}
  class: {{operator: "{own}:Halving", options: {{supersteps: 7}}}}
edges:
  - {{from: bulk, to: bulk, loop: true}}
  - {{from: delta, to: delta, loop: true}}
  - {{from: class, to: class, loop: true}}
  - {{from: class, to: bulk, loop: true}}
  - {{from: read, to: bulk, partitioning: full}}
  - {{from: bulk, to: delta, partitioning: full}}
  - {{from: delta, to: class, partitioning: full}}
fault_tolerance: {{scheme: none}}
"""


def test_loops_of_functions_and_classes_are_the_topology_of_the_file(text: Path, tmp_path: Path) -> None:
    own = test_keyed_loops
    job = Job("loops", input=text, micro_batch=2, scheme=none())
    read = job.stage("read", ReadEdges)
    bulk = job.iterate("bulk", own.lower, first=own.first, until=own.nothing_changed, columns=3, parallelism=2)
    delta = job.delta_iterate("delta", own.lower_of_changed, solution=own.first, workset=f"{own.__name__}:told")
    halving = job.iterate("class", own.Halving, supersteps=7)
    assert halving.loop(bulk) is halving
    read.to(bulk, "full").to(delta, "full").to(halving, "full")
    (tmp_path / "hand.yaml").write_text(LOOPS.format(path=text, own=own.__name__))
    assert job.check().to_dict() == check_job(str(tmp_path / "hand.yaml"), ()).topology.to_dict()


def test_a_loop_that_lacks_a_function_or_has_one_that_workers_cannot_import_is_refused(text: Path) -> None:
    job = Job("loops", input=text, micro_batch=2, scheme=none())
    read = job.stage("read", ReadEdges)
    with pytest.raises(ConfigError, match="Halving is a class, and until is given too"):
        job.iterate("label", test_keyed_loops.Halving, until=test_keyed_loops.nothing_changed)
    with pytest.raises(ConfigError, match=r"workers cannot import .*<lambda>: it is not at the top of its module"):
        job.iterate("label", lambda at: (at.values, None), first=test_keyed_loops.first)
    read.to(job.iterate("label", test_keyed_loops.lower), "full")
    with pytest.raises(ConfigError, match=r"(?s)stages.label.options: Iterate has no first.*my_module:first"):
        job.check()
    assert "__main__" not in job.to_yaml() and Iterate.__name__ in job.to_yaml()


def test_a_loop_whose_output_depends_on_the_order_of_blocks_is_refused_where_none_is_repeated(text: Path) -> None:
    (text.parent / "edges.txt").write_text("0 1\n")
    job = Job("paths", input=text.parent / "edges.txt", micro_batch=2, scheme=upstream_backup())
    job.stage("read", ReadEdges).to(job.stage("paths", "asynchronous_paths:AsynchronousPaths").loop(), "full")
    words = r"(?s)scheme: is upstream_backup, but what stage paths puts out depends on the order"
    words += ".*none, barrier, mini_batch, reactive, stop_the_world"
    with pytest.raises(ConfigError, match=words):
        job.check()
    job._values["fault_tolerance"] = mini_batch()
    assert [edge.loop for edge in job.check().edges] == [True, False]


@pytest.mark.parametrize("cpus", [[], np.arange(0)], ids=["list", "array"])
def test_a_list_of_no_cpus_is_refused_as_in_a_file(cpus: Any) -> None:
    job = Job("words", micro_batch=2, scheme=none())
    job.stage("split", SplitWords, cpus=cpus)
    with pytest.raises(ConfigError, match=r"stages.split.cpus: is \[\]; expected at least 1 of them"):
        job.check()


def test_cpus_may_be_an_array() -> None:
    job = Job("words", micro_batch=2, scheme=none())
    job.stage("split", SplitWords, cpus=np.arange(2))
    assert "cpus:\n    - 0\n    - 1\n" in job.to_yaml()


@pytest.mark.parametrize(
    "sections",
    ["stages: [a]", "edges: {a: b}", "stages: {a: {operator: 'a:B'}}\nedges: a"],
    ids=["list", "map", "text"],
)
def test_a_file_whose_stages_or_edges_are_none_is_not_loaded(tmp_path: Path, sections: str) -> None:
    (tmp_path / "job.yaml").write_text(f"job: words\n{sections}\n")
    with pytest.raises(ConfigError, match=r"job\.yaml: not a topology"):
        Job.load(tmp_path / "job.yaml")


def test_a_list_within_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    job = Job("words", micro_batch=2, scheme=none())
    job.stage("split", SplitWords, option=endless)
    with pytest.raises(ConfigError, match="job words: its values hold themselves"):
        job.to_yaml()


def test_a_number_that_cannot_be_printed_is_refused() -> None:
    with pytest.raises(ConfigError, match="micro_batch: a whole number of more than 4200 digits"):
        Job("words", micro_batch=10**5000, scheme=none()).to_yaml()


def test_every_key_of_a_file_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b\n")
    job = Job(
        "words", micro_batch=2, scheme=mini_batch(), input=tmp_path, limit=1,
        links={"window_epochs": 3}, backup={"servers": 2}, cluster={"restarts_max": 3}, output={"path": "rows"},
        placement={"spread": ["rack"]}, start_from="savepoint",
    )  # fmt: skip
    split = job.stage("split", SplitWords, threads=2, cpus=[0], input=dict(vars(Input())), fault_tolerance="reactive")
    count = job.stage("count", CountWords, fault_tolerance=upstream_backup())
    split.to(count, "full").feed_back(split, consistency="ssp", staleness=1)
    count.loop()
    job.save(tmp_path / "job.yaml")
    said = read_document(tmp_path / "job.yaml").values
    assert set(said) == set(Topology.keys())
    assert {key for stage in said["stages"].values() for key in stage} | {"options"} == set(StageOptions.keys())
    assert {key for edge in said["edges"] for key in edge} == set(EdgeSection.keys())
    assert set(said["stages"]["split"]["input"]) == set(Input.keys())


def test_the_scheme_of_a_stage_is_taken_as_one() -> None:
    job = Job("words", micro_batch=2, scheme=mini_batch(), input="nowhere")
    job.stage("split", SplitWords).to(job.stage("count", CountWords, fault_tolerance="reactiv"), "full")
    with pytest.raises(ConfigError, match=r"stages.count.fault_tolerance.scheme: is 'reactiv'"):
        job.check()


def test_a_loaded_job_sends_the_classes_and_functions_of_the_program_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_the_program() -> None: ...

    monkeypatch.setattr(sys.modules["__main__"], "AtTheTop", AtTheTop, raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "of_the_program", of_the_program, raising=False)
    job = Job("words", micro_batch=2, scheme=none())
    job.stage("split", "__main__:AtTheTop", step="__main__:of_the_program", other="__main__:nothing", text="AtTheTop")
    job.save(tmp_path / "job.yaml")
    sent: dict[str, Any] = {}

    def write(folder: Path, classes: dict[str, Any]) -> Path:
        sent.update(classes)
        raise ConfigError("seen", "nothing is started")

    monkeypatch.setattr(by_value, "write", write)
    with pytest.raises(ConfigError, match="seen"):
        Job.load(tmp_path / "job.yaml").start()
    assert sent == {"AtTheTop": AtTheTop, "of_the_program": of_the_program}
