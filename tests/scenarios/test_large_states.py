"""A state of 19 MB, with real processes: who starts again saves slices and changes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shared_cluster import SharedCluster

from riprap.engine.schemes.parts.copies import LARGE_BYTES

KEYS, ITEMS = 1_200_000, 500_000
WHOLE_BYTES = 16 * KEYS
MIX = 7_919
MODULE = f"""\
import numpy as np

import riprap
from riprap.operators.states import HashMap


class Beats(riprap.DataflowOperator):
    def process_data(self, items, first, out):
        out.send((np.zeros(items.count, np.int8),), items.count)
        return items.count


class Keep(riprap.DataflowOperator):
    '''Adds the number of each item to a key that follows from it.'''

    def __init__(self):
        self.state = HashMap(values="int64")

    def process_data(self, items, first, out):
        if not len(self.state):
            self.state.add(np.arange(-1, {KEYS}), np.zeros({KEYS} + 1, np.int64))
        (before,) = self.state.get(np.array([-1])).tolist()
        numbers = np.arange(before, before + items.count - first)
        self.state.add(numbers * {MIX} % {KEYS}, numbers)
        self.state.add(np.array([-1]), np.array([len(numbers)]))
        return items.count

    def results(self):
        keys, values = self.state.items()
        return {{"values": values[np.argsort(keys)]}}
"""
JOB = f"""\
job: large
input: {{path: beats.txt, rate: 100000, repeat: 5, limit: {ITEMS}}}
micro_batch: 2000
stages:
  read: {{operator: "large:Beats", parallelism: 1}}
  keep: {{operator: "large:Keep", parallelism: 1}}
edges:
  - {{from: read, to: keep, partitioning: full}}
"""
SCHEMES = {
    "partially_active": "{scheme: partially_active, checkpoint_s: 0.02}",
    "mini_batch": "{scheme: mini_batch}",
    "upstream_backup": "{scheme: upstream_backup}",
}
FAULTS = ("kill:keep.0@30%", "kill:keep.0@70%", "kill:keep.0@90%")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_large_state_is_copied_whole_once_however_often_its_task_dies(
    scheme: str, cluster: SharedCluster, tmp_path: Path
) -> None:
    for folder in (tmp_path, cluster.directory):
        (folder / "large.py").write_text(MODULE)
    (tmp_path / "beats.txt").write_text("x\n" * (ITEMS // 5))
    (tmp_path / "job.yaml").write_text(f"{JOB}fault_tolerance: {SCHEMES[scheme]}\n")
    specs = [word for fault in FAULTS for word in ("--fault", fault)]
    summary = cluster.job(tmp_path / "job.yaml", tmp_path / "out", *specs)
    assert len(summary["failures"]) == 3 and summary["items"] == ITEMS
    expected, numbers = np.zeros(KEYS, np.int64), np.arange(ITEMS)
    np.add.at(expected, numbers * MIX % KEYS, numbers)
    with np.load(tmp_path / "out" / "model.npz") as found:
        assert found["values"].tolist() == [ITEMS, *expected.tolist()]
    saved = summary["backups"]
    assert WHOLE_BYTES > LARGE_BYTES and saved["state_backups"] > 100
    assert saved["state_backup_bytes"] < 3.5 * WHOLE_BYTES, "once whole, a round of slices or two, and what changed"
