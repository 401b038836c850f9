"""The laws of an erasure code, tried on small random blocks: what a job relies on, whoever wrote the code.

`check_code` is for users' own codes: `riprap run` calls it before it starts anything, and so may a test of theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from riprap.codec.codes.custom import CustomCode
from riprap.codec.codes.patterns import losses
from riprap.codec.errors import ConfigError
from riprap.codec.importing import own_line

PATTERNS_MAX = 300
"""Losses that are tried; all of them where there are no more, else as many drawn at random, r at a time."""
TOLERANCE = 1e-6
"""The part of the largest value of the data by which a code that decodes with rounding may be off."""
ROWS, COLUMNS = 6, 4
BITS = (0, 1 << 63, 0x7FF0 << 48, 0x7FF8 << 48 | 5, 0x7FF0 << 48 | 1, (1 << 64) - 1, 0x000F << 48)
"""Of float64: zeros, infinity, numbers that are none, and one too small to be normal."""


def check_code(path: str, k: int, r: int) -> CustomCode:
    """Make the code `module:Class` and try every law; ConfigError says which one it breaks, and where."""
    code = CustomCode(path, k, r)
    rng = np.random.default_rng(0)
    try:
        _check(code, rng)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"code {path!r} failed on small blocks: {own_line(error)}", "Correct that line.") from error
    return code


def _check(code: CustomCode, rng: np.random.Generator) -> None:
    data = [rng.standard_normal((ROWS, COLUMNS)) for _ in range(code.k)]
    blocks = [*data, *code.encode(data)]
    again = code.encode(data)
    if any(a.tobytes() != b.tobytes() for a, b in zip(blocks[code.k :], again)):
        _refuse(code, "encode gives other parity for the same data")
    tolerance = 0.0 if code.exact else TOLERANCE * float(np.abs(data).max())
    for lost in losses(code.k, code.r, PATTERNS_MAX, rng):
        _check_loss(code, blocks, lost, tolerance)
    _check_short_blocks(code, data, tolerance)
    if code.exact:
        _check_bits(code, rng)
    if code.linear:
        _check_linear(code, blocks, rng, tolerance)


def _check_loss(code: CustomCode, blocks: list[np.ndarray], lost: tuple[int, ...], tolerance: float) -> None:
    left = {i: block for i, block in enumerate(blocks) if i not in lost}
    decoded = code.decode(dict(list(left.items())[: code.k]))  # any k must do, and no more are there
    _compare(code, decoded, blocks[: code.k], tolerance, f"without the blocks {list(lost)}")


def _check_short_blocks(code: CustomCode, data: list[np.ndarray], tolerance: float) -> None:
    """The last row of an epoch: shorter blocks, and then none."""
    if not code.r:
        return
    short = [block[: max(1, ROWS - i)] if i < max(1, code.k - 1) else block[:0] for i, block in enumerate(data)]
    short[0] = data[0]
    parity = code.encode(short)
    lost = min(code.k, code.r)
    left = {i: block for i, block in enumerate([*short, *parity]) if i >= lost}
    decoded = [block[: len(wanted)] for block, wanted in zip(code.decode(left), short)]
    _compare(code, decoded, short, tolerance, "of an epoch's last row, with blocks of different lengths")


def _check_bits(code: CustomCode, rng: np.random.Generator) -> None:
    data = [rng.choice(np.array(BITS, np.uint64), (ROWS, COLUMNS)).view(np.float64) for _ in range(code.k)]
    blocks = dict(enumerate([*data, *code.encode(data)]))
    for i in range(min(code.k, code.r)):
        del blocks[i]
    _compare(code, code.decode(blocks), data, 0.0, "of infinities and NaN")


def _check_linear(code: CustomCode, blocks: list[np.ndarray], rng: np.random.Generator, tolerance: float) -> None:
    weights = rng.standard_normal((COLUMNS, 2))
    results = [block @ weights for block in blocks]
    left = {i: result for i, result in enumerate(results) if i >= min(code.k, code.r)}
    bound = max(tolerance, TOLERANCE) * float(np.abs(weights).sum())
    _compare(code, code.decode(left), results[: code.k], bound, "of a linear function's results, though it is `linear`")


def _compare(code: Any, found: list[np.ndarray], wanted: list[np.ndarray], tolerance: float, where: str) -> None:
    for i, (block, expected) in enumerate(zip(found, wanted)):
        same = block.tobytes() == expected.tobytes()
        if not same and not (tolerance and (np.abs(block - expected) <= tolerance).all()):
            bound = f"to {tolerance:.1g}" if tolerance else "to the bit"
            _refuse(code, f"block {i} is not decoded {bound} {where}")


def _refuse(code: CustomCode, what: str) -> None:
    raise ConfigError(
        f"code {code.name!r} with k={code.k} and r={code.r} breaks a law of erasure codes: {what}",
        "Any k of the k + r blocks must give back the data; see docs/schemes.md, or use gf256.",
    )
