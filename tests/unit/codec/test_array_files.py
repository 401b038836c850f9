"""Arrays in .npz files: the bytes of NumPy's own writer, and names that it cannot write."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest

from riprap.codec.array_files import write_arrays


def written(arrays: dict[str, np.ndarray]) -> BytesIO:
    stream = BytesIO()
    write_arrays(stream, arrays)
    stream.seek(0)
    return stream


def test_the_bytes_are_those_of_numpy() -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "é/b": np.array([True]), "empty": np.zeros((0, 3)), "c": np.array(1)}
    own = BytesIO()
    np.savez(own, **arrays)  # type: ignore[arg-type]
    assert written(arrays).getvalue() == own.getvalue()


@pytest.mark.parametrize("name", ["file", "args", "kwds", "allow_pickle"])
def test_an_array_may_have_any_name(name: str) -> None:
    with np.load(written({name: np.arange(3)})) as found:
        assert found.files == [name] and found[name].tolist() == [0, 1, 2]


def test_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="Object arrays"):
        written({"a": np.array([{}])})
