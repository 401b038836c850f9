"""Reads a whole capture at once, and checks that its counts add up."""

from __future__ import annotations

from collections import Counter

import numpy as np

from riprap.prep_spark.capture_files import CaptureFile
from riprap.prep_spark.packet_records import DTYPE, KEPT


def read_capture(path: str) -> tuple[np.ndarray, Counter[str]]:
    """All records of one file that fits in memory, and its counts. PrepError when it is no capture."""
    file = CaptureFile(path)
    records = np.concatenate([np.empty(0, DTYPE), *file])
    assert len(records) == file.counts[KEPT], f"{path}: {len(records)} records, {file.counts}"
    return records, file.counts
