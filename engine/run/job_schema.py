"""The facts of a job's opened input: its length, and the columns of an item. Workers and controllers are told them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from riprap.operators.learning.classes import CLASSES, Classes
from riprap.operators.learning.curvature import packed_moments


@dataclass(frozen=True)
class RowFacts:
    """Facts of a stream of rows that its operators calculate with; `classes` are the labels of the two classes, where
    the processors tell two apart."""

    classes: Classes = CLASSES
    moments: np.ndarray | None = None
    """Second moments of the features in the sources' samples, where the sink wants them
    (operators/learning/curvature.py)."""

    def fields(self) -> Mapping[str, Any]:
        """The fields that workers are told."""
        moments = {} if self.moments is None else {"moments": packed_moments(self.moments)}
        return {"classes": list(self.classes), **moments}


@dataclass(frozen=True)
class JobSchema:
    """The items of all sources together, and the windows that each sink closes; None without end."""

    items: int | None
    windows: int | None
    verified: tuple[str, ...] = ()
    """Fingerprints of the input directories that were looked at (operators/inputs/shard_checks.py)."""
    columns: tuple[str, ...] = ()
    """The columns of an item, or of the first source's input, where it is a matrix."""
    label: str | None = None
    """The label among them."""
    rows: RowFacts | None = None
    """Of a job of Source, Processor and Sink alone: its operators are opened with the columns and with these."""

    def fields(self) -> dict[str, Any]:
        """The fields that workers and controllers are told."""
        told = {"items": self.items, "windows": self.windows, "verified": list(self.verified)}
        if self.rows is None:
            return told
        return {**told, "columns": list(self.columns), "label": self.label, **self.rows.fields()}
