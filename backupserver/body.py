"""The body of a record: a msgpack map (meta, dtypes, shapes) behind its length, and the arrays' raw bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
import numpy as np

from riprap.backupserver.record import BODY_BYTES_MAX
from riprap.codec.errors import FrameError

META = struct.Struct("<I")
META_BYTES_MAX = 1 << 22
DTYPES = frozenset(("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1"))


def pack_body(meta: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> list[Any]:
    """The body of a record as buffers, without copying arrays that are contiguous.

    ValueError for an array of a type that `unpack_body` would not take, and for a body that no server would.
    """
    flat = [np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for array in arrays]
    odd = [array.dtype for array in flat if array.dtype.str not in DTYPES]
    if odd:
        raise ValueError(f"a record holds arrays of {', '.join(sorted(DTYPES))}, not of {odd[0]}")
    head = msgpack.packb([meta, [[array.dtype.str, list(array.shape)] for array in flat]])
    size = META.size + len(head) + sum(array.nbytes for array in flat)
    if size > BODY_BYTES_MAX:
        raise ValueError(f"a record of {size} bytes is over the limit of {BODY_BYTES_MAX}")
    return [META.pack(len(head)), head, *(array.reshape(-1).view(np.uint8).data for array in flat if array.size)]


def unpack_body(body: memoryview) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Meta and arrays (views of the body); FrameError when it is not well formed."""
    try:
        (length,) = META.unpack_from(body)
        if not 0 < length <= META_BYTES_MAX or META.size + length > len(body):
            raise FrameError("the fields of a record are too long")
        meta, specs = msgpack.unpackb(body[META.size : META.size + length])
        offset, arrays = META.size + length, []
        for name, shape in specs:
            if name not in DTYPES or not all(isinstance(n, int) and n >= 0 for n in shape):
                raise FrameError(f"a record's array is of type {name!r} and shape {shape!r}")
            count = int(np.prod(shape, dtype=object)) if shape else 1
            size = count * np.dtype(name).itemsize
            if offset + size > len(body):
                raise FrameError("a record is shorter than its arrays")
            arrays.append(np.frombuffer(body, name, count, offset).reshape(shape))
            offset += size
    except FrameError:
        raise
    except (ValueError, TypeError, struct.error, msgpack.exceptions.UnpackException) as error:
        raise FrameError(f"a record's fields cannot be read: {error}") from error
    if offset != len(body) or not isinstance(meta, dict):
        raise FrameError("a record is longer than its arrays, or its fields are no map")
    return meta, arrays
