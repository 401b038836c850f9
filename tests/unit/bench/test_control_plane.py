"""The control plane's bytes grow as the workers do, on one host and on as many hosts as workers."""

from __future__ import annotations

from typing import Any

import pytest

from bench.control_plane import measure, per_worker


@pytest.fixture(scope="module", params=["one host", "a host each"])
def few_and_many(request: pytest.FixtureRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    few, many = (measure(n, 1 if request.param == "one host" else n) for n in (40, 160))
    return few, many


@pytest.mark.parametrize("phase", ["start-up", "second", "death"])
def test_bytes_of_a_worker_do_not_depend_on_how_many_there_are(
    few_and_many: tuple[dict[str, Any], dict[str, Any]], phase: str
) -> None:
    few, many = few_and_many
    assert per_worker(many, phase) < 1.1 * per_worker(few, phase)
