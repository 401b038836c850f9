"""The field GF(2^8) obeys its laws, and its matrices those of linear algebra."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from dumb_gf256 import matmul
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.codes import gf256
from riprap.codec.codes._kernels import gf256_product
from riprap.codec.codes.generators import cauchy

ELEMENTS = np.arange(256, dtype=np.uint8)
element = st.integers(0, 255)


def test_multiplication_commutes_and_has_0_and_1() -> None:
    table = gf256.product(ELEMENTS[:, None], ELEMENTS[None, :])
    assert (table == table.T).all()
    assert (table[0] == 0).all() and (table[1] == ELEMENTS).all()


def test_every_element_but_0_has_an_inverse() -> None:
    assert (gf256.product(ELEMENTS[1:], gf256.inverse(ELEMENTS[1:])) == 1).all()
    with pytest.raises(ZeroDivisionError):
        gf256.inverse(ELEMENTS)


def test_2_generates_the_field_of_0x11d() -> None:
    powers = [1]
    for _ in range(254):
        powers.append(gf256_product(powers[-1], 2))
    assert sorted(powers) == list(range(1, 256))
    assert powers[8] == 0x1D  # x^8 = x^4 + x^3 + x^2 + 1
    assert gf256_product(powers[-1], 2) == 1


@given(element, element, element)
def test_multiplication_associates_and_distributes(a: int, b: int, c: int) -> None:
    p = gf256_product
    assert p(p(a, b), c) == p(a, p(b, c))
    assert p(a, b ^ c) == p(a, b) ^ p(a, c)


def test_tables_equal_the_slow_product() -> None:
    for a in range(256):
        assert gf256.product(np.uint8(a), ELEMENTS).tolist() == [gf256_product(a, b) for b in range(256)]


@given(st.integers(1, 8), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_solve_inverts_matmul(size: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 256, (size, size), np.uint8)
    x = rng.integers(0, 256, (size, width), np.uint8)
    try:
        solved = gf256.solve(a, matmul(a, x))
    except ZeroDivisionError:
        assert singular(a)
        return
    assert (solved == x).all()


def singular(a: np.ndarray) -> bool:
    """Whether some combination of rows vanishes: the last pivot of elimination without row exchange of zero columns."""
    rank, work = 0, a.copy()
    for column in range(work.shape[1]):
        rows = np.flatnonzero(work[rank:, column]) + rank
        if len(rows):
            work[[rank, rows[0]]] = work[[rows[0], rank]]
            for other in range(rank + 1, len(work)):
                factor = gf256.product(work[other, column], gf256.inverse(work[rank, column]))
                work[other] ^= gf256.product(factor, work[rank])
            rank += 1
    return rank < len(a)


@pytest.mark.parametrize(("k", "r"), [(4, 2), (5, 3), (6, 4), (3, 5)])
def test_every_square_submatrix_of_the_cauchy_matrix_is_invertible(k: int, r: int) -> None:
    matrix = cauchy(k, r)
    assert (matrix[0] == 1).all() and (matrix[:, 0] == 1).all()
    for size in range(1, min(k, r) + 1):
        for rows in combinations(range(r), size):
            for columns in combinations(range(k), size):
                assert not singular(matrix[np.ix_(rows, columns)])
