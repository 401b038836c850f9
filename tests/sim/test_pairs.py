"""What the default suite leaves out of all combinations costs no pair of values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
import test_checkpoints_sim
import test_dataflow_sim
from pairs import each_pair


def pairs_in(combinations: Iterable[tuple[str, ...]]) -> set[tuple[tuple[int, str], ...]]:
    return {pair for one in combinations for pair in itertools.combinations(enumerate(one), 2)}


@pytest.mark.parametrize("module", [test_checkpoints_sim, test_dataflow_sim], ids=lambda module: module.__name__)
def test_each_two_values_that_can_come_together_do(module) -> None:  # type: ignore[no-untyped-def]
    whole = [(*case, fault) for case in module.CASES for fault in module.FAULTS]
    chosen = each_pair(whole)
    assert pairs_in(chosen) == pairs_in(whole) and len(chosen) < len(whole) / 2
