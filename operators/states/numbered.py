"""States by number, such as the panes of a window: how a backup holds them, and how they come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from riprap.operators.states.base import Backup, State

Part = TypeVar("Part", bound=State)


def packed(head: Sequence[int], backups: Mapping[int, Backup]) -> list[np.ndarray]:
    """An array of numbers, `head` and three for each state (its own, 1 when its backup is full, and how many arrays
    that has), and the arrays of all."""
    about = [field for number, one in backups.items() for field in (number, int(one.full), len(one.arrays))]
    return [np.array([*head, *about], np.int64), *(array for one in backups.values() for array in one.arrays)]


def recovered(
    about: np.ndarray, arrays: Sequence[np.ndarray], known: Mapping[int, Part], make: Callable[[], Part]
) -> dict[int, Part]:
    """The states of a backup, `about` with a row for each: those of before go on, and others begin with it."""
    found: dict[int, Part] = {}
    for number, full, count in about.tolist():
        found[number] = known[number] if number in known else make()  # an empty one is false
        found[number].recover_state(Backup(bool(full), tuple(arrays[:count])))
        arrays = arrays[count:]
    return found


def of_groups(tasks: Sequence[Mapping[int, Part]], make: Callable[[], Part], groups: range) -> dict[int, Part]:
    """The states of some key groups, of all that these tasks have."""
    found = {number: make() for number in sorted({number for task in tasks for number in task})}
    for number, part in found.items():
        part.recover_groups([task[number].backup_all() for task in tasks if number in task], groups)
    return found
