"""Arithmetic of GF(2^8) on arrays of elements, for the small matrices that decoding inverts.

Blocks are combined by the C kernels; here time does not matter. Elements are uint8, addition is XOR.
"""

from __future__ import annotations

import numpy as np

from riprap.codec.codes._kernels import gf256_product

_PRODUCTS = np.zeros((256, 256), np.uint8)
for _bit in range(8):  # a product is the sum of those with the bits of a factor: 2048 calls instead of 65536
    _of_bit = np.array([[gf256_product(a, 1 << _bit)] for a in range(256)], np.uint8)
    _PRODUCTS[:, 1 << _bit : 2 << _bit] = _PRODUCTS[:, : 1 << _bit] ^ _of_bit
_INVERSES = np.argmax(_PRODUCTS == 1, axis=1).astype(np.uint8)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The products, element by element, with NumPy's rules of broadcasting."""
    return _PRODUCTS[a, b]


def inverse(a: np.ndarray) -> np.ndarray:
    """The multiplicative inverses; ZeroDivisionError where an element is 0."""
    if not np.all(a):
        raise ZeroDivisionError("0 has no inverse in GF(2^8)")
    return _INVERSES[a]


def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The x with a x = b, for a square `a`, by Gauss-Jordan elimination; ZeroDivisionError if `a` is singular."""
    work = np.concatenate([a, b], axis=1)
    for step in range(len(a)):
        pivot = step + int(np.argmax(work[step:, step] != 0))
        work[[step, pivot]] = work[[pivot, step]]
        work[step] = product(work[step], inverse(work[step, step : step + 1]))
        factors = work[:, step].copy()
        factors[step] = 0
        work ^= product(factors[:, None], work[None, step])
    return work[:, len(a) :]
