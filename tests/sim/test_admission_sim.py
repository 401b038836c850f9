"""No honest message is refused: what `admits` turns away must never come from a peer that keeps to the protocol.

Every message of simulated jobs under faults is asked for twice: when it arrives, and once more when the job is over
(a replay may be late by any time).
"""

from __future__ import annotations

import pytest
import simulator
from staged_jobs import Case, StagedSimulation

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import WorkerId
from riprap.engine.flow.edges import Edge

SCHEMES = {
    "none": {"scheme": "none"},
    "lazy": {"scheme": "erasure", "code": "gf256", "k": 4, "r": 2, "hedge": 20, "attachment": "lazy"},
    "eager": {"scheme": "erasure", "code": "gf256", "k": 4, "r": 2, "hedge": 20, "attachment": "eager"},
    "replication": {"scheme": "replication", "copies": 2},
}
FAULTS = {
    "kills": {"kills": 4, "kill_at_once": 3},
    "all-of-it": {"kills": 2, "hangs": 2, "cuts": 4, "pairs": 2},
    "tiny-epochs": {"kills": 3, "cuts": 2, "micro_batch": 3, "items": 150},
    "any-role": {"kills": 5, "faulty": ("source", "sink", "processor"), "pairs": 2},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_honest_messages_are_admitted(scheme: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[simulator.Node, Block]] = []
    arrive = simulator.Node.arrive

    def asking(node: simulator.Node, edge: Edge, sender: WorkerId, life: int, seq: int, block: Block) -> None:
        if block.kind != Kind.HELLO:
            assert node.task.admits(block), f"{node.me} refused {block.kind.name} of epoch {block.epoch}"
            seen.append((node, block))
        arrive(node, edge, sender, life, seq, block)

    monkeypatch.setattr(simulator.Node, "arrive", asking)
    for seed in range(3):
        seen.clear()
        simulation = StagedSimulation(Case(SCHEMES[scheme], **FAULTS[fault]), seed)
        simulation.run()
        assert len(seen) > 300
        for node, block in seen:
            assert node.task.admits(block), f"seed {seed}: {node.me} refused {block.kind.name} {block.key} when late"
        assert not any(node.links.overruns for node in simulation.nodes.values()), f"seed {seed}"
