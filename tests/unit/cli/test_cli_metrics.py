"""How the metrics of several destinations become the job's."""

from __future__ import annotations

from typing import Any

from riprap.engine.run.metrics import combine
from riprap.engine.run.summary import newest_of


def task(items: int, combines: dict[str, str], **metrics: float | None) -> dict[str, Any]:
    return {"items": items, "combines": combines, "metrics": metrics}


def test_each_metric_is_combined_as_its_operator_says() -> None:
    ways = {"words": "sum", "loss": "mean"}
    tasks = {
        "count.0": task(10, ways, words=3.0, loss=1.0, spread=0.5),
        "count.1": task(30, ways, words=4.0, loss=2.0, spread=0.7),
    }
    expected = {"words": 7.0, "loss": 1.75, "count.0.spread": 0.5, "count.1.spread": 0.7}
    assert combine(tasks) == expected


def test_what_is_not_finite_at_one_task_is_not_finite() -> None:
    ways = {"loss": "mean"}
    assert combine({"a.0": task(1, ways, loss=None), "a.1": task(1, ways, loss=1.0)}) == {"loss": None}
    assert combine({"a.0": task(1, ways, loss=None)}) == {"loss": None}


def test_a_task_that_has_just_begun_anew_counts_as_it_was_told_last() -> None:
    """Or else the sum over the others would be told as that of all."""
    ways = {"words": "sum"}
    first, second, third = (task(10, ways, words=words) for words in (3.0, 5.0, 4.0))
    assert combine(newest_of({"count.0": [first, second, {}], "count.1": [third]})) == {"words": 9.0}
    assert combine(newest_of({"count.0": [first, second], "count.1": [third]})) == {"words": 9.0}
    assert combine(newest_of({"count.0": [{}], "count.1": [third]})) == {"words": 4.0}


def test_a_task_with_a_replica_counts_once_whoever_writes() -> None:
    ways = {"words": "sum"}
    old, new, other = (task(10, ways, words=words) for words in (3.0, 5.0, 4.0))
    assert combine(newest_of({"count.0": [old, {}], "count.0~1": [new], "count.1": [other]})) == {"words": 9.0}
    both_began_anew = {"count.0": [old, {}], "count.0~1": [old, {}], "count.1": [other]}
    assert combine(newest_of(both_began_anew)) == {"words": 7.0}
