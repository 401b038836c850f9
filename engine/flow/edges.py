"""The edges around a worker, as network, links and membership see them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from riprap.codec.ids import WorkerId


class Edge(NamedTuple):
    """Stage to stage; `index` travels in headers, `name` stands in statistics and logs."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    name: str


class Neighbourhood(Protocol):
    """The parts of a layout that network, links and membership need to know."""

    @property
    def me(self) -> WorkerId:
        """The worker itself."""

    def incoming(self) -> dict[Edge, tuple[WorkerId, ...]]:
        """The edges that end here, with the workers at their other end."""

    def outgoing(self) -> tuple[Edge, ...]:
        """The edges that start here."""

    def receivers(self) -> list[WorkerId]:
        """All workers that this one sends to, by any edge."""
