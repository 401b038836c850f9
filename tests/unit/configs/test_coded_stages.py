"""Schemes of single stages: what a coded stage asks of the edges around it, each said with its place and a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.loading import load
from riprap.configs.topology import Topology
from riprap.engine.flow.segment import coded_stages, segments_around
from riprap.engine.run.operator_checks import operator_problems

ROOT = Path(__file__).parents[3]
CODED = ROOT / "configs" / "coded_words.yaml"
STAGED = ROOT / "configs" / "logistic_regression_higgs.yaml"


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A directory that looks like shards to the schema, which opens none."""
    (tmp_path / "manifest.json").write_text("{}")
    return tmp_path


def loaded(file: Path, shards: Path, *sets: str) -> Topology:
    return load(file, [f"input.path={shards}", *sets], [operator_problems])


def test_a_stage_goes_by_its_own_scheme_and_others_by_the_jobs(shards: Path) -> None:
    topology = loaded(CODED, shards)
    assert topology.scheme_of("find")["scheme"] == "erasure" and topology.scheme_of("find")["k"] == 4
    assert topology.scheme_of("count")["scheme"] == topology.scheme == "upstream_backup"
    assert list(coded_stages(topology)) == ["find"]
    again = Topology.from_dict(topology.to_dict())
    assert again == topology and again.to_dict() == topology.to_dict()


def test_k_and_r_follow_from_the_tasks_of_the_stage(shards: Path) -> None:
    topology = loaded(CODED, shards, "stages.find.fault_tolerance={scheme: erasure}", "stages.find.parallelism=8")
    assert [topology.scheme_of("find")[name] for name in "kr"] == [6, 2]


def test_each_worker_of_a_segment_sees_the_same_edges(shards: Path) -> None:
    topology = loaded(CODED, shards)
    seen = {worker: list(segments_around(topology, worker)) for worker in topology.workers()}
    assert not seen[topology.tasks("count")[0]]
    parts = [seen[topology.tasks(stage)[0]][0] for stage in ("read", "find", "split")]
    assert len({(part.link, part.reply, part.layout.data, part.layout.commit) for part in parts}) == 1
    assert [(part.encodes, part.computes, part.decodes) for part in parts] == [
        (True, False, False), (False, True, False), (False, False, True),
    ]  # fmt: skip
    layout = parts[0].layout
    edges = {layout.data, layout.result, layout.feedback, layout.punctuation, layout.commit}
    assert len({edge.index for edge in (*edges, parts[0].link, parts[0].reply)}) == 7


@pytest.mark.parametrize(
    ("sets", "complaint"),
    [
        (["stages.split.parallelism=3"], "stages.split.parallelism: is 3; expected 2, as read has"),
        (["edges.0.partitioning=full"], "edges.0.partitioning: is full; expected stripe, into the coded find"),
        (["stages.find.parallelism=5"], r"stages.find.parallelism: is 5; expected at least k \+ r = 6 tasks"),
        (["stages.find.fault_tolerance.code=stable"], "code: is stable; expected gf256 or xor inside a graph"),
        (["stages.find.fault_tolerance.attachment=eager"], "attachment: is eager; expected lazy inside a graph"),
        (["stages.find.fault_tolerance.code=xor"], "fault_tolerance.r: is 2; expected 1 with the code xor"),
        (["stages.count.fault_tolerance=erasure"], "is erasure, but 1 edges enter and 0 leave; expected a coded stage"),
        (["stages.split.fault_tolerance=erasure"], "is coded, as find is; expected a stage between two coded ones"),
        (["stages.find.fault_tolerance={scheme: replication, copies: 4}"], "is 6; expected a multiple of copies = 4"),
        (["stages.find.fault_tolerance=erasur"], "is 'erasur'; expected one of none, erasure"),
        (["stages.find.fault_tolerance.kk=3"], "there is no stages.find.fault_tolerance.kk; expected one of scheme, "),
        (["stages.find.fault_tolerance={k: 4}"], "stages.find.fault_tolerance.scheme: missing"),
        (["stages.find.operator=word_count:CountWords", "stages.find.options={}"], "keeps a state between blocks"),
    ],
)
def test_what_a_coded_stage_cannot_work_with_is_told(shards: Path, sets: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        loaded(CODED, shards, *sets)


@pytest.mark.parametrize("scheme", ["none", "erasure"])
def test_jobs_that_train_have_one_scheme(shards: Path, scheme: str) -> None:
    with pytest.raises(ConfigError, match=r"stages.processor.fault_tolerance: is given, but "):
        loaded(STAGED, shards, "stages.processor.fault_tolerance=none", f"fault_tolerance={scheme}")


def test_a_sink_without_snapshot_is_refused_by_schemes_that_save(
    shards: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "bare_sink.py").write_text(
        "from riprap.operators.base import Sink\nclass Bare(Sink):\n    def commit(self, epoch):\n        return []\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    sets = ["stages.sink={operator: 'bare_sink:Bare'}", "fault_tolerance=mini_batch"]
    with pytest.raises(ConfigError, match="defines no snapshot and restore, without which mini_batch cannot protect"):
        loaded(STAGED, shards, *sets)
