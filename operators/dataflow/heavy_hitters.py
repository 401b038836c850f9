"""Heavy hitters: flows that send over a threshold of bytes in a window (AF Table 3, Experiment 3, Appendix A.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from codec.errors import ConfigError, DataError
from operators.dataflow.base import DataflowOperator, Emitter, Items, Place
from operators.dataflow.count_min import ROWS, CountMin, estimate
from operators.dataflow.records import unpacked
from operators.options import number, positive, whole_number
from operators.states.base import Backup, State

THRESHOLD_BYTES = 10e6
WIDTH = 8000
PACKET_BYTES_MAX = 1500

FOUND = np.dtype([("epoch", "<i8"), ("flow", "<u8"), ("bytes", "<i8")])


class LocalSketch(DataflowOperator):
    """Source stage, or behind one: counts the bytes of each flow in a sketch, which it sends when a window ends.

    A flow of more than `threshold` bytes sends more than threshold / parallelism through one of the tasks. Candidates
    are all flows above that share less `slack` bytes, the most that failures may lose here (Theta + L * packet size;
    half the share unless given). So none is missed as long as the bounds hold.
    """

    only_windows = True

    def __init__(
        self,
        threshold: float = THRESHOLD_BYTES,
        width: int = WIDTH,
        slack: float | None = None,
        packet_bytes_max: int = PACKET_BYTES_MAX,
        flow: str = "flow",
        size: str = "size",
    ) -> None:
        self._threshold = positive("threshold", threshold)
        self._width = whole_number("width", width, 1)
        self._slack = slack
        self._packet_bytes_max = whole_number("packet_bytes_max", packet_bytes_max, 1)
        self._fields = (flow, size)
        self.state: CountMin

    def start(self, place: Place) -> None:
        share = self._threshold / place.parallelism
        slack = share / 2 if self._slack is None else number("slack", self._slack, 0.0)
        if slack >= share:
            raise ConfigError(
                f"a slack of {slack:g} bytes leaves nothing of a task's share of the threshold, {share:g} bytes",
                "Lower Theta and L, raise the threshold, or run fewer tasks.",
            )
        if place.fan_out > 1:
            raise ConfigError("sketches are merged by one task, not several", "Set the next stage's parallelism to 1.")
        self.state = CountMin(self._width, place.seed, share - slack)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Packets: records with the fields `flow` (uint64) and `size` (uint32)."""
        try:
            return self.state.add(unpacked(items.arrays), first, *self._fields)
        except ValueError as error:
            raise DataError(f"the input has no packets: {error}", "Prepare it with riprap prep packets.") from error

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        out.send([self.state.totals(), self.state.kept], 1)
        self.state.clear()

    def recovered(self, theta: float, items: int) -> None:
        self.state.compensate(theta + items * self._packet_bytes_max)


@dataclass
class Window:
    """Sketches of one window, added up; `unsaved` is what the last backup lacks."""

    totals: np.ndarray
    unsaved: np.ndarray
    candidates: set[int] = field(default_factory=set)


class MergedSketches(State):
    """The open windows' sketches and what was found in the closed ones. Divergence: maximum difference of a counter."""

    window = "hopping"

    def __init__(self, width: int) -> None:
        self.width = width
        self.windows: dict[int, Window] = {}
        self.found = np.empty(0, FOUND)
        self._found_saved = 0
        self._fresh, self._closed = True, False

    def merge(self, epoch: int, totals: np.ndarray, candidates: np.ndarray) -> None:
        """Add a task's sketch of a window. ValueError when it is of another shape."""
        shape = (ROWS, self.width)
        if totals.shape != shape or totals.dtype != np.int64 or candidates.dtype != np.uint64:
            raise ValueError(f"counters of {totals.dtype} {totals.shape}, not int64 {shape}")
        window = self.windows.setdefault(epoch, Window(np.zeros(shape, np.int64), np.zeros(shape, np.int64)))
        window.totals += totals
        window.unsaved += totals
        window.candidates.update(candidates.tolist())

    def close(self, epoch: int, found: np.ndarray) -> None:
        """Keep what was found instead of the window's sketch."""
        self.windows.pop(epoch, None)
        self.found = np.concatenate([self.found, found])
        self._closed = True

    @property
    def cleared(self) -> bool:
        return self._closed

    def state_divergence(self) -> float:
        """Of the open windows; what was found is saved with the next backup."""
        return float(max((window.unsaved.max() for window in self.windows.values()), default=0))

    def backup_state(self) -> Backup:
        """Everything but the found rows saved before; windows are few."""
        epochs = np.array(sorted(self.windows), np.int64)
        windows = [self.windows[epoch] for epoch in epochs.tolist()]
        flows = [np.array(sorted(window.candidates), np.uint64) for window in windows]
        totals = np.array([window.totals for window in windows], np.int64).reshape(-1, ROWS, self.width)
        counts = np.array([len(part) for part in flows], np.int64)
        full, first = self._fresh, 0 if self._fresh else self._found_saved
        self._mark_saved()
        candidates = np.concatenate([np.empty(0, np.uint64), *flows])
        return Backup(full, (epochs, totals, counts, candidates, self.found[first:].copy()))

    def backup_all(self) -> Backup:
        self._fresh = True
        return self.backup_state()

    def recover_state(self, backup: Backup) -> None:
        epochs, totals, counts, candidates, found = self._checked(backup.arrays)
        parts = np.split(candidates, np.cumsum(counts)[:-1]) if len(counts) else []
        self.windows = {
            int(epoch): Window(part.copy(), np.zeros_like(part), set(flows.tolist()))
            for epoch, part, flows in zip(epochs, totals, parts, strict=True)
        }
        self.found = found.copy() if backup.full else np.concatenate([self.found, found])
        self._mark_saved()

    def _mark_saved(self) -> None:
        for window in self.windows.values():
            window.unsaved[:] = 0
        self._found_saved, self._fresh, self._closed = len(self.found), False, False

    def _checked(self, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        if [array.dtype for array in arrays] != [np.int64, np.int64, np.int64, np.uint64, FOUND]:
            raise ValueError("a backup of merged sketches does not consist of such arrays")
        epochs, totals, counts, candidates, _ = arrays
        if totals.shape != (len(epochs), ROWS, self.width) or counts.shape != epochs.shape:
            raise ValueError(f"a backup of sketches of another shape than {(ROWS, self.width)}")
        if (counts < 0).any() or counts.sum() != len(candidates):
            raise ValueError("a backup of merged sketches with candidates that are missing")
        return arrays


class GlobalSketch(DataflowOperator):
    """Destination: merges the sketches of a window and reports the candidates above `threshold` bytes.

    Its items are sketches, few and large: run it with a Theta and an L of 0, so that none is lost (AF 6.1.2).
    """

    def __init__(self, threshold: float = THRESHOLD_BYTES, width: int = WIDTH) -> None:
        self._threshold = positive("threshold", threshold)
        self._width = whole_number("width", width, 1)
        self.state: MergedSketches = MergedSketches(self._width)

    def start(self, place: Place) -> None:
        self._hashes = CountMin(self._width, place.seed)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        try:
            self.state.merge(items.epoch, *items.arrays)
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{items.stage} sends no such sketch: {error}", "Give both stages the same width."
            ) from error
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        found = self._heavy(epoch)
        self.state.close(epoch, found)
        out.write("heavy_hitters", {name: found[name].copy() for name in ("flow", "bytes")})

    def results(self) -> dict[str, np.ndarray]:
        """One entry per heavy hitter of a window: its epoch, its flow, and its bytes, perhaps overestimated."""
        return {name: self.state.found[name].copy() for name in ("epoch", "flow", "bytes")}

    def metrics(self) -> dict[str, float]:
        return {"heavy_hitters": float(len(self.state.found))}

    def _heavy(self, epoch: int) -> np.ndarray:
        """The window's candidates whose merged estimate exceeds the threshold, by flow."""
        window = self.state.windows.get(epoch)
        if window is None:
            return np.empty(0, FOUND)
        flows = np.array(sorted(window.candidates), np.uint64)
        sizes = estimate(window.totals, self._hashes.columns(flows))
        above = sizes > math.floor(self._threshold)
        found = np.empty(int(above.sum()), FOUND)
        found["epoch"], found["flow"], found["bytes"] = epoch, flows[above], sizes[above]
        return found
