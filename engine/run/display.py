"""Shows a running job: a live table on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Protocol, TextIO

from riprap.engine.run.replicas import STANDBY, TENTATIVE
from riprap.engine.run.snapshot import Snapshot
from riprap.engine.worker.calls import Told

if TYPE_CHECKING:
    from rich.console import Group

LINE_EVERY_S = 3.0


class Display(Protocol):
    """Shows snapshots until it is closed."""

    def show(self, snapshot: Snapshot) -> None:
        """Take in the newest state; called several times a second."""

    def close(self) -> None:
        """Leave the screen to what follows."""


def make_display(stream: TextIO) -> Display:
    """The display that suits the stream."""
    return LiveDisplay(stream) if stream.isatty() else LineDisplay(stream)


class NoDisplay:
    """Shows nothing: whoever runs the job from a program reads its summary."""

    def show(self, snapshot: Snapshot) -> None:
        """Nothing to show."""

    def close(self) -> None:
        """Nothing to clean up."""


class LineDisplay:
    """One line every few seconds, and at once when the phase or the faults change."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: tuple[str, tuple[str, ...]] = ("", ())
        self._told = Told()
        self._crashed: set[tuple[str, str]] = set()
        self._next = 0.0

    def show(self, snapshot: Snapshot) -> None:
        """Print a line if it is time for one."""
        if not snapshot.workers:
            return
        state, now = (snapshot.phase, snapshot.faults), time.monotonic()
        for fault in snapshot.faults[len(self._shown[1]) :]:
            self._say(f"fault injected: {fault}")
        for worker, incarnation, ended in snapshot.crashes:
            if (worker, ended) not in self._crashed:
                self._say(f"{worker}#{incarnation} ended by {ended}")
                self._crashed.add((worker, ended))
        for call in snapshot.calls:
            if self._told.is_news(call.where, call.seconds):
                self._say(str(call))
        if state != self._shown or now >= self._next:
            self._say(line(snapshot))
            self._shown, self._next = state, now + LINE_EVERY_S

    def _say(self, text: str) -> None:
        """Print a line, unless that had to wait for its reader: the job's services are looked after meanwhile."""
        if has_room(self._stream):
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing to clean up."""


class LiveDisplay:
    """A table that is redrawn in place."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(file=stream), refresh_per_second=8, transient=True)
        self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        """Redraw."""
        self._live.update(table(snapshot))

    def close(self) -> None:
        """Take the table off the screen."""
        self._live.stop()


def has_room(stream: TextIO) -> bool:
    """False when a line would have to wait, as in a pipe that nobody reads."""
    try:
        looked_at = select.poll()
        looked_at.register(stream.fileno(), select.POLLOUT)
    except (OSError, ValueError):
        return True  # it is no file
    return bool(looked_at.poll(0))


def line(snapshot: Snapshot) -> str:
    """A snapshot on one line."""
    down = [f"{name}#{incarnation}" for name, incarnation, state in snapshot.workers if state != "up"]
    missed = f" (not {', '.join(down)})" if snapshot.phase == "RECOVERING" else ""
    parts = [
        snapshot.phase,
        f"epoch {snapshot.epochs}",
        f"{snapshot.items:,}{of_total(snapshot)} items",
        f"{snapshot.items_per_second:,.0f} items/s",
        *([] if snapshot.checkpoint is None else [f"checkpoint {snapshot.checkpoint:,}"]),
        f"{snapshot.alive}/{len(snapshot.workers)} workers up{missed}",
        *([f"{standby} on standby"] if (standby := [*snapshot.roles.values()].count(STANDBY)) else []),
        *([f"{tentative} tentative"] if (tentative := [*snapshot.roles.values()].count(TENTATIVE)) else []),
        *(f"{label} {count:,}" for label, count in counts(snapshot)),
        *(f"{name} {value:.4g}" for name, value in snapshot.metrics.items()),
    ]
    return "  ".join(parts)


def of_total(snapshot: Snapshot) -> str:
    """` (42 %)` when the length of the stream is known; 100 % is said of a stream that is committed whole."""
    return f" ({100 * snapshot.items // snapshot.total_items} %)" if snapshot.total_items else ""


def counts(snapshot: Snapshot) -> list[tuple[str, int]]:
    """The work of fault tolerance, as far as there was any."""
    every = [("decoded", snapshot.decoded_items), ("recomputed", snapshot.recomputed_items)]
    return [(label, count) for label, count in [*every, ("lost", snapshot.lost_items)] if count]


def table(snapshot: Snapshot) -> Group:
    """A snapshot as several lines for rich."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_row("job", f"[bold]{snapshot.job}[/bold]  {snapshot.phase}")
    grid.add_row("items", f"{snapshot.items:,}{of_total(snapshot)}   [bold]{snapshot.items_per_second:,.0f}[/bold] /s")
    grid.add_row("epoch", f"{snapshot.epochs:,}")
    if snapshot.checkpoint is not None:
        grid.add_row("checkpoint", f"{snapshot.checkpoint:,}")
    if snapshot.metrics:
        grid.add_row("metrics", Text("  ".join(f"{name} {value:.5g}" for name, value in snapshot.metrics.items())))
    grid.add_row("workers", _workers(snapshot))
    for label, count in counts(snapshot):
        grid.add_row(label, f"[yellow]{count:,}[/yellow] items")
    for call in snapshot.calls[:3]:
        grid.add_row("waits for", Text(str(call), style="yellow"))
    for worker, incarnation, ended in snapshot.crashes[-5:]:
        grid.add_row("crash", Text(f"{worker}#{incarnation} ended by {ended}", style="red"))
    for fault in snapshot.faults[-5:]:
        grid.add_row("fault", Text(fault, style="red"))
    if snapshot.total_items:
        return Group(grid, ProgressBar(total=snapshot.total_items, completed=snapshot.items, width=60))
    return Group(grid)


def _workers(snapshot: Snapshot) -> str:
    colours = {"up": "green", "starting": "yellow", "down": "red"}
    return "  ".join(
        f"[{colours.get(state, 'white')}]{name}#{incarnation}[/]"
        + (f" ({snapshot.roles[name]})" if name in snapshot.roles else "")
        for name, incarnation, state in snapshot.workers
    )
