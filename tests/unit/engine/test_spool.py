"""Arrays on disk: what they hold, and that files go with them."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from riprap.codec.files import no_space
from riprap.engine.schemes.parts.spool import Spool, is_spooled

sys.path.append(str(Path(__file__).parents[2]))
from full_disk import small_disk


def files() -> int:
    """Unnamed files that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return len({line.split()[4] for line in lines if "(deleted)" in line and os.environ.get("TMPDIR", "/tmp") in line})


@pytest.mark.parametrize("dtype", ["<f8", "|u1", "<i4", [("a", "<f4"), ("b", "<u2")]])
def test_an_array_is_the_same_on_disk(dtype: object) -> None:
    spool = Spool(1 << 12)
    for count in (1, 7, 900):
        array = np.frombuffer(np.random.default_rng(count).bytes(count * np.dtype(dtype).itemsize), dtype)
        stored = spool.put(array)
        assert is_spooled(stored) and not is_spooled(array) and stored.dtype == array.dtype
        assert stored.tobytes() == array.tobytes() and spool.put(stored) is stored


def test_shapes_are_kept_and_strided_arrays_are_taken() -> None:
    array = np.arange(24.0).reshape(4, 6)[:, ::2]
    assert (Spool().put(array) == array).all() and Spool().put(array).shape == (4, 3)
    empty = np.empty((0, 3))
    assert Spool().put(empty) is empty


def test_a_file_goes_with_its_last_array() -> None:
    before, spool, kept = files(), Spool(1 << 16), []
    for number in range(40):
        kept.append(spool.put(np.full(1 << 14, number % 256, np.uint8)))
    assert files() == before + 10, "four arrays a file"
    kept = kept[-1:]
    gc.collect()
    assert files() == before + 1 and kept[0][0] == 39


def test_a_full_disk_is_an_error_and_not_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk.path))
        with pytest.raises(OSError) as raised:
            Spool(1 << 21).put(np.zeros(100))
        said = no_space(raised.value)
        assert said is not None and f"no space left in {disk.path}" in str(said)
        assert Spool(1 << 16).put(np.ones(100)).sum() == 100
