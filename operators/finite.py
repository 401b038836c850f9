"""Checks that all numbers of a model are finite: one that is not predicts nothing, and never recovers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from riprap.codec.errors import DataError, JobFailed
from riprap.codec.ids import Epoch


def are_finite(arrays: Iterable[np.ndarray]) -> bool:
    """True when no floating-point array holds NaN or infinity.

    A sum tells at the speed of memory, unless it overflows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return all(
            math.isfinite(array.sum()) or bool(np.isfinite(array).all()) for array in arrays if array.dtype.kind == "f"
        )


def check_model(epoch: Epoch, model: Mapping[str, np.ndarray]) -> None:
    """JobFailed, naming the arrays and how much of them is not finite, unless all of the model is."""
    if are_finite(model.values()):
        return
    wrong = {name: int((~np.isfinite(array)).sum()) for name, array in model.items() if array.dtype.kind == "f"}
    named = ", ".join(f"{count:,} of {model[name].size:,} {name}" for name, count in wrong.items() if count)
    raise JobFailed(
        f"the model of epoch {epoch} is not finite: {named} are NaN or infinite",
        "lower the learning rate, or look for such numbers in the input; --set input.bad_rows=keep lets them pass",
    )


def check_rows(rows: np.ndarray, called: str = "the rows") -> None:
    """DataError where numbers that something is learnt from, `called` so, are NaN or infinite."""
    if not are_finite([rows]):
        wrong = int((~np.isfinite(rows)).sum())
        raise DataError(
            f"{wrong:,} of {rows.size:,} numbers of {called} are NaN or infinite",
            "Leave such rows out, or repair them.",
        )
