"""What is refused of a topology's `output` before anything is started."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from riprap.codec.errors import ConfigError
from riprap.engine.flow.window_files import WindowFiles
from riprap.engine.run.preflight import check_job
from riprap.engine.run.window_output import check_output_is_free
from riprap.operators.text.grep import MergeLines

GREP = """\
job: grep
input: {path: text.txt}
micro_batch: 2
stages:
  find: {operator: "grep:Grep", options: {pattern: a}}
  merge: {operator: "grep:MergeLines", parallelism: TASKS}
edges:
  - {from: find, to: merge, partitioning: split}
fault_tolerance: {scheme: none}
output: OUTPUT
"""
WORDS = """\
job: words
input: {path: text.txt}
micro_batch: 2
stages:
  split: {operator: "word_count:SplitWords"}
  count: {operator: "word_count:CountWords"}
edges:
  - {from: split, to: count, partitioning: full}
fault_tolerance: {scheme: none}
output: OUTPUT
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "text.txt").write_text("a\nb\nca\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def topology(text: str, output: str, tasks: int = 1) -> str:
    path = Path("job.yaml")
    path.write_text(text.replace("OUTPUT", output).replace("TASKS", str(tasks)))
    return str(path)


def test_a_path_is_that_of_the_current_directory(folder: Path) -> None:
    job = check_job(topology(GREP, "{path: out, format: csv}"), ())
    assert job.topology.output is not None and job.topology.output.path == str(folder / "out")
    assert check_job(topology(GREP, "{path: 'out/{window}.{task}.csv', format: csv}", 2), ()).topology.output


@pytest.mark.parametrize(
    ("text", "output", "tasks", "said"),
    [
        (WORDS, "{path: out, format: csv}", 1, "word_count:CountWords writes no rows"),
        (GREP, "{path: 'out/{task}.csv', format: csv}", 1, r"has no \{window\}"),
        (GREP, "{path: 'out/{window}.csv', format: csv}", 2, r"has no \{task\}, and 2 tasks"),
        (GREP, "{path: 'out/{epoch}.csv', format: csv}", 1, r"has \{epoch\}"),
        (GREP, "{path: out, format: xlsx}", 1, "output.format"),
        (GREP, "{format: csv}", 1, "output.path"),
    ],
)
def test_what_cannot_work_is_refused(text: str, output: str, tasks: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        check_job(topology(text, output, tasks), ())
    assert "job.yaml:" in str(refused.value)


def test_the_columns_of_the_input_are_kept_for_its_results(folder: Path) -> None:
    """Of jobs of either kind; `riprap show` finds them when the input has gone."""
    rows = np.arange(20.0).reshape(5, 4)
    rows[:, 3] = [0, 1, 0, 1, 1]
    np.save(folder / "part.npy", rows)
    data = (folder / "part.npy").read_bytes()
    shard = {"file": "part.npy", "rows": 5, "bytes": len(data), "crc32": f"{zlib.crc32(data):08x}"}
    manifest = {"format": "riprap-shards", "version": 1, "dtype": "<f8", "rows": 5, "shards": [shard]}
    columns = {"columns": ["height", "width", "age", "ill"], "label": "ill"}
    (folder / "manifest.json").write_text(json.dumps(manifest | columns))
    configs = Path(__file__).parents[3] / "configs"
    for name in ("logistic_regression_higgs", "convergence_higgs"):
        assert check_job(str(configs / f"{name}.yaml"), [f"input.path={folder}"]).columns == columns
    assert check_job(topology(GREP, "{path: out, format: csv}"), ()).columns == {"columns": [], "label": None}


def test_files_of_a_former_run_are_not_taken_for_those_of_a_new_one(folder: Path) -> None:
    job = check_job(topology(GREP, "{path: 'out[1]', format: jsonl}"), ())
    check_output_is_free(job.topology)
    lines = MergeLines().state.close(1)
    arrays = dict(zip(("bytes", "offsets", "tasks"), lines, strict=True))
    WindowFiles(folder, 0, MergeLines, job.topology.output).write("lines", 1, arrays)
    with pytest.raises(ConfigError, match="is there already"):
        check_output_is_free(job.topology)
