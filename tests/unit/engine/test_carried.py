"""The items of each link, from the workers' files to rates.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dataflow_parts import chain, layout_of, topology

from riprap.configs.topology import Topology
from riprap.engine.flow.progress import At, Heard, TaskProgress
from riprap.engine.plan.rates_file import read_rates
from riprap.engine.run_directory.rates import RATES, gather_rates
from riprap.engine.worker.carried_file import CARRIED, write_carried


def leave(run_dir: Path, made: Topology, me: str, *done: tuple[int, int, int]) -> None:
    """The file of one worker, whose links (edge, sender) have carried so many items."""
    layout = layout_of(made, me)
    progress = TaskProgress(done={(edge, sender): Heard(At(9, items)) for edge, sender, items in done})
    write_carried(run_dir, layout.me, layout.inputs, progress)


def gathered(run_dir: Path, made: Topology) -> Any:
    gather_rates(run_dir, made)
    return json.loads((run_dir / RATES).read_text())


def test_rows_are_senders_columns_receivers_and_the_planner_reads_them(tmp_path: Path) -> None:
    made = chain(("read", 2), ("count", 3), ("total", 1))
    leave(tmp_path, made, "read.0")
    for index in range(3):
        leave(tmp_path, made, f"count.{index}", (0, 0, 10 + index), (0, 1, 20 + index))
    leave(tmp_path, made, "total.0", (1, 0, 1), (1, 2, 3))
    found = gathered(tmp_path, made)
    assert found == {"links": {"read->count": [[10, 11, 12], [20, 21, 22]], "count->total": [[1], [0], [3]]}}
    assert read_rates(str(tmp_path / RATES), made.shape).rates.links == found["links"]
    assert not (tmp_path / CARRIED).exists()


def test_a_copy_is_not_counted_twice(tmp_path: Path) -> None:
    made = chain(("read", 1), ("count", 1), ("total", 1), scheme="partially_active", replicate=["count"])
    leave(tmp_path, made, "count.0", (0, 0, 7))
    leave(tmp_path, made, "count.0~1", (0, 0, 7))
    leave(tmp_path, made, "total.0", (1, 0, 5))
    assert [path.name for path in sorted((tmp_path / CARRIED).iterdir())] == ["count.0.json", "total.0.json"]
    assert gathered(tmp_path, made)["links"] == {"read->count": [[7]], "count->total": [[5]]}


def test_feedback_and_the_input_are_no_links(tmp_path: Path) -> None:
    back = [{"from": "a", "to": "b"}, {"from": "b", "to": "a", "feedback": True}]
    made = topology({"a": 1, "b": 1}, back)
    leave(tmp_path, made, "a.0", (1, 0, 4), (2**31, 0, 99))
    leave(tmp_path, made, "b.0", (0, 0, 6))
    assert json.loads((tmp_path / CARRIED / "a.0.json").read_text()) == {"links": []}
    assert gathered(tmp_path, made)["links"] == {"a->b": [[6]]}


@pytest.mark.parametrize(
    "content", ["", '{"links": [[0, 0', "[]", "7", '{"links": [[0]]}', '{"links": [[0, 9, 1]]}', '{"links": []}', None]
)
def test_an_edge_of_which_a_task_has_told_nothing_whole_is_left_out(tmp_path: Path, content: str | None) -> None:
    made = chain(("read", 1), ("count", 2), ("total", 1))
    leave(tmp_path, made, "count.0", (0, 0, 7))
    leave(tmp_path, made, "total.0", (1, 0, 5), (1, 1, 6))
    if content is not None:
        (tmp_path / CARRIED / "count.1.json").write_text(content)
    assert gathered(tmp_path, made)["links"] == {"count->total": [[5], [6]]}


def test_where_nobody_told_anything_the_rates_of_an_earlier_attempt_stay(tmp_path: Path) -> None:
    made = chain(("read", 1), ("total", 1))
    gather_rates(tmp_path, made)
    assert not (tmp_path / RATES).exists()
    leave(tmp_path, made, "total.0", (0, 0, 5))
    assert gathered(tmp_path, made) == gathered(tmp_path, made)


def test_no_room_for_the_file_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / CARRIED).write_text("in the way")
    leave(tmp_path, chain(("read", 1), ("total", 1)), "total.0", (0, 0, 5))
    assert (tmp_path / CARRIED).read_text() == "in the way"


def test_a_coded_stage_tells_no_items_of_its_links(tmp_path: Path) -> None:
    made = topology(
        {"read": 1, "work": 3, "total": 1},
        [{"from": "read", "to": "work", "partitioning": "stripe"}, {"from": "work", "to": "total"}],
    ).to_dict()
    made["stages"]["work"]["fault_tolerance"] = {"scheme": "erasure", "code": "xor", "k": 2, "r": 1}
    coded = Topology.from_dict(made)
    for me in ("read.0", "work.0", "work.1", "work.2", "total.0"):
        leave(tmp_path, coded, me)
    gather_rates(tmp_path, coded)
    assert not (tmp_path / RATES).exists()
