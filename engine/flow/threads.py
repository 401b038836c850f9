"""The compute threads of a worker (AF 3.2): some prepare blocks ahead of the one that owns the operator's state."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

from riprap.codec.blocks import Kind
from riprap.engine.flow.entry import Entry
from riprap.operators import returns
from riprap.operators.dataflow import DataflowOperator, Items

AHEAD = 4
"""Blocks that may be prepared before their turn, for each helper. With fewer it waits for work while the owner of the
state prepares a block of its own: with 2, of two CPUs 1.6 were busy splitting words, with 4 both."""


class ComputeThreads:
    """Calls an operator's `prepare` for each block: ahead of its turn in `threads` - 1 helpers, or when it has come.

    Used by the thread that owns the state. While a helper works on the block whose turn has come, that thread prepares
    what no helper has begun. What `prepare` raises is raised when the block's turn has come. Helpers start with the
    first block, so they run on the CPUs to which the worker has been pinned by then.
    """

    def __init__(self, operator: DataflowOperator, threads: int = 1) -> None:
        self._operator = operator
        helpers = threads - 1 if operator.prepares else 0
        self.ahead = AHEAD * helpers
        """Number of the next blocks that may be prepared before their turn."""
        self._pool = ThreadPoolExecutor(helpers, "prepare") if helpers else None
        self._waiting: deque[tuple[Future[Items], Items]] = deque()
        """Items not begun, oldest first. Whoever takes one out prepares it."""

    def begin(self, entries: Iterable[Entry]) -> None:
        """Have the first `ahead` of these prepared, those that are not already."""
        if self._pool is None:
            return
        for entry in islice(entries, self.ahead):
            if entry.work is None and entry.block.kind == Kind.DATA and not entry.is_empty:
                entry.work = Future()
                self._waiting.append((entry.work, entry.items))
                self._pool.submit(self._prepare_next)

    def items(self, entry: Entry) -> Items:
        """The prepared items of the block whose turn has come, the same object each time; raises what `prepare` raised.

        It waits for a helper as long as `prepare` takes; `engine/worker/calls.py` tells of a long one.
        """
        if entry.prepared is None:
            entry.prepared = self._prepared(entry.items) if entry.work is None else self._result(entry.work)
        return entry.prepared

    def close(self) -> None:
        """End the helpers, once they have done what they have begun."""
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _result(self, work: Future[Items]) -> Items:
        while not work.done() and self._waiting:
            self._prepare_next()
        return work.result()

    def _prepare_next(self) -> None:
        try:
            work, items = self._waiting.popleft()
        except IndexError:
            return  # the owner of the state was faster
        try:
            work.set_result(self._prepared(items))
        except BaseException as error:  # the owner's to raise, in its turn
            work.set_exception(error)

    def _prepared(self, items: Items) -> Items:
        if not self._operator.prepares:
            return items
        prepared: Items = returns.prepared(self._operator, self._operator.prepare(items), items)
        return prepared
