"""Random graphs that are copied at any moment and go on as other jobs, with other numbers of tasks, under other schemes
and faults, come to what the plain model says.

`RIPRAP_SIM_SEEDS` sets how many seeds each scheme gets, `RIPRAP_SIM_FIRST` the first of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from random_chains import MAKERS, chain

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "3"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))


@pytest.mark.parametrize("scheme", MAKERS)
def test_jobs_that_begin_from_savepoints_are_as_the_plain_model_says(scheme: str, tmp_path: Path) -> None:
    ran = [chain(seed, scheme, tmp_path / str(seed), __file__) for seed in range(FIRST, FIRST + SEEDS)]
    assert any(ran) or SEEDS < 3, "all were refused"
