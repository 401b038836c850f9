"""Random graphs that are copied at any moment and go on as other jobs, with other numbers of tasks, under other schemes
and faults, come to what the plain model says.

`RIPRAP_SIM_SEEDS` sets how many seeds each scheme gets, `RIPRAP_SIM_FIRST` the first of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from random_chains import MAKERS, chain

from riprap.engine.flow.beginning import Beginning
from riprap.engine.flow.task import Task
from riprap.operators.panes.pane_state import NO_TIME, PaneState

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "3"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))


@pytest.mark.parametrize("scheme", MAKERS)
def test_jobs_that_begin_from_savepoints_are_as_the_plain_model_says(scheme: str, tmp_path: Path) -> None:
    ran = [chain(seed, scheme, tmp_path / str(seed), __file__) for seed in range(FIRST, FIRST + SEEDS)]
    assert any(ran) or SEEDS < 3, "all were refused"


@pytest.mark.parametrize("scheme", [name for name in MAKERS if name != "optimistic"])
def test_event_time_goes_on_from_a_savepoint(scheme: str, tmp_path: Path) -> None:
    """Panes, late rows and what was promised are those of one job. (`optimistic` is for loops, which have no time.)"""
    for seed in range(FIRST, FIRST + -(-SEEDS // 3)):
        chain(seed, scheme, tmp_path / str(seed), __file__, timed=True)


def test_panes_that_forget_the_time_of_the_job_before_show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The control, by a seed of which an item comes late in the second job."""
    begin = Task.begin_from

    def without_time(task: Task, beginning: Beginning) -> None:
        begin(task, beginning)
        if isinstance(task.operator.state, PaneState):
            task.operator.state.time = NO_TIME

    monkeypatch.setattr(Task, "begin_from", without_time)
    with pytest.raises(AssertionError, match="off by"):
        chain(11, "aligned", tmp_path / "11", __file__, timed=True)
