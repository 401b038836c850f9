"""General topologies under random kills, hangs, lost connections, delays and refusals of the store.

`RIPRAP_SIM_SEEDS` sets how many seeds each case gets. A failure prints its seed and the command that replays it.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from dataflow_jobs import SHAPES
from dataflow_simulator import DataflowCase, DataflowSimulation

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "3"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))

EXACT = {
    "mini_batch": {"scheme": "mini_batch"},
    "upstream_backup": {"scheme": "upstream_backup", "memory_bytes": 1 << 16},
}
THETA, L, GAMMA, ALPHA = 60.0, 16.0, 12.0, 3.0
APPROXIMATE = {
    "scheme": "approximate", "theta": THETA, "l": L, "gamma": GAMMA, "beta": 1.0, "window": "none", "window_epochs": 1,
}  # fmt: skip
FAULTS = {
    "one": {"kills": 1},
    "two-at-once": {"kills": 2, "kill_at_once": 2},
    "everybody": {"kills": 2, "kill_at_once": 99},
    "many": {"kills": 9, "restart_s": 0.01},
    "cuts": {"cuts": 4, "hangs": 2, "kills": 2},
}


def run(case: DataflowCase, seed: int, replay: str) -> DataflowSimulation:
    """One simulation; a failure names what replays it."""
    simulation = DataflowSimulation(replace(case, log=[]), seed)
    try:
        simulation.run()
    except Exception as error:
        tail = "\n".join(simulation.case.log[-30:])
        command = f"RIPRAP_SIM_FIRST={seed} RIPRAP_SIM_SEEDS=1 pytest tests/sim/test_dataflow_sim.py -k '{replay}'"
        raise AssertionError(f"seed {seed}: {error!r}\n{tail}\n{command}") from error
    for sink, announced in simulation.announced.items():
        assert [window for window, _ in announced] == list(range(1, case.windows + 1)), f"seed {seed}: {sink}"
    return simulation


def errors(simulation: DataflowSimulation) -> np.ndarray:
    """By how much the total of each key is off."""
    return simulation.totals() - simulation.truth_of_keys()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scheme", [{"scheme": "none"}, *EXACT.values(), APPROXIMATE], ids=lambda s: s["scheme"])
def test_undisturbed_every_scheme_is_exact(scheme: dict[str, object], shape: str) -> None:
    simulation = run(DataflowCase(scheme, shape), FIRST, shape)
    assert not errors(simulation).any()
    assert sum(items for ends in simulation.announced.values() for _, items in ends) == simulation.items
    assert not any(node.task.lost for node in simulation.nodes.values())


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scheme", EXACT)
def test_each_item_is_counted_once_whoever_dies(scheme: str, shape: str, fault: str) -> None:
    case = DataflowCase(EXACT[scheme], shape, **FAULTS[fault])
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = run(case, seed, f"{scheme}-{shape}-{fault}")
        assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"
        counted = sum(items for ends in simulation.announced.values() for _, items in ends)
        assert counted == simulation.items, f"seed {seed}: the windows hold {counted} items"
