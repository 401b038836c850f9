"""How the metrics of several destinations become the job's."""

from __future__ import annotations

from typing import Any

from riprap.engine.run.metrics import combine


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
