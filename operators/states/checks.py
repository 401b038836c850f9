"""Checks of the arrays that states are handed: the kernels trust them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeGuard

import numpy as np

from riprap.codec.key_groups import groups_of, places_of_integers, taken

PackedKeys = tuple[np.ndarray, np.ndarray]
"""Byte strings: all their bytes (uint8), and n + 1 ascending offsets (int64) at which they begin and end."""

Keys = np.ndarray | PackedKeys
"""Keys of a hash map or set: an int64 array (uint64 is taken bit by bit), or packed byte strings."""


def column(values: Any, dtype: type[np.generic], what: str) -> np.ndarray:
    """A contiguous one-dimensional array of the type, copied only where it was none. ValueError if it cannot be one."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{what} must be a one-dimensional array, not of shape {array.shape}")
    if array.dtype != dtype and array.size and not np.can_cast(array.dtype, dtype, "safe"):
        raise ValueError(f"{what} must be {np.dtype(dtype)}, not {array.dtype}")
    return np.require(array, dtype, ["C", "A"])


def key_column(keys: Keys, packed: bool) -> Keys:
    """Keys as the kernels take them. ValueError when they are of another kind."""
    if packed:
        if not is_pair(keys):
            raise ValueError("keys must be a pair of arrays: bytes (uint8) and offsets (int64)")
        return column(keys[0], np.uint8, "bytes of keys"), column(keys[1], np.int64, "offsets of keys")
    if isinstance(keys, tuple):
        raise ValueError("keys must be one array of int64, not a pair")
    array = np.asarray(keys)
    return column(array.view(np.int64) if array.dtype == np.uint64 else array, np.int64, "keys")


def is_pair(keys: Any) -> TypeGuard[PackedKeys]:
    """True when these are packed byte strings, by their form."""
    return isinstance(keys, tuple) and len(keys) == 2


def saved_arrays(arrays: Sequence[np.ndarray], dtypes: Sequence[type[np.generic]]) -> list[np.ndarray]:
    """The arrays of a backup, which must be one-dimensional and of just these types. ValueError when not."""
    if len(arrays) != len(dtypes):
        raise ValueError(f"the backup has {len(arrays)} arrays instead of {len(dtypes)}")
    for array, dtype in zip(arrays, dtypes):
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
            raise ValueError(f"the backup has {_form(array)} where one-dimensional {np.dtype(dtype)} should be")
    return [np.require(array, dtype, ["C", "A"]) for array, dtype in zip(arrays, dtypes)]


def saved_keys(arrays: Sequence[np.ndarray], packed: bool) -> Keys:
    """The keys of a backup. ValueError when they are not well-formed."""
    if not packed:
        return saved_arrays(arrays, [np.int64])[0]
    data, offsets = saved_arrays(arrays, [np.uint8, np.int64])
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(data) or (np.diff(offsets) < 0).any():
        raise ValueError(f"the offsets of the backup's keys do not ascend from 0 to {len(data)}")
    return data, offsets


def keys_at(keys: Keys, places: np.ndarray) -> Keys:
    """The keys at these places, in the same form."""
    return taken(*keys, places) if is_pair(keys) else keys[places]


def places_in(keys: Keys, groups: range) -> np.ndarray:
    """The places of the keys of these key groups."""
    if isinstance(keys, np.ndarray):
        return places_of_integers(keys, groups.start, groups.stop)
    found = groups_of(keys)
    return np.flatnonzero((found >= groups.start) & (found < groups.stop))


def count_of(keys: Keys) -> int:
    """The number of keys."""
    return len(keys[1]) - 1 if is_pair(keys) else len(keys)


def pack_keys(strings: Sequence[bytes]) -> PackedKeys:
    """Byte strings as packed keys."""
    offsets = np.zeros(len(strings) + 1, np.int64)
    np.cumsum([len(string) for string in strings], out=offsets[1:])
    return np.frombuffer(b"".join(strings), np.uint8), offsets


def unpack_keys(keys: PackedKeys) -> list[bytes]:
    """The byte strings of packed keys."""
    data, offsets = keys[0].tobytes(), keys[1].tolist()
    return [data[start:stop] for start, stop in pairwise(offsets)]


def _form(array: object) -> str:
    return f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
