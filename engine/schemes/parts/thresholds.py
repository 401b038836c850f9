"""The run-time thresholds theta, l and gamma of approximate fault tolerance (AF 3.4.4, 3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riprap.engine.flow.losses import Limits


class Thresholds:
    """Shares of the user's Theta, L and Gamma, such that the errors of all failures of all workers stay below them.

    Each of n copies of an operator starts with half of an n-th, divided by beta for every operator behind it (3.5.3),
    and has half of what it had after each recovered failure (3.5.2): the sum over any number of failures is bounded.
    What counts as a failure depends on the window: hopping forgets them at the end of a window of `window_epochs`
    micro-batches, sliding once they are that old, decaying at once (it always has all of Theta, L and Gamma). A failure
    that may have taken something of later windows, which a sender was in already, counts until these are over.
    """

    def __init__(self, options: Mapping[str, Any], copies: int, depth: int) -> None:
        self.window, self.length = options["window"], options["window_epochs"]
        self.user = Limits(float(options["theta"]), float(options["l"]), float(options["gamma"]), 1.0)
        self._share = 2.0 * copies * float(options["beta"]) ** depth

    def after(self, failures: Sequence[int], epoch: int) -> Limits:
        """The limits in window `epoch` (micro-batches closed); `failures` has of those before the last window that they
        may have taken from."""
        if self.window == "decaying":
            return self.user
        half = 0.5 ** self.counted(failures, epoch)
        theta, items, unacknowledged, share = self.user
        own = half / self._share
        return Limits(theta * own, items * own, unacknowledged * own, share * half / 2)

    def counted(self, failures: Sequence[int], epoch: int) -> int:
        """Number of failures that still count."""
        if self.window == "hopping":
            return sum(failed // self.length >= epoch // self.length for failed in failures)
        if self.window == "sliding":
            return sum(epoch - failed < self.length for failed in failures)
        return len(failures)
