"""Collects a stage's input as rows of a loop."""

from __future__ import annotations

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.dataflow import Items
from riprap.operators.iteration.loop_state import LoopState


def collect(state: LoopState, items: Items, first: int) -> int:
    """A row for each item from `first` on: of one 2-D array, or of columns of one length. Returns the items' number.

    DataError when they are no such rows.
    """
    columns = [array[first:] for array in items.arrays]
    if any(array.ndim > 2 for array in columns):
        raise DataError("the items of a loop are no rows of numbers", "Send a matrix, or columns of one length.")
    rows = np.column_stack(columns).astype(np.float64)
    try:
        state.append(items.epoch, rows)
    except ValueError as error:
        raise DataError(f"the items do not suit the loop: {error}", "Send such rows to it.") from error
    return items.count
