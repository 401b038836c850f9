"""Keys by group: a stable hash of each, so that a key goes to the same task today and in a savepoint's next job."""

import numpy as np

Keys = np.ndarray | tuple[np.ndarray, np.ndarray]
GROUPS: int
"""The groups that keys are parted into, and the most tasks that a stage which gets items by key can have."""

def groups_of(keys: Keys) -> np.ndarray:
    """The group of each key (uint8): of int64 keys, or of byte strings as a pair of bytes (uint8) and n + 1 offsets.

    ValueError where offsets go back, or beyond the bytes.
    """

def dealt(groups: np.ndarray, tasks: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the keys in the order of their tasks, those of a task in their own order; and each task's bounds in it.

    (int64 (n,), int64 (tasks + 1,)). ValueError for more tasks than groups.
    """

def taken(data: np.ndarray, offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The byte strings of these places, one behind the other: (bytes, offsets). The places are trusted."""

def places_of_integers(keys: np.ndarray, first: int, stop: int) -> np.ndarray: ...
