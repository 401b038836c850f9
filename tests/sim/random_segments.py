"""Random graphs with up to three coded stages, whose codes, numbers of tasks and hedges are drawn too."""

from __future__ import annotations

from typing import Any

from random_graphs import Drawn

JOBS = ("mini_batch", "reactive", "upstream_backup", "approximate", "none")
"""Schemes of jobs that may have coded stages, as random_graphs.py names them."""
SEGMENTS_MAX = 3


class DrawnSegments(Drawn):
    """A graph in which stages may be joined by coded ones, one behind another among them."""

    segments = 0

    def _code(self) -> None:
        """They are drawn once the graph is."""

    def _draw(self) -> None:
        super()._draw()
        for edge in [edge for edge in self.edges if "mode" in edge]:
            alike = self.stages[edge["from"]]["parallelism"] == self.stages[edge["to"]]["parallelism"]
            circulates = self.stages[edge["from"]]["operator"].endswith("Circulate")
            if self.segments < SEGMENTS_MAX and alike and not circulates and self.rng.random() < 0.75:
                self._join(edge, f"f{self.segments}")
                self.segments += 1

    def _join(self, edge: dict[str, Any], name: str) -> None:
        """Put a coded stage on an edge."""
        one, to = edge["from"], edge["to"]
        tasks, own = self._scheme()
        self.stages[name] = {
            "operator": "random_operators:Turned", "parallelism": tasks, "options": {}, "fault_tolerance": own,
        }  # fmt: skip
        options = self.stages[one]["options"]
        outs = options["outs"].split(",")
        options["outs"] = ",".join(f"{name}:deal:{tasks}" if out.split(":")[0] == to else out for out in outs)
        self.edges.remove(edge)
        self.edges += [
            {"from": before, "to": behind, "partitioning": "stripe", "mode": "deal"}
            for before, behind in ((one, name), (name, to))
        ]

    def _scheme(self) -> tuple[int, dict[str, Any]]:
        """So many tasks, and their scheme."""
        rng = self.rng
        if rng.random() < 0.3:
            copies = rng.choice([2, 2, 3])
            return copies * rng.randint(1, 3), {"scheme": "replication", "copies": copies}
        code = rng.choice(["gf256", "gf256", "xor"])
        k, r = rng.randint(1, 5), rng.choice([0, 1, 1] if code == "xor" else [0, 1, 2, 3])
        own = {
            "scheme": "erasure", "code": code, "k": k, "r": r, "hedge": rng.choice(["none", "cost", 1, 20]),
            "incremental": rng.random() < 0.7, "rows": rng.choice([1, 1, 3]),
        }  # fmt: skip
        return k + r + rng.choice([0, 0, 1, 3]), own
