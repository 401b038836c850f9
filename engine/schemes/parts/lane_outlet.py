"""The outlet of a tentative lane: it collects what belongs to a window, and nothing leaves before the window closes."""

from __future__ import annotations

from riprap.codec.blocks import Block
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.outlet import Outlet
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import LinkKey, TaskProgress
from riprap.engine.flow.window_files import WindowFiles


class LaneOutlet(Outlet):
    """Deals a lane's output out to links as the task's own does; the blocks have no numbers."""

    def __init__(self, layout: Layout, port: Port, progress: TaskProgress, files: WindowFiles) -> None:
        super().__init__(layout, port, progress, files)
        self._collected: list[tuple[LinkKey, Block]] = []

    def collect(self) -> list[tuple[LinkKey, Block]]:
        """All that was put out since the last call, in order, by the name of its link."""
        found, self._collected = self._collected, []
        return found

    def _put(self, link: OutletLink, block: Block) -> None:
        self._collected.append((link.key, block))
