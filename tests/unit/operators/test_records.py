"""Records as links carry them: the same on the other side, and nothing that is not records."""

from __future__ import annotations

import numpy as np
import pytest

from riprap.operators.inputs.records import packed, unpacked

PACKETS = np.zeros(5, np.dtype([("time_ns", "<i8"), ("source", "u1", (16,)), ("port", "<u2"), ("flow", "<u8")]))
PACKETS["flow"], PACKETS["source"] = np.arange(5), np.arange(80).reshape(5, 16)


@pytest.mark.parametrize("records", [PACKETS, PACKETS[:0], PACKETS[1:4], PACKETS[::2]])
def test_records_come_out_as_they_went_in(records: np.ndarray) -> None:
    found = unpacked([np.frombuffer(array.tobytes(), array.dtype) for array in packed([records])])
    assert found.dtype == records.dtype and found.tobytes() == records.tobytes()


def test_bytes_that_lie_together_are_not_copied() -> None:
    assert np.shares_memory(packed([PACKETS[1:3]])[0], PACKETS)


def test_other_arrays_pass() -> None:
    plain = (np.arange(3.0), np.arange(2))
    assert packed(plain) == plain and unpacked([PACKETS]) is PACKETS


@pytest.mark.parametrize(
    "arrays",
    [
        (np.arange(3.0), np.arange(2.0)),
        (np.zeros(8, np.uint8), np.frombuffer(b"nonsense", np.uint8)),
        (np.zeros(8, np.uint8), np.frombuffer(b'[["a", "O", []]]', np.uint8)),
        (np.zeros(7, np.uint8), packed([PACKETS])[1]),
    ],
)
def test_what_is_no_records_is_refused(arrays: tuple[np.ndarray, ...]) -> None:
    with pytest.raises(ValueError):
        unpacked(arrays)
