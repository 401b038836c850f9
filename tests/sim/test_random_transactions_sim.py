"""Random graphs whose destinations are transactional: whoever dies, each row can be read outside exactly once.

`RIPRAP_SIM_SEEDS` sets how many seeds each scheme gets, `RIPRAP_SIM_FIRST` the first of them.
"""

from __future__ import annotations

import os

import pytest
from random_graphs import is_as_the_model_says
from random_transactions import Transacted, TransactedDrawn, TransactedGraph

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "1"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))

SCHEMES = ("aligned", "local", "unaligned", "timeout", "stop_the_world", "optimistic")
"""Those with checkpoints that say each thing once."""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_row_is_committed_once(scheme: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        is_as_the_model_says(TransactedGraph, TransactedDrawn(seed, (scheme,)), __file__, scheme)


def test_output_that_is_visible_before_its_checkpoint_is_whole_is_seen_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    prepare = Transacted.pre_commit

    def at_once(operator: Transacted, checkpoint: int) -> str | None:
        name = prepare(operator, checkpoint)
        if name is not None:
            operator.commit(name)
        return name

    monkeypatch.setattr(Transacted, "pre_commit", at_once)
    with pytest.raises(AssertionError, match="off by"):
        for seed in range(30):
            is_as_the_model_says(TransactedGraph, TransactedDrawn(seed, ("aligned",)), __file__, "aligned")
