"""Writes arrays into an .npz file, whatever their names are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO
from zipfile import ZipFile

import numpy as np


def write_arrays(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write what `np.savez` would, of any names: it takes `file` and `allow_pickle` for parameters of its own.

    ValueError for an array of objects.
    """
    with ZipFile(file, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
