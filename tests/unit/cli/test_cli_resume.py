"""A job that is resumed is the one that was begun: what it has saved fits no other tasks, schemes or windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.engine.run.start import start_again, start_anew
from riprap.engine.run_directory.attempts import Attempts
from riprap.engine.run_directory.directory import TOPOLOGY

WORDS = """\
job: words
input: {path: text.txt}
micro_batch: 2
stages:
  split: {operator: "word_count:SplitWords", parallelism: 2}
  count: {operator: "word_count:CountWords", parallelism: 5}
edges:
  - {from: split, to: count, partitioning: full}
fault_tolerance: {scheme: mini_batch}
"""


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run directory of a job that was begun and has ended."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("a\nb\na\nc\n")
    Path("words.yaml").write_text(WORDS)
    start_anew("words.yaml", (), (), None, "out").lock.close()
    return tmp_path / "out"


def swap(before: str, after: str) -> Callable[[Path], None]:
    def change(run_dir: Path) -> None:
        text = (run_dir / TOPOLOGY).read_text()
        assert before in text
        (run_dir / TOPOLOGY).write_text(text.replace(before, after))

    return change


def grow(run_dir: Path) -> None:
    (run_dir.parent / "text.txt").write_text("a\nb\na\nc\nd\n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (swap("parallelism: 5", "parallelism: 3"), "stages"),
        (swap("scheme: mini_batch", "scheme: upstream_backup"), "stages"),
        (swap("micro_batch: 2", "micro_batch: 4"), "micro_batch"),
        (grow, "items"),
    ],
    ids=["tasks", "scheme", "windows", "input"],
)
def test_a_job_that_is_another_now_is_not_resumed(begun: Path, change: Callable[[Path], None], said: str) -> None:
    change(begun)
    with pytest.raises(ConfigError, match=f"another job than the one that was begun there.*{said}"):
        start_again(begun, (), None)
    with Attempts(begun) as attempts:
        assert attempts.begin().number == 2, "no attempt was counted"


def test_what_its_states_do_not_rest_on_may_be_corrected(begun: Path) -> None:
    swap("stall_timeout_s: ", "stall_timeout_s: 1")(begun)
    start = start_again(begun, (), None)
    start.lock.close()
    assert start.attempt.number == 2
