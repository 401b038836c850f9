"""Records (structured arrays) as links carry them: their bytes, and a second array that describes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from riprap.codec.json_text import to_json


def packed(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Records as two arrays of bytes, not copied where they lie together; any other arrays as they are."""
    names = arrays[0].dtype.names if len(arrays) == 1 else None
    if not names:
        return tuple(arrays)
    (records,) = arrays
    fields = [(name, records.dtype[name].base.str, records.dtype[name].shape) for name in names]
    if np.dtype(fields) != records.dtype:
        raise ValueError(f"records of {records.dtype} have gaps")
    description = np.frombuffer(to_json(fields).encode(), np.uint8)
    return np.ascontiguousarray(records).view(np.uint8), description


def unpacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The records of a block, as a source reads them or as `packed` sent them. ValueError when they are neither."""
    if len(arrays) != 2:
        return arrays[0]
    data, description = arrays
    if not data.dtype == description.dtype == np.uint8 or data.ndim != 1:
        raise ValueError(f"records are two arrays of bytes, not {data.dtype} and {description.dtype}")
    return data.view(_dtype(description.tobytes()))


@lru_cache(maxsize=64)
def _dtype(description: bytes) -> np.dtype:
    try:
        fields = [(str(name), str(code), tuple(map(int, shape))) for name, code, shape in json.loads(description)]
        dtype = np.dtype(fields)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a description of records that describes none: {error}") from error
    if dtype.hasobject:
        raise ValueError("records hold numbers and bytes alone")
    return dtype
