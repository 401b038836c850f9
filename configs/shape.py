"""The shape of a topology: which stages there are, how parallel they are, and which edges join them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal

from riprap.codec.ids import STAGE_NAME
from riprap.configs.declared import Bounds, TopologySection

StageName = Annotated[str, Bounds(pattern=f"^{STAGE_NAME.pattern}$")]


@dataclass(frozen=True)
class EdgeSection(TopologySection):
    """A stream of blocks between two stages."""

    upstream: StageName = field(metadata={"alias": "from"})
    downstream: StageName = field(metadata={"alias": "to"})
    partitioning: Literal["one_to_one", "split", "merge", "full", "stripe"] | None = None
    """The way items are dealt out to tasks; feedback alone can do without saying so."""
    feedback: bool = False
    """Runs back, and may close a cycle."""
    loop: bool = False
    """Is feedback within a window, which stays open until the loop has ended; may lead from a stage to itself."""
    consistency: Literal["bsp", "ssp", "asp"] = "bsp"
    """Lead that the receiver of feedback may have over it: bsp none, ssp by `staleness` windows, asp freely."""
    staleness: Annotated[int, Bounds(ge=0, le=1_000_000)] = 0


@dataclass(frozen=True, kw_only=True)
class StageEdge(EdgeSection):
    """One edge of a topology, at its place."""

    index: int = field(metadata={"alias": None})
    """Its place in the topology's list, counted from 0; no key."""

    @property
    def stale_windows(self) -> float:
        """Windows that the receiver of this feedback may run ahead of it (AF 5); a loop ends within its window."""
        return math.inf if self.loop else {"bsp": 0.0, "asp": math.inf}.get(self.consistency, float(self.staleness))

    @property
    def is_free(self) -> bool:
        """True for feedback that is taken whenever it comes, in no window's place."""
        return self.feedback and not self.loop and self.consistency == "asp"

    @property
    def name(self) -> str:
        """`source->processor`, as statistics and the summary call it."""
        return f"{self.upstream}->{self.downstream}"


def placed(edges: Iterable[EdgeSection]) -> tuple[StageEdge, ...]:
    """All edges of a topology in their places."""
    return tuple(place(edge, index) for index, edge in enumerate(edges))


def place(edge: EdgeSection, index: int) -> StageEdge:
    """That edge, which goes to all tasks where the file does not say otherwise."""
    given = {"partitioning": edge.partitioning or "full", "feedback": edge.feedback or edge.loop}
    return StageEdge(**vars(edge) | given, index=index)


def targets(edge: StageEdge, upstream: int, downstream: int, index: int) -> list[int]:
    """The tasks of the downstream stage that task `index` of the upstream stage sends to.

    one_to_one: its partner; merge: several to one; split: one to several; full: all to all (AF 2.4, PPA II-A); stripe:
    all to all, where each block goes to one of them.
    """
    if edge.partitioning in ("full", "stripe"):
        return list(range(downstream))
    if edge.partitioning == "split":
        return [j for j in range(downstream) if j % upstream == index]
    return [index % downstream]


@dataclass(frozen=True)
class Shape:
    """Stages (name -> parallelism) and edges, with the questions that are asked about them.

    A stage's position follows from the data edges alone (those without `feedback`): a source has none coming in, a
    sink none going out, a processor both.
    """

    parallelism: Mapping[str, int]
    edges: tuple[StageEdge, ...]

    def in_edges(self, stage: str) -> tuple[StageEdge, ...]:
        """All edges that end at `stage`, feedback among them, in the topology's order."""
        return tuple(edge for edge in self.edges if edge.downstream == stage)

    def out_edges(self, stage: str) -> tuple[StageEdge, ...]:
        """All edges that start at `stage`, feedback among them, in the topology's order."""
        return tuple(edge for edge in self.edges if edge.upstream == stage)

    @cached_property
    def data_edges(self) -> tuple[StageEdge, ...]:
        """The edges that carry the stream forward."""
        return tuple(edge for edge in self.edges if not edge.feedback)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Stages that no data edge enters."""
        return tuple(stage for stage in self.parallelism if self._sides(stage) == (False, True))

    @cached_property
    def processors(self) -> tuple[str, ...]:
        """Stages between others."""
        return tuple(stage for stage in self.parallelism if self._sides(stage) == (True, True))

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        """Stages that no data edge leaves."""
        return tuple(stage for stage in self.parallelism if self._sides(stage) == (True, False))

    @cached_property
    def isolated(self) -> tuple[str, ...]:
        """Stages that no data edge touches."""
        return tuple(stage for stage in self.parallelism if self._sides(stage) == (False, False))

    def downstream_of(self, stage: str) -> set[str]:
        """Every stage that data from `stage` reaches; `stage` itself only if data edges close a cycle."""
        reached: set[str] = set()
        frontier = [stage]
        while frontier:
            following = self._following.get(frontier.pop(), set()) - reached
            reached |= following
            frontier.extend(following)
        return reached

    @cached_property
    def _following(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for edge in self.data_edges:
            found.setdefault(edge.upstream, set()).add(edge.downstream)
        return found

    def _sides(self, stage: str) -> tuple[bool, bool]:
        incoming = any(edge.downstream == stage for edge in self.data_edges)
        outgoing = any(edge.upstream == stage for edge in self.data_edges)
        return incoming, outgoing
