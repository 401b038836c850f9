"""A job begins from a savepoint only where its sources cut their input into the same windows as those that made it, and
what was on its way has where to go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from riprap.backupserver.savepoint import FORMAT, MANIFEST, write_part
from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.engine.run.preflight import check_job

WORDS = """\
job: words
input: {path: text.txt}
micro_batch: 2
stages:
  split: {operator: "word_count:SplitWords"}
  count: {operator: "word_count:CountWords"}
edges:
  - {from: split, to: count, partitioning: full}
fault_tolerance: {scheme: barrier}
"""


@pytest.fixture(autouse=True)
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The savepoint `saved` of the job of `words.yaml`, which reads four lines, two a window."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("a\nb\na\nc\n")
    Path("words.yaml").write_text(WORDS)
    told = check_job("words.yaml", ()).submission("run", 1, ())
    for stage, state in (("split", 0), ("count", 1)):
        write_part(Path("saved"), WorkerId(stage, 0), {"checkpoint": 1, "state": state, "moving": []}, [])
    fields = {"format": FORMAT, "job": "words", "checkpoint": 1, "topology": told}
    Path("saved", MANIFEST).write_text(json.dumps(fields, default=dict) + "\n")


def test_the_same_input_is_read_on() -> None:
    assert check_job("words.yaml", ("start_from=saved", "input.rate=5")).checkpoints_before == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("micro_batch=1", "micro_batch: is 1, and the windows of the savepoint hold 2; expected 2"),
        ("input.limit=3", "reads 4 items in 2 windows, and this one 3 items in 2 windows"),
        ("input.repeat=2", "and this one 8 items in 4 windows"),
        ("input.repeat=forever", "and this one an input without end"),
    ],
)
def test_one_that_is_cut_otherwise_is_refused(change: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_job("words.yaml", ("start_from=saved", change))


def test_what_was_on_its_way_keeps_the_number_of_tasks_at_both_its_ends() -> None:
    """Refused before anything starts, as all that cannot be parted."""
    more = ("start_from=saved", "stages.count.parallelism=3")
    assert check_job("words.yaml", more).topology.stages["count"].parallelism == 3
    moving = [[1, 0], "count", 0]
    write_part(Path("saved"), WorkerId("split", 0), {"checkpoint": 1, "state": 0, "moving": [moving, moving]}, [])
    with pytest.raises(ConfigError, match=r"items from count to split were on their way.* expected 1") as refused:
        check_job("words.yaml", more)
    assert str(refused.value.args[0]).count("on their way") == 1
    assert check_job("words.yaml", more[:1]).checkpoints_before == 1
