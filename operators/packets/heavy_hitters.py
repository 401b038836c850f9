"""Heavy hitters: flows that send over a threshold of bytes in a window (AF Table 3, Experiment 3, Appendix A.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.inputs.records import unpacked
from riprap.operators.options import Option, check
from riprap.operators.packets.count_min import ROWS, WIDTH_MAX, CountMin, estimate
from riprap.operators.packets.flows import ENDS, as_bytes, ends_columns, of_bytes
from riprap.operators.states.base import Backup, State
from riprap.operators.tables import Arrays, Schema, Table, ordered

THRESHOLD_BYTES = 10e6
WIDTH = 8000
PACKET_BYTES_MAX = 1500
BYTES_MAX = 2.0**53
"""No window has as many; counters (int64) of all tasks can be added up below."""

Threshold = Annotated[
    float, Option("A flow of more than that in a window is a heavy hitter", unit="bytes", low=0, above=True)
]
Width = Annotated[
    int,
    Option(
        "The counters in each of the sketch's rows; the same in both stages", unit="counters", low=1, high=WIDTH_MAX
    ),
]

FOUND = np.dtype(
    [("epoch", "<i8"), ("flow", "<u8"), ("bytes", "<i8"), ("error_max", "<i8"), ("ends", f"V{ENDS.itemsize}")]
)
"""A heavy hitter of a window; `ends` are its ENDS (flows.py), whose arrays in an array backups do not hold."""


class LocalSketch(DataflowOperator):
    """Source stage, or behind one: counts the bytes of each flow in a sketch, which it sends when a window ends.

    A flow of more than `threshold` bytes sends more than threshold / parallelism through one of the tasks. Candidates
    are all flows above that share less `slack` bytes. So none is missed as long as the bounds hold.
    """

    only_windows = True

    def __init__(
        self,
        threshold: Threshold = THRESHOLD_BYTES,
        width: Width = WIDTH,
        slack: Annotated[
            float | None,
            Option(
                "The most that failures may lose in one task, Theta + L * packet size; null: half its share",
                unit="bytes",
                low=0,
            ),
        ] = None,
        packet_bytes_max: Annotated[
            int, Option("The largest packet, by which a lost item is made up for", unit="bytes", low=1)
        ] = PACKET_BYTES_MAX,
        flow: Annotated[str, Option("The field of a record that names its flow (uint64)")] = "flow",
        size: Annotated[str, Option("The field of a record that is counted (uint32)")] = "size",
    ) -> None:
        check(
            self, threshold=threshold, width=width, slack=slack, packet_bytes_max=packet_bytes_max, flow=flow, size=size
        )
        self._threshold, self._width = float(threshold), width
        self._slack, self._packet_bytes_max = slack, packet_bytes_max
        self._fields = (flow, size)
        self._window: int | None = None
        """The window of the items that this incarnation has counted since one was closed."""
        self.state: CountMin

    def open(self, context: Context) -> None:
        share = self._threshold / context.parallelism
        slack = share / 2 if self._slack is None else float(self._slack)
        if slack >= share:
            raise ConfigError(
                f"a slack of {slack:g} bytes leaves nothing of a task's share of the threshold, {share:g} bytes",
                "Lower Theta and L, raise the threshold, or run fewer tasks.",
            )
        if context.fan_out > 1:
            raise ConfigError("sketches are merged by one task, not several", "Set the next stage's parallelism to 1.")
        self.state = CountMin(self._width, context.seed, share - slack)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Packets: records with the fields `flow` (uint64) and `size` (uint32)."""
        self._check_window(items.epoch)
        self._window = items.epoch
        try:
            return self.state.add(unpacked(items.arrays), first, *self._fields)
        except ValueError as error:
            raise DataError(f"the input has no packets: {error}", "Prepare it with riprap prep packets.") from error

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self._check_window(epoch)
        self._window = None
        out.send([self.state.totals(), self.state.kept, self.state.ends], 1)
        self.state.clear()

    def _check_window(self, window: int) -> None:
        """ConfigError when a sketch would count two windows: items of the next come early where several tasks send."""
        if self._window not in (None, window):
            raise ConfigError(
                f"items of the windows {window} and {self._window} come to one sketch at once",
                "Let one task send to each task of the sketch: partitioning one_to_one, or the sketch as source.",
            )

    def recovered(self, theta: float, items: float) -> None:
        lost = theta + items * self._packet_bytes_max
        if lost < BYTES_MAX:  # nothing makes up for a loss without a bound
            self.state.compensate(lost)


@dataclass
class SketchWindow:
    """Sketches of one window, added up; `unsaved` is missing in the last backup. `candidates`: flow -> its ends."""

    totals: np.ndarray
    unsaved: np.ndarray
    candidates: dict[int, bytes] = field(default_factory=dict)

    def add(self, flows: np.ndarray, ends: np.ndarray) -> None:
        """Add candidates, and the ends of each; the first that are known of a flow count."""
        for flow, own in zip(flows.tolist(), ends, strict=True):
            self.candidates.setdefault(flow, own.tobytes())

    @property
    def flows(self) -> tuple[np.ndarray, np.ndarray]:
        """The candidates in order, and their ends: uint64 (n,), uint8 (n, 38)."""
        flows = np.array(sorted(self.candidates), np.uint64)
        ends = b"".join(self.candidates[flow] for flow in flows.tolist())
        return flows, np.frombuffer(ends, np.uint8).reshape(-1, ENDS.itemsize)


class MergedSketches(State):
    """The open windows' sketches, and the flows found in closed ones. Divergence: maximum difference of a counter."""

    window = "hopping"

    def __init__(self, width: int) -> None:
        self.width = width
        self.windows: dict[int, SketchWindow] = {}
        self.found = np.empty(0, FOUND)
        self._found_saved = 0
        self._fresh, self._closed = True, False

    def merge(self, epoch: int, totals: np.ndarray, candidates: np.ndarray, ends: np.ndarray) -> None:
        """Add a task's sketch of a window. ValueError when it is of another shape."""
        shape = (ROWS, self.width)
        if totals.shape != shape or totals.dtype != np.int64 or candidates.dtype != np.uint64:
            raise ValueError(f"counters of {totals.dtype} {totals.shape}, not int64 {shape}")
        if len(of_bytes(ends)) != len(candidates):
            raise ValueError(f"{len(candidates)} flows between {len(ends)} pairs of ends")
        window = self.windows.setdefault(epoch, SketchWindow(np.zeros(shape, np.int64), np.zeros(shape, np.int64)))
        window.totals += totals
        window.unsaved += totals
        window.add(candidates, ends)

    def close(self, epoch: int, found: np.ndarray) -> None:
        """Keep the flows found instead of the window's sketch."""
        self.windows.pop(epoch, None)
        self.found = np.concatenate([self.found, found])
        self._closed = True

    @property
    def cleared(self) -> bool:
        return self._closed

    def state_divergence(self) -> float:
        """Divergence of the open windows; the flows found are saved with the next backup."""
        return float(max((window.unsaved.max() for window in self.windows.values()), default=0))

    def backup_state(self) -> Backup:
        """Everything but the found rows saved before; windows are few."""
        epochs = np.array(sorted(self.windows), np.int64)
        windows = [self.windows[epoch] for epoch in epochs.tolist()]
        flows, ends = [window.flows[0] for window in windows], [window.flows[1] for window in windows]
        totals = np.array([window.totals for window in windows], np.int64).reshape(-1, ROWS, self.width)
        counts = np.array([len(part) for part in flows], np.int64)
        full, first = self._fresh, 0 if self._fresh else self._found_saved
        self._mark_saved()
        candidates = np.concatenate([np.empty(0, np.uint64), *flows])
        between = np.concatenate([as_bytes(np.empty(0, ENDS)), *ends])
        return Backup(full, (epochs, totals, counts, candidates, between, self.found[first:].copy()))

    def backup_all(self) -> Backup:
        self._fresh = True
        return self.backup_state()

    def recover_state(self, backup: Backup) -> None:
        epochs, totals, counts, candidates, ends, found = self._checked(backup.arrays)
        self.windows = {
            int(epoch): SketchWindow(part.copy(), np.zeros_like(part)) for epoch, part in zip(epochs, totals)
        }
        stops = np.cumsum(counts)
        for window, start, stop in zip(self.windows.values(), stops - counts, stops, strict=True):
            window.add(candidates[start:stop], ends[start:stop])
        self.found = found.copy() if backup.full else np.concatenate([self.found, found])
        self._mark_saved()

    def _mark_saved(self) -> None:
        for window in self.windows.values():
            window.unsaved[:] = 0
        self._found_saved, self._fresh, self._closed = len(self.found), False, False

    def _checked(self, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        if [array.dtype for array in arrays] != [np.int64, np.int64, np.int64, np.uint64, np.uint8, FOUND]:
            raise ValueError("a backup of merged sketches does not consist of such arrays")
        epochs, totals, counts, candidates, ends, _ = arrays
        if totals.shape != (len(epochs), ROWS, self.width) or counts.shape != epochs.shape:
            raise ValueError(f"a backup of sketches of another shape than {(ROWS, self.width)}")
        if (counts < 0).any() or not counts.sum() == len(candidates) == len(of_bytes(ends)):
            raise ValueError("a backup of merged sketches with candidates that are missing")
        return arrays


class GlobalSketch(DataflowOperator):
    """Destination: merges the sketches of a window and reports the candidates above `threshold` bytes.

    Its items are sketches, few and large: run it with a Theta and an L of 0, so that none is lost (AF 6.1.2).
    """

    meanings: ClassVar[Mapping[str, str]] = {"heavy_hitters": "heavy hitters found so far, over all windows"}
    writes = ("heavy_hitters",)

    def __init__(self, threshold: Threshold = THRESHOLD_BYTES, width: Width = WIDTH) -> None:
        check(self, threshold=threshold, width=width)
        self._threshold, self._width = float(threshold), width
        self.state: MergedSketches = MergedSketches(self._width)

    def open(self, context: Context) -> None:
        self._hashes = CountMin(self._width, context.seed)

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
        out.write("heavy_hitters", _arrays(found))

    def results(self) -> dict[str, np.ndarray]:
        """One entry per heavy hitter of a window: its `epoch`, `flow`, `bytes`, `error_max` and `ends`.

        `bytes` is never below the truth, and above it by more than `error_max` with a probability of at most e^-4.
        `ends`: uint8 (n, 38), between whom the flow is (operators/packets/flows.py).
        """
        return {"epoch": self.state.found["epoch"].copy(), **_arrays(self.state.found)}

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`heavy_hitters`: of each window, the largest first."""
        columns = {"window": results[0]["epoch"], **cls.window_columns("heavy_hitters", results[0])}
        if of_bytes(results[0]["ends"])["version"].all():
            del columns["flow"]  # nobody needs it who has the addresses
        order = np.lexsort((columns["window"], -columns["bytes"]))
        note = f"bytes are never too few; too many by over error_max with a probability of {math.exp(-ROWS):.1%}"
        return {"heavy_hitters": Table(ordered(columns, order), note)}

    @classmethod
    def window_columns(cls, name: str, arrays: Arrays) -> dict[str, np.ndarray]:
        """Addresses, protocol, ports, bytes and their error, and the number of the flow."""
        sizes = {name: arrays[name] for name in ("bytes", "error_max", "flow")}
        return {**ends_columns(of_bytes(arrays["ends"])), **sizes}

    def metrics(self) -> dict[str, float]:
        return {"heavy_hitters": float(len(self.state.found))}

    def _heavy(self, epoch: int) -> np.ndarray:
        """The window's candidates whose merged estimate exceeds the threshold, by flow."""
        window = self.state.windows.get(epoch)
        if window is None:
            return np.empty(0, FOUND)
        flows, ends = window.flows
        sizes = estimate(window.totals, self._hashes.columns(flows))
        above = sizes > math.floor(self._threshold)
        found = np.empty(int(above.sum()), FOUND)
        found["epoch"], found["flow"], found["bytes"] = epoch, flows[above], sizes[above]
        found["error_max"] = math.ceil(math.e / self._width * window.totals[0].sum())
        found["ends"] = np.ascontiguousarray(ends[above]).view(FOUND["ends"]).reshape(-1)
        return found


def _arrays(found: np.ndarray) -> dict[str, np.ndarray]:
    """The flows found as plain arrays."""
    rows = np.ascontiguousarray(found["ends"]).view(np.uint8).reshape(len(found), ENDS.itemsize)
    return {**{name: found[name].copy() for name in ("flow", "bytes", "error_max")}, "ends": rows}
