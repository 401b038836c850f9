"""Matrices over GF(2^8) multiplied in the plainest way, for kernels and decoding to be compared with."""

from __future__ import annotations

import numpy as np

from riprap.codec.codes.gf256 import product


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The matrix product of an (l, m) and an (m, n) matrix."""
    return np.bitwise_xor.reduce(product(a[:, :, None], b[None, :, :]), axis=1)
