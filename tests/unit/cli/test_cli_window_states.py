"""Thresholds of a window are refused where a state does not forget: errors would add up in it beyond Theta."""

from __future__ import annotations

from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.engine.run.preflight import check_job

TOPOLOGY = """\
job: words
input: {path: text.txt}
micro_batch: 10
stages:
  split: {operator: "word_count:SplitWords"}
  count: {operator: "word_count:COUNT"}
edges:
  - {from: split, to: count, partitioning: full}
fault_tolerance: {scheme: approximate, WINDOW}
"""
RECENT = 'CountRecentWords", options: {window: %s, window_epochs: 2}}'


def check(folder: Path, count: str, window: str) -> None:
    (folder / "text.txt").write_text("a word\n" * 40)
    text = TOPOLOGY.replace('COUNT"}', count if "{" in count else count + '"}').replace("WINDOW", window)
    (folder / "job.yaml").write_text(text)
    check_job(str(folder / "job.yaml"), [f"input.path={folder / 'text.txt'}"])


@pytest.mark.parametrize("window", ["hopping", "sliding", "decaying"])
def test_a_state_that_does_not_forget_is_refused_with_those_that_do(tmp_path: Path, window: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check(tmp_path, "CountWords", f"window: {window}")
    said = str(raised.value)
    assert f"is {window}, window_epochs 1, but HashMap of stage count forgets by: none" in said
    assert "hopping: Windowed" in said and "decaying: Decaying" in said


@pytest.mark.parametrize(
    ("state", "window"),
    [
        ("hopping", "window: hopping, window_epochs: 3"),
        ("hopping", "window: decaying"),
        ("sliding", "window: hopping, window_epochs: 2"),
        ("sliding", "window: sliding, window_epochs: 1"),
        ("decaying", "window: sliding, window_epochs: 2"),
    ],
)
def test_windows_must_agree(tmp_path: Path, state: str, window: str) -> None:
    with pytest.raises(ConfigError, match="forgets by"):
        check(tmp_path, RECENT % state, window)


@pytest.mark.parametrize(
    ("state", "window"),
    [
        ("hopping", "window: hopping, window_epochs: 4"),
        ("hopping", "window: sliding, window_epochs: 2"),
        ("sliding", "window: sliding, window_epochs: 3"),
        ("decaying", "window: decaying"),
        ("decaying", "window: none"),
    ],
)
def test_windows_that_agree_are_taken(tmp_path: Path, state: str, window: str) -> None:
    check(tmp_path, RECENT % state, window)
