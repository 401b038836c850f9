"""The code `stable`: MDS over the integers, and precise where powers of two are not."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from riprap.codec import make_code
from riprap.codec.codes.generators import stable

ERROR_MAX = 1e-9


def determinant(matrix: list[list[Fraction]]) -> Fraction:
    """By expansion along the first row: slow and plain."""
    if not matrix:
        return Fraction(1)
    total = Fraction(0)
    for i, top in enumerate(matrix[0]):
        total += (-1) ** i * top * determinant([row[:i] + row[i + 1 :] for row in matrix[1:]])
    return total


@pytest.mark.parametrize(("k", "r"), [(1, 1), (2, 2), (4, 2), (5, 3), (6, 4), (2, 5)])
def test_every_square_submatrix_is_invertible_in_exact_arithmetic(k: int, r: int) -> None:
    exact = [[Fraction(c) for c in row] for row in stable(k, r)]
    for size in range(1, min(k, r) + 1):
        for rows in combinations(range(r), size):
            for columns in combinations(range(k), size):
                assert determinant([[exact[j][i] for i in columns] for j in rows]) != 0


@pytest.mark.parametrize(("k", "r"), [(4, 2), (16, 4), (100, 50), (1, 254), (254, 1), (5, 0)])
def test_coefficients_are_short_binary_fractions_of_moderate_size(k: int, r: int) -> None:
    matrix = stable(k, r)
    assert matrix.shape == (r, k)
    assert (matrix[:1] == 1).all()
    assert (matrix * 2**8 % 1 == 0).all() and (matrix != 0).all()
    rms = np.sqrt((matrix**2).mean(axis=1))
    assert ((rms >= 0.5) & (rms < 2.1)).all()


def test_any_loss_at_k_16_r_4_decodes_to_nine_digits() -> None:
    """All patterns of 1 to 4 lost blocks out of 20; the error is relative to the largest value of a block."""
    code = make_code("stable", 16, 4)
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(16) * 10.0 ** rng.integers(-2, 3) for _ in range(16)]
    blocks = data + code.encode(data)
    largest = np.abs(data).max()
    worst, patterns = 0.0, 0
    for size in range(1, 5):
        for lost in combinations(range(20), size):
            decoded = code.decode({i: block for i, block in enumerate(blocks) if i not in lost})
            worst = max(worst, max((np.abs(decoded[i] - data[i]).max() for i in lost if i < 16), default=0.0))
            patterns += 1
    assert patterns == 20 + 190 + 1140 + 4845
    assert worst / largest < ERROR_MAX


def test_powers_of_two_lose_all_digits_there() -> None:
    """Why `stable` exists: the same size with the paper's coefficients."""
    losses = [(0, 1, 2, 3), (0, 5, 10, 15)]
    assert all(make_code("vandermonde", 16, 4).condition_number(lost) > 1e15 for lost in losses)
    assert all(make_code("stable", 16, 4).condition_number(lost) < 1e5 for lost in losses)


def test_the_condition_number_bounds_the_error() -> None:
    code = make_code("stable", 10, 4)
    rng = np.random.default_rng(1)
    for _ in range(50):
        lost = tuple(rng.choice(14, 4, replace=False))
        data = [rng.standard_normal(30) for _ in range(10)]
        blocks = data + code.encode(data)
        decoded = code.decode({i: block for i, block in enumerate(blocks) if i not in lost})
        error = np.linalg.norm(np.array(decoded) - data) / np.linalg.norm(data)
        assert error <= 20 * code.condition_number(lost) * np.finfo(float).eps
