"""Under exact schemes too an operator is told that its state was restored, so that what follows from it can follow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dataflow_parts import DataflowPort, chain, layout_of

from riprap.engine.flow.progress import TaskProgress
from riprap.engine.schemes.registry import SCHEMES


@pytest.mark.parametrize("scheme", ["mini_batch", "upstream_backup"])
def test_an_operator_is_told_that_nothing_is_lacking(scheme: str) -> None:
    told: list[tuple[float, int]] = []
    operator = SimpleNamespace(state=None, recovered=lambda theta, items: told.append((theta, items)))
    outlet = SimpleNamespace(put_back=list, put_back_logged=list, mute_put_out=list)
    layout = layout_of(chain(("a", 1), ("b", 1)), "b.0")
    parts = {"layout": layout, "port": DataflowPort(layout), "progress": TaskProgress(), "items": 1000}
    bench: Any = SimpleNamespace(operator=operator, outlet=outlet, **parts)
    SCHEMES[scheme](bench, {"memory_bytes": 1}).restore(None, [])
    assert told == [(0.0, 0)]
