"""What a task knows of its topology: the workers around it and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from codec.ids import WorkerId


class Edge(NamedTuple):
    """Stage to stage; `index` travels in headers, `name` stands in statistics and logs."""

    index: int
    name: str


@dataclass(frozen=True)
class Layout:
    """The three-stage form: sources, processors, sinks; source i is paired with sink i (LEC III-A).

    Beside the edges that the user draws, each pair has a coordination edge in both directions: `punctuation` tells the
    sink what an epoch held, `commit` tells the source which epoch is safe. `feedback` is None when the sinks send none.
    """

    me: WorkerId
    sources: tuple[WorkerId, ...]
    processors: tuple[WorkerId, ...]
    sinks: tuple[WorkerId, ...]
    data: Edge = Edge(0, "source->processor")
    result: Edge = Edge(1, "processor->sink")
    feedback: Edge | None = Edge(2, "sink->processor")
    punctuation: Edge = Edge(3, "source->sink")
    commit: Edge = Edge(4, "sink->source")

    @property
    def partner(self) -> WorkerId:
        """The sink of this source, or the source of this sink."""
        return (self.sinks if self.me in self.sources else self.sources)[self.me.index]

    def receivers(self) -> list[WorkerId]:
        """All workers that this one sends to, by any edge."""
        if self.me in self.sources:
            return [*self.processors, self.partner]
        if self.me in self.sinks:
            return [*(self.processors if self.feedback else ()), self.partner]
        return list(self.sinks)
