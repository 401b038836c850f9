"""The states of adapted processors and sinks: all that a new incarnation needs, and its distance from the backup.

A backup holds everything each time, or nothing where nothing has changed: models come anew with each epoch anyway.
The divergence of a model is the Euclidean distance from the one that was saved. What cannot be told as a distance,
results of an epoch that is still open and rows that were put out, diverges without bound until it is saved: no
threshold lets go of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import numpy as np

from riprap.operators.states.base import Backup, State

Model = tuple[np.ndarray, ...]
Enter = Callable[[int, Model], None]
Result = Sequence[np.ndarray]


def own(arrays: Sequence[np.ndarray]) -> Model:
    """Copies: arrays of a message are valid during a call alone, and operators go on changing their own."""
    return tuple([np.array(array) for array in arrays])


def distance(model: Model, saved: Model) -> float:
    """Euclidean; from zeros where the arrays are not alike. Infinite where a number is not finite."""
    alike = [a.shape for a in model] == [b.shape for b in saved]
    differences = (np.asarray(a, float) - (b if alike else 0.0) for a, b in zip(model, saved if alike else model))
    with np.errstate(over="ignore", invalid="ignore"):
        found = math.sqrt(sum(float(np.square(one).sum()) for one in differences))
    return found if math.isfinite(found) else math.inf


def packed(fields: Any, arrays: Sequence[np.ndarray]) -> Backup:
    """A whole backup: arrays, with what they are before them."""
    return Backup(True, (np.frombuffer(msgpack.packb(fields), np.uint8), *arrays))


def unpacked(backup: Backup) -> tuple[Any, list[np.ndarray]]:
    """The arguments that `packed` was given; ValueError for anything else."""
    try:
        return msgpack.unpackb(backup.arrays[0].tobytes()), list(backup.arrays[1:])
    except Exception as error:
        raise ValueError(f"no backup of an adapted operator: {error}") from error


class Models(State):
    """The newest feedback of each sink task, as a processor has taken it in; `enter` hands it to the operator."""

    def __init__(self, sinks: int, enter: Enter) -> None:
        self._enter = enter
        self._models: list[Model] = [()] * sinks
        self._saved: list[Model] = [()] * sinks
        self._divergence = 0.0

    def set(self, sink: int, arrays: Sequence[np.ndarray]) -> None:
        """A sink task has committed this."""
        self._models[sink] = own(arrays)
        self._enter(sink, self._models[sink])
        self._divergence = math.hypot(*map(distance, self._models, self._saved))

    def state_divergence(self) -> float:
        return self._divergence

    def backup_state(self) -> Backup:
        unchanged = all(model is saved for model, saved in zip(self._models, self._saved))
        return Backup(False, ()) if unchanged else self.backup_all()

    def backup_all(self) -> Backup:
        self._saved, self._divergence = list(self._models), 0.0
        return packed([len(model) for model in self._models], [array for model in self._models for array in model])

    def recover_state(self, backup: Backup) -> None:
        if not backup.arrays:
            return
        counts, arrays = unpacked(backup)
        for sink, count in enumerate(counts):
            if count:
                self.set(sink, arrays[:count])
            del arrays[:count]
        self._saved, self._divergence = list(self._models), 0.0


class Commits(State):
    """The commits of a sink (its snapshot and the feedback), and results of epochs that are open.

    `snapshot` and `restore` are the operator's; `enter` hands its processor the feedback.
    """

    def __init__(
        self,
        snapshot: Callable[[], Mapping[str, np.ndarray]],
        restore: Callable[[Mapping[str, np.ndarray]], None],
        enter: Callable[[Model], None],
    ) -> None:
        self._snapshot, self._restore, self._enter = snapshot, restore, enter
        self.feedback: Model = ()
        """The feedback of the last commit; empty before the first."""
        self._results: dict[int, dict[int, Result]] = {}
        self._saved: Model = ()
        self._committed = self._changed = self._unbounded = False

    def add(self, epoch: int, start: int, result: Sequence[np.ndarray]) -> None:
        """The result of a block of an epoch that is open; `start` is the number of the block's first item."""
        self._results.setdefault(epoch, {})[start] = own(result)
        self._changed = self._unbounded = True

    def take(self, epoch: int) -> list[Result]:
        """The results of an epoch that is over, in the order of the stream; they belong to it no more."""
        results = self._results.pop(epoch, {})
        return [results[start] for start in sorted(results)]

    def commit(self, feedback: Model, puts_out: bool) -> None:
        """An epoch is committed; `puts_out`: it has added rows to the job's output."""
        self.feedback, self._committed, self._changed = feedback, True, True
        self._unbounded = bool(self._results) or puts_out

    def state_divergence(self) -> float:
        return math.inf if self._unbounded else distance(self.feedback, self._saved)

    def backup_state(self) -> Backup:
        return self.backup_all() if self._changed else Backup(False, ())

    def backup_all(self) -> Backup:
        self._saved, self._changed, self._unbounded = self.feedback, False, False
        snapshot = self._snapshot() if self._committed else {}
        open_results = [
            (epoch, start, result) for epoch, found in self._results.items() for start, result in found.items()
        ]
        fields = {
            "committed": self._committed,
            "feedback": len(self.feedback),
            "names": list(snapshot),
            "results": [[epoch, start, len(result)] for epoch, start, result in open_results],
        }
        arrays = [*self.feedback, *snapshot.values(), *(array for *_, result in open_results for array in result)]
        return packed(fields, own(arrays))

    def recover_state(self, backup: Backup) -> None:
        if not backup.arrays:
            return
        fields, arrays = unpacked(backup)
        rest = iter(arrays)
        self.feedback = own([next(rest) for _ in range(fields["feedback"])])
        self._committed = fields["committed"]
        if self._committed:
            self._restore({name: next(rest) for name in fields["names"]})
            if self.feedback:
                self._enter(self.feedback)
        self._results = {}
        for epoch, start, count in fields["results"]:
            self.add(epoch, start, [next(rest) for _ in range(count)])
        self._saved, self._changed, self._unbounded = self.feedback, False, False
