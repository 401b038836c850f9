"""The edges around a worker, as network, links and membership see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from riprap.codec.ids import WorkerId


@dataclass(frozen=True, slots=True)
class Edge:
    """Stage to stage; `index` travels in headers, `name` stands in statistics and logs."""

    index: int
    name: str

    def __hash__(self) -> int:
        return self.index  # asked for with each message


class Neighbourhood(Protocol):
    """What network, links and membership need to know of a layout of either form."""

    @property
    def me(self) -> WorkerId:
        """The worker itself."""

    def incoming(self) -> dict[Edge, tuple[WorkerId, ...]]:
        """The edges that end here, with the workers at their other end."""

    def outgoing(self) -> tuple[Edge, ...]:
        """The edges that start here."""

    def receivers(self) -> list[WorkerId]:
        """All workers that this one sends to, by any edge."""
