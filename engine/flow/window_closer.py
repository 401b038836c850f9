"""The closing of windows: a task closes one once all its inputs have, and the loop that it leads to has ended."""

from __future__ import annotations

from collections.abc import Sequence

from riprap.codec.ids import Epoch
from riprap.engine.flow.caution import caution
from riprap.engine.flow.journal import WindowJournal
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.port import Boundary, Port
from riprap.engine.flow.progress import INPUT, WINDOW, LinkKey
from riprap.engine.flow.scheme import Scheme
from riprap.operators.dataflow import DataflowOperator


class WindowCloser:
    """Of one task with these data links in, none at a source. Windows are closed in order, and each but once."""

    scheme: Scheme
    """Set by the task, whose scheme is made last."""

    def __init__(
        self, layout: Layout, port: Port, operator: DataflowOperator, outlet: Outlet, journal: WindowJournal | None,
        links: Sequence[LinkKey],
    ) -> None:  # fmt: skip
        self._layout, self._port, self._operator, self._outlet = layout, port, operator, outlet
        self._journal, self._links, self._progress = journal, links, outlet.progress

    def close(self) -> None:
        """All windows that all inputs have closed, up to one whose loop has not ended."""
        progress = self._progress
        closed = min([progress.closed.get(link, 0) for link in self._links or [INPUT]])
        while progress.epoch < closed and not progress.iterating:
            epoch = Epoch(progress.epoch + 1)
            progress.times.close(epoch, self._links, epoch == progress.final)
            caution(self._port, self._layout, progress.times)
            self._end(epoch)
            if self._operator.iterating:
                progress.iterating = True
                self._outlet.rest_loop()
            else:
                self._put_out(epoch)

    def tell(self) -> None:
        """Windows are closed, and what closed them is processed: the scheme may save."""
        self.scheme.bench.receipts.close(Epoch(self._progress.epoch))
        self.scheme.on_window(self._progress.epoch)

    def go_on_with_loop(self) -> None:
        """Feedback was taken in: close the window if that has ended the loop, and those behind it."""
        if self._operator.iterating:
            self._outlet.rest_loop()
            return
        self._progress.iterating = False
        self._progress.siblings = {}
        self._put_out(Epoch(self._progress.epoch + 1))
        self.close()

    def close_again(self, until: int, final: bool) -> None:
        """At a source: the windows before this one, which all receivers have closed and the state has not; `final`:
        the last of them is the last of all. Their output is the receivers' already."""
        progress = self._progress
        for epoch in range(progress.epoch + 1 + progress.iterating, until):
            self._end(Epoch(epoch))
            progress.epoch = epoch
            self._outlet.punctuate(0, self._port.now(), final and epoch + 1 == until)

    def _end(self, epoch: Epoch) -> None:
        """The operator sees the end of the window."""
        self._outlet.begin(epoch, WINDOW, epoch)
        self._operator.process_punctuation(epoch, self._outlet)

    def _put_out(self, epoch: Epoch) -> None:
        """All that belongs to the window is put out."""
        progress, now = self._progress, self._port.now()
        last = epoch == progress.final
        items, began = progress.windows.pop(epoch, (0, now))
        lost = progress.close_lost(epoch)
        opened_at = min(began, now)  # it is not known of a window that was opened by another host's clock
        progress.epoch, progress.last = epoch, last
        self._outlet.punctuate(items, opened_at, last)
        if self._journal is not None:
            rows = self._operator.outputs()
            progress.rows += 0 if rows is None else len(rows)
            boundary = Boundary(epoch, items, lost, last, self.scheme.absent)
            self._journal.committed(boundary, self._port.now() - opened_at, rows)
            self._journal.durable(Epoch(min(epoch, self.scheme.announced)))
