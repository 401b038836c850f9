"""The common part of loops within a window: rows that collect until it begins, and an answer when it has ended."""

from __future__ import annotations

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.iteration.exact import check_exact
from riprap.operators.iteration.loop_state import LoopState


class Loop(DataflowOperator):
    """Base of operators that iterate, in supersteps or without. They need an edge from their stage to itself with
    `loop: true`."""

    state: LoopState

    def open(self, context: Context) -> None:
        self._me, self._tasks = context.index, context.parallelism
        self._sends = bool(context.downstream)

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys (int64) and values of this task, when the loop has ended."""
        raise NotImplementedError

    @property
    def iterating(self) -> bool:
        return self.state.iterating

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """A row of the stage's input for each item: one 2-D array, or columns of one length."""
        columns = [array[first:] for array in items.arrays]
        if any(array.ndim > 2 for array in columns):
            raise DataError("the items of a loop are no rows of numbers", "Send a matrix, or columns of one length.")
        for whole in (column for column in columns if column.dtype.kind in "iu"):
            check_exact(whole, "the whole number")
        rows = np.column_stack(columns).astype(np.float64)
        try:
            self.state.append(items.epoch, rows)
        except ValueError as error:
            raise DataError(f"the items do not suit the loop: {error}", "Send such rows to it.") from error
        return items.count

    def end(self, out: Emitter) -> None:
        """The loop has ended: send the answer, if there is somebody to send it to."""
        self.state.iterating = False
        if self._sends:
            keys, values = self.answer()
            out.send_by_key(keys, (values,))
