"""The bench of one task and of all at once: when it kills, that its jobs are sound, and what its tasks keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.correlated import ALL, SETTINGS, Job, Setting, cases, killed_at_s, write_lines
from bench.window_merge import DIGITS, LastWindows, Numbers, WindowMerge
from riprap.configs.loading import load
from riprap.operators.dataflow import Items


class Sent:
    """What an operator sends."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def send(self, arrays: tuple[np.ndarray, ...], count: int) -> None:
        assert count == len(arrays[0])
        self.arrays.append(arrays[0])


@pytest.mark.parametrize(
    ("window_s", "interval_s", "at_s"), [(10, 0, 13), (10, 5, 17.5), (10, 30, 15), (30, 15, 37.5), (30, 30, 45)]
)
def test_the_kill_comes_between_two_checkpoints_when_windows_are_full(
    window_s: int, interval_s: int, at_s: float
) -> None:
    assert killed_at_s(Setting(window_s, 1000), interval_s) == at_s


def test_its_jobs_are_sound(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    write_lines(lines)
    for setting in SETTINGS:
        for case in cases(setting):
            text, window = Job(setting, case, ALL).text(lines)
            (tmp_path / "job.yaml").write_text(text)
            topology = load(tmp_path / "job.yaml")
            assert len(topology.tasks("first")) == 8 and window * topology.micro_batch < (topology.input.limit or 0)


def test_a_merge_keeps_the_last_windows_and_hands_half_of_the_tuples_on(tmp_path: Path) -> None:
    write_lines(tmp_path / "lines.txt")
    text = (tmp_path / "lines.txt").read_text().split()[:100]
    given, sent = Sent(), Sent()
    digits = np.frombuffer("".join(text).encode(), np.uint8).reshape(100, DIGITS)
    Numbers().process_data(Items(1, "", 0, 100, (digits,)), 0, given)  # type: ignore[arg-type]
    assert given.arrays[0].tolist() == [int(line, 16) for line in text]
    merge = WindowMerge(windows=2)
    for part in np.split(given.arrays[0], 4):
        merge.process_data(Items(1, "numbers", 0, 25, (part,)), 0, sent)  # type: ignore[arg-type]
        merge.process_punctuation(1, sent)  # type: ignore[arg-type]
    assert np.concatenate(sent.arrays).tolist() == [int(line, 16) // 2 for line in text if int(line, 16) % 2 == 0]
    assert [len(one) for one in merge.state.windows] == [25, 0]
    again = LastWindows(2)
    again.recover_state(merge.state.backup_state())
    assert [one.tolist() for one in again.windows] == [one.tolist() for one in merge.state.windows]
