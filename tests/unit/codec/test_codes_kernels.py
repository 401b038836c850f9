"""The C kernels: every level of instructions against plain loops, and the memory that blocks live in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import psutil
import pytest
from dumb_gf256 import matmul
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.codes import gf256
from riprap.codec.codes._kernels import (
    LEVELS,
    ByteMatrix,
    Coefficients,
    RealMatrix,
    aligned_empty,
    force_level,
    level,
    supported_levels,
)


@pytest.fixture(autouse=True)
def highest_level_again() -> Iterator[None]:
    yield
    force_level(supported_levels()[-1])


def dumb_real(coef: np.ndarray, inputs: list[np.ndarray], out: np.ndarray, add: bool) -> np.ndarray:
    """One product and one sum at a time, in the order of columns: the rounding that all levels must show."""
    result = out.copy()
    for j in range(len(coef)):
        for i, block in enumerate(inputs):
            product = block * coef[j, i]
            result[j] = result[j] + product if add or i else product
    return result


def dumb_bytes(coef: np.ndarray, inputs: list[np.ndarray], out: np.ndarray, add: bool) -> np.ndarray:
    products = matmul(coef, np.array(inputs))
    return out ^ products if add else products


def run(matrix: Coefficients, inputs: list[np.ndarray], out: np.ndarray, offset: int, add: bool) -> np.ndarray:
    """Combine at every level, into and from memory at this offset from alignment; assert that all levels agree."""
    results = set()
    for name in supported_levels():
        force_level(name)
        size = inputs[0].nbytes
        sources = [placed(block.view(np.uint8), offset) for block in inputs]
        targets = [placed(row.view(np.uint8), offset) for row in out]
        matrix.combine(targets, sources, 0, 0, size, add)
        results.add(b"".join(target.tobytes() for target in targets))
    assert len(results) == 1
    return np.frombuffer(results.pop(), out.dtype).reshape(out.shape)


def placed(values: np.ndarray, offset: int) -> np.ndarray:
    memory = aligned_empty((offset + values.nbytes,), np.uint8)[offset:]
    memory[:] = values
    return memory


sizes = st.one_of(st.integers(0, 200), st.integers(1000, 9000))
common = (st.integers(1, 9), st.integers(1, 12), sizes, st.integers(0, 65), st.booleans(), st.integers(0, 2**32 - 1))


@given(*common)
@settings(max_examples=120, deadline=None)
def test_real_levels_equal_plain_loops_bit_for_bit(rows, columns, size, offset, add, seed) -> None:
    rng = np.random.default_rng(seed)
    coef = rng.standard_normal((rows, columns))
    inputs = list(rng.standard_normal((columns, size)))
    out = rng.standard_normal((rows, size))
    actual = run(RealMatrix(coef), inputs, out, offset, add)
    assert actual.tobytes() == dumb_real(coef, inputs, out, add).tobytes()


@given(*common, st.floats(0, 1))
@settings(max_examples=120, deadline=None)
def test_byte_levels_equal_table_look_ups(rows, columns, size, offset, add, seed, ones) -> None:
    rng = np.random.default_rng(seed)
    coef = rng.integers(0, 256, (rows, columns), np.uint8)
    coef[rng.random(rows) < ones] = 1  # rows of ones take a path of their own
    inputs = list(rng.integers(0, 256, (columns, size), np.uint8))
    out = rng.integers(0, 256, (rows, size), np.uint8)
    actual = run(ByteMatrix(coef), inputs, out, offset, add)
    assert (actual == dumb_bytes(coef, inputs, out, add)).all()


def test_every_product_of_two_bytes_at_every_level() -> None:
    values = np.arange(256, dtype=np.uint8)
    for a in range(256):
        actual = run(ByteMatrix([[a]]), [values], np.zeros((1, 256), np.uint8), 0, False)
        assert (actual[0] == gf256.product(np.uint8(a), values)).all()


def test_only_the_asked_columns_and_bytes_are_touched() -> None:
    coef = np.array([[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])
    out = [np.full(8, -1.0), np.full(8, -2.0)]
    RealMatrix(coef).combine(out, [np.ones(5), np.full(5, 3.0)], 1, 16, 40, False)
    assert out[0].tolist() == [-1, -1, 310, 310, 310, -1, -1, -1]
    assert out[1].tolist() == [-2, -2, 620, 620, 620, -2, -2, -2]


def test_blocks_that_do_not_fit_the_matrix_are_refused() -> None:
    matrix = RealMatrix(np.ones((1, 2)))
    block, out = np.ones(4), np.zeros(4)
    for outputs, inputs, column, begin, end in [
        ([out, out], [block], 0, 0, 32),
        ([out], [block] * 3, 0, 0, 32),
        ([out], [block], 2, 0, 32),
        ([out], [block], -1, 0, 32),
        ([out], [], 0, 0, 32),
        ([out], [block], 0, 0, 33),
        ([out], [block], 0, 8, 0),
        ([out], [block], 0, -8, 8),
    ]:
        with pytest.raises(ValueError):
            matrix.combine(outputs, inputs, column, begin, end, False)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        matrix.combine([out], [block], 0, 0, 32, False)
    assert (out == 0).all()


def test_levels_can_be_forced_and_unknown_ones_not() -> None:
    assert supported_levels() == LEVELS[: len(supported_levels())]
    for name in supported_levels():
        force_level(name)
        assert level() == name
    with pytest.raises(ValueError, match="runs the levels"):
        force_level("mmx")


def test_memory_is_aligned_and_reused_only_when_nobody_looks() -> None:
    first = aligned_empty((100, 11), np.float64)
    address = first.ctypes.data
    assert address % 64 == 0 and first.shape == (100, 11) and first.flags.writeable
    view = first[3:]
    del first
    second = aligned_empty((100, 11), np.float64)
    assert second.ctypes.data != address
    view[:] = 7.0
    del view
    assert aligned_empty((100, 11), np.float64).ctypes.data == address


def test_blocks_in_use_share_no_memory() -> None:
    blocks = [aligned_empty((1 << 16,), np.uint8) for _ in range(64)]
    for i, block in enumerate(blocks):
        block[:] = i
    assert [(int(block.min()), int(block.max())) for block in blocks] == [(i, i) for i in range(64)]
    assert aligned_empty((0, 5), np.float64).shape == (0, 5)


def test_freed_memory_is_bounded() -> None:
    """Blocks of 100 different sizes, 300 MB in all, of which each is freed before the next."""
    process = psutil.Process()
    before = process.memory_info().rss
    for i in range(100):
        aligned_empty(((3 << 20) + 4096 * i,), np.uint8)[:] = 1
    assert process.memory_info().rss - before < 100 << 20
