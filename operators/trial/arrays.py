"""Arrays as messages bring them, and the first difference of two lists of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import numpy as np

OFFSETS = 8
"""The number of addresses, from one aligned to 8 bytes on, at which an array is tried."""


def received(array: np.ndarray, offset: int = 1) -> np.ndarray:
    """A copy as a message may bring it: read-only, `offset` bytes behind an aligned address."""
    buffer = np.zeros(array.nbytes + offset, dtype=np.uint8)
    buffer[offset:] = np.frombuffer(array.tobytes(), dtype=np.uint8)
    view = buffer[offset:].view(array.dtype).reshape(array.shape)
    view.flags.writeable = False
    return view


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that is read-only."""
    return received(array, 0)


def stored(array: np.ndarray) -> np.ndarray:
    """A copy as a backup server gives it back: read-only, with one dimension at least."""
    return received(np.ascontiguousarray(array))


def all_received(arrays: Iterable[np.ndarray]) -> list[np.ndarray]:
    """All of them as messages bring them."""
    return [received(array) for array in arrays]


def copies(arrays: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Copies that nobody else holds."""
    return [np.array(array) for array in arrays]


def cut(rows: np.ndarray, pieces: int) -> Iterator[np.ndarray]:
    """Consecutive pieces of about equal length, none of them empty."""
    yield from np.array_split(rows, min(pieces, max(len(rows), 1)))


def first_difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    """The first place where two lists of arrays differ in a bit, in words; empty where they do not."""
    for number, (one, other) in enumerate(zip_longest(found, wanted)):
        if one is None or other is None:
            return f"{len(found)} arrays and {len(wanted)}"
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return f"array {number} is {one.dtype} of shape {one.shape} and {other.dtype} of shape {other.shape}"
        if one.tobytes() != other.tobytes():
            return f"array {number}{_first_entry(one, other)}"
    return ""


def differing_names(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> str:
    """The same of arrays by name, which come in the same order."""
    if list(found) != list(wanted):
        return f"{', '.join(found) or 'nothing'} and {', '.join(wanted) or 'nothing'}"
    for name in found:
        if where := first_difference([np.asarray(found[name])], [np.asarray(wanted[name])]):
            return f"{name}: {where}"
    return ""


def not_finite(arrays: Iterable[np.ndarray]) -> str:
    """Share of the first array with NaN or infinity that is not finite; empty where none has any."""
    for number, array in enumerate(arrays):
        if array.dtype.kind == "f" and (count := int((~np.isfinite(array)).sum())):
            return f"{count:,} of {array.size:,} numbers of array {number} are NaN or infinite"
    return ""


def _first_entry(one: np.ndarray, other: np.ndarray) -> str:
    width = max(one.dtype.itemsize, 1)
    apart = np.frombuffer(one.tobytes(), np.uint8) != np.frombuffer(other.tobytes(), np.uint8)
    place = int(np.argmax(apart)) // width
    index = ", ".join(map(str, np.unravel_index(place, one.shape))) if one.ndim else ""
    return f"[{index}] is {_text(one.flat[place])} and {_text(other.flat[place])}"


def _text(value: np.generic) -> str:
    return f"{float(value):.17g}" if value.dtype.kind == "f" else str(value)
