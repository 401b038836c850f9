"""A destination's reports on its windows (engine/worker/outputs.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from riprap.codec.ids import Epoch
from riprap.engine.flow.port import Boundary


class WindowJournal(Protocol):
    """Tells the world of a destination's windows (engine/worker/outputs.py)."""

    @property
    def writes(self) -> bool:
        """False of a copy of a destination while another one writes (engine/worker/standby.py)."""

    @property
    def holds(self) -> bool:
        """True while another copy has yet to announce a window that was closed here: it is lost if both die."""

    @property
    def others(self) -> int:
        """The last window that another copy has announced, which writes in place of this one; 0 where none does."""

    def committed(self, boundary: Boundary, latency_s: float, rows: np.ndarray | None) -> None:
        """A window is closed; `rows` go to the job's output file."""

    def tentative(self, boundary: Boundary, latency_s: float, absent: Sequence[str], rows: np.ndarray | None) -> None:
        """A window that is not closed yet, as it is without the items of those absent."""

    def notes(self) -> dict[str, Any]:
        """Notes of what is not announced yet; a new incarnation resumes with them."""

    def begin(self, epoch: Epoch, items: int) -> None:
        """All up to this window, so many items, was told by the job whose savepoint this one begins from."""

    def resume(self, notes: Mapping[str, Any]) -> None:
        """Go on from what was noted."""

    def change_clock(self) -> None:
        """Moments are told by another clock from here on than by the former incarnation."""

    def cut(self, rows: int) -> None:
        """Only so many rows count of what a former incarnation put out; the rest comes once more."""

    def durable(self, epoch: Epoch) -> None:
        """It may be announced."""
