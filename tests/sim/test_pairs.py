"""What the default suite leaves out of all combinations costs no pair of values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
import test_checkpoints_sim
import test_dataflow_sim
from pairs import each_of


def parts_in(combinations: Iterable[tuple[str, ...]], together: int) -> set[tuple[tuple[int, str], ...]]:
    return {part for one in combinations for part in itertools.combinations(enumerate(one), together)}


@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("module", [test_checkpoints_sim, test_dataflow_sim], ids=lambda module: module.__name__)
def test_each_value_and_each_two_that_can_come_together_do(module, together: int) -> None:  # type: ignore[no-untyped-def]
    whole = [(*case, fault) for case in module.CASES for fault in module.FAULTS]
    chosen = each_of(whole, together)
    assert parts_in(chosen, together) == parts_in(whole, together) and len(chosen) < len(whole) / 2
