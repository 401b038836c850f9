"""The coefficients of each code: parity j of a row is the sum over i of coefficients[j, i] * data i.

A code is MDS (any k of its k + r blocks give back the data) exactly when every square submatrix of its coefficients is
invertible. Every function here returns an (r, k) array for which that is proved, not only likely.
"""

from __future__ import annotations

from itertools import count

import numpy as np

from riprap.codec.codes.gf256 import inverse, product

EXPONENT_MAX = 1023  # of a float64


def vandermonde(k: int, r: int) -> np.ndarray:
    """Powers of two, coefficient 2**(i*j), as in StreamLEC (section II-B, figure 2): X1 + X2, X1 + 2 X2.

    MDS because the minors of a Vandermonde matrix with positive rising nodes are positive. Its condition number grows
    exponentially with k and r. ValueError where a coefficient would overflow.
    """
    if (k - 1) * (r - 1) > EXPONENT_MAX:
        raise ValueError(f"vandermonde with k={k}, r={r} needs coefficients over 2**{EXPONENT_MAX}; use 'stable'")
    return np.ldexp(1.0, np.outer(np.arange(r), np.arange(k)))


def stable(k: int, r: int) -> np.ndarray:
    """Small integers (times a power of two for each row) that are scattered as if random, first row all ones.

    They are a Cauchy matrix modulo the least prime p >= k + r, lifted to -p/2..p/2. A submatrix of it has a determinant
    that is not 0 modulo p, so it is not 0: the code is MDS over the reals, and the determinant is at least 1 in size.
    Scattered coefficients are well conditioned; structured real ones (Chebyshev, DCT, real Cauchy) lose to bursts.
    Integers and powers of two are exact, so that every host computes the same coefficients.
    """
    p = _least_prime(k + r)
    cauchy = [[pow(j - (r + i), -1, p) for i in range(k)] for j in range(r)]
    rows = [[_centred(c * pow(first, -1, p), p) for c, first in zip(row, cauchy[0])] for row in cauchy]
    # Half the bits of the mean square: the power of two that brings the row's coefficients to about 1.
    scales = [(sum(c * c for c in row) // k).bit_length() // 2 for row in rows]
    scaled = [[c / 2**scale for c in row] for row, scale in zip(rows, scales)]
    return np.array(scaled, np.float64).reshape(r, k)


def _least_prime(at_least: int) -> int:
    return next(n for n in count(max(2, at_least)) if all(n % d for d in range(2, n)))


def _centred(value: int, p: int) -> int:
    value %= p
    return value - p if 2 * value > p else value


def cauchy(k: int, r: int) -> np.ndarray:
    """A Cauchy matrix over GF(2^8), scaled to have ones in its first row and column; needs k + r <= 256.

    Every square submatrix of a Cauchy matrix is invertible, and scaling of rows and columns keeps that
    (Bloemer et al., An XOR-Based Erasure-Resilient Coding Scheme, 1995). A row of ones costs no multiplication.
    """
    matrix = inverse(np.arange(r, dtype=np.uint8)[:, None] ^ np.arange(r, r + k, dtype=np.uint8)[None, :])
    matrix = product(matrix, inverse(matrix[:1]))
    return product(matrix, inverse(matrix[:, :1]))


def ones(k: int, r: int) -> np.ndarray:
    """All ones over GF(2^8): XOR when r <= 1, copies when k = 1; not MDS otherwise."""
    return np.ones((r, k), np.uint8)
