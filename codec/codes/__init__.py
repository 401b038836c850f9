"""Erasure codes by name: `make_code("gf256", k=4, r=2)`.

| name | decodes | linear | limits | for |
|---|---|---|---|---|
| vandermonde | with rounding | yes | (k-1)(r-1) < 1024 | small k and r, as in the StreamLEC paper |
| stable | with rounding | yes | | coded computation with larger k and r |
| xor | exactly | no | r <= 1 | one failure, at the speed of memory |
| gf256 | exactly | no | | any number of failures, a bit-identical model |
| replication | exactly | yes | k = 1 | parity blocks are copies |
| module:Class | as it says | as it says | | a code of the user's own: codec/codes/custom.py |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from riprap.codec.codes import generators
from riprap.codec.codes.arithmetic import Arithmetic, ByteArithmetic, RealArithmetic
from riprap.codec.codes.code import Code
from riprap.codec.codes.custom import CustomCode
from riprap.codec.codes.encoder import Encoder
from riprap.codec.ids import BLOCKS_MAX

__all__ = ["CODES", "Code", "CustomCode", "Encoder", "load_code", "make_code"]


class _Family(NamedTuple):
    coefficients: Callable[[int, int], np.ndarray]
    arithmetic: Arithmetic
    linear: bool
    k_max: int = BLOCKS_MAX
    r_max: int = BLOCKS_MAX


CODES = {
    "vandermonde": _Family(generators.vandermonde, RealArithmetic(), linear=True),
    "stable": _Family(generators.stable, RealArithmetic(), linear=True),
    "xor": _Family(generators.ones, ByteArithmetic(), linear=False, r_max=1),
    "gf256": _Family(generators.cauchy, ByteArithmetic(), linear=False),
    "replication": _Family(generators.ones, ByteArithmetic(), linear=True, k_max=1),
}
"""The codes, by the name that a topology gives."""


def make_code(name: str, k: int, r: int) -> Code:
    """The code `name` with k data and r parity blocks; r = 0 means no parity. ValueError says what is allowed."""
    family = CODES.get(name)
    if family is None:
        raise ValueError(f"{name!r} is not a code; expected one of {', '.join(CODES)}")
    if not 1 <= k <= family.k_max:
        raise ValueError(f"{name} takes k from 1 to {family.k_max}, not {k}")
    if not 0 <= r <= family.r_max:
        raise ValueError(f"{name} takes r from 0 to {family.r_max}, not {r}")
    if k + r > BLOCKS_MAX:
        raise ValueError(f"k + r is at most {BLOCKS_MAX}, not {k} + {r}")
    return Code(name, family.coefficients(k, r), family.arithmetic, family.linear)


def load_code(name: str, k: int, r: int) -> Code | CustomCode:
    """The code that a topology names: one of these, or the user's own by its import path. ValueError or ConfigError."""
    return CustomCode(name, k, r) if ":" in name else make_code(name, k, r)
