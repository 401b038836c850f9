"""Measures the erasure codes beside memcpy and ISA-L: `python -m bench.codes`, ten seconds on one core.

Everything that a row of a table compares is timed in turns within one loop, so that a noisy machine disturbs all alike;
figures are medians. Speeds are bytes of data (k blocks) per second, whatever the number of parities. Writes
bench/results/codes.json.
"""

from __future__ import annotations

import ctypes
import importlib
import statistics
import time
from collections.abc import Callable
from ctypes.util import find_library
from importlib.util import find_spec
from itertools import combinations, count
from math import comb
from typing import Any

import numpy as np

from bench.runs import save, table
from riprap.codec import Code, make_code
from riprap.codec.codes._kernels import aligned_empty, level

#: Left out of the tables where they are not installed.
pyeclib: Any = importlib.import_module("pyeclib.ec_iface") if find_spec("pyeclib") else None
isa_l: Any = ctypes.CDLL("libisal.so.2") if find_library("isal") else None

KIB = 1024
SIZES = [64 * KIB, 256 * KIB, 1024 * KIB]
ROUNDS = 60
PYECLIB_TYPES = ["isa_l_rs_vand", "isa_l_rs_cauchy"]
WORKING_SET_BYTES = 8 * 1024 * KIB  # rows are cycled through, so that blocks come from beyond the second-level cache
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
Row = dict[str, Any]
Candidate = Callable[[int], object]


def random_rows(k: int, size: int) -> list[list[np.ndarray]]:
    """Stripe rows of k aligned blocks of float64, several so that none stays in a cache near the core."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(max(2, WORKING_SET_BYTES // (k * size))):
        row = [aligned_empty((size // 8,), np.float64) for _ in range(k)]
        for block in row:
            block[:] = rng.standard_normal(size // 8)
        rows.append(row)
    return rows


def in_turns(calls: dict[str, Candidate], rounds: int = ROUNDS) -> dict[str, float]:
    """Median seconds of each candidate, one after the other in every round.

    Each call gets the next number, hence the next row: no candidate finds in a cache what the one before it fetched.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    number = count()
    for turn in range(-3, rounds):
        for name, call in calls.items():
            row = next(number)
            begin = time.perf_counter()
            call(row)
            if turn >= 0:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def copier(rows: list[list[np.ndarray]]) -> Candidate:
    """memcpy of the k blocks of a row; the target stays in the caches, as the parity of the codes does."""
    targets = random_rows(len(rows[0]), rows[0][0].nbytes)[0]

    def copy(turn: int) -> None:
        for target, block in zip(targets, rows[turn % len(rows)]):
            np.copyto(target, block)

    return copy


def incremental(code: Code, rows: list[list[np.ndarray]]) -> Candidate:
    encoder = code.encoder(rows[0][0].shape, np.float64)

    def encode(turn: int) -> list[np.ndarray]:
        for i, block in enumerate(rows[turn % len(rows)]):
            encoder.update(i, block)
        parity = encoder.parity()
        encoder.reset()
        return parity

    return encode


def decoder(code: Code, rows: list[list[np.ndarray]], lost: int) -> Candidate:
    """Decode rows whose first `lost` data blocks are missing."""
    coded = [dict(enumerate(row + code.encode(row))) for row in rows]
    for blocks in coded:
        for i in range(lost):
            del blocks[i]
    return lambda turn: code.decode(coded[turn % len(coded)])


def candidates(code: Code, rows: list[list[np.ndarray]]) -> dict[str, Candidate]:
    """The candidates that are measured of every code."""
    return {
        "memcpy": copier(rows),
        "encode": lambda turn: code.encode(rows[turn % len(rows)]),
        "incremental": incremental(code, rows),
        f"decode {code.r} lost": decoder(code, rows, code.r),
    }


def measure_real() -> list[Row]:
    """Encoding and decoding against memcpy of the same data."""
    results: list[Row] = []
    for name, k, r in [("vandermonde", 4, 2), ("vandermonde", 5, 1), ("stable", 10, 4), ("xor", 5, 1)]:
        code = make_code(name, k, r)
        for size in SIZES:
            seconds = in_turns(candidates(code, random_rows(k, size)))
            results.append(speeds(code, size, seconds, against="memcpy"))
    return results


def measure_gf256() -> list[Row]:
    """gf256 against pyeclib's ISA-L back ends, which also allocate, copy and put a header on every fragment."""
    results: list[Row] = []
    for k, r in [(4, 2), (5, 1), (10, 4)]:
        code = make_code("gf256", k, r)
        for size in SIZES:
            rows = random_rows(k, size)
            seconds = in_turns({**candidates(code, rows), **isa_l_candidates(k, r, rows)})
            best = min((name for name in seconds if name in PYECLIB_TYPES), key=seconds.__getitem__, default="memcpy")
            results.append(speeds(code, size, seconds, against=best))
    return results


def isa_l_candidates(k: int, r: int, rows: list[list[np.ndarray]]) -> dict[str, Candidate]:
    """ISA-L through pyeclib, and (its kernel alone, into the same memory each time) called directly."""
    found: dict[str, Candidate] = {}
    if isa_l is not None:
        found["isa_l kernel"] = isa_l_kernel(k, r, rows)
    if pyeclib is not None:
        joined = [np.concatenate(row).tobytes() for row in rows]
        for name in PYECLIB_TYPES:
            found[name] = pyeclib_encoder(pyeclib.ECDriver(k=k, m=r, ec_type=name), joined)
    return found


def pyeclib_encoder(driver: Any, joined: list[bytes]) -> Candidate:
    """Encoding of the k blocks of a row that lie behind one another, as pyeclib takes them."""
    return lambda turn: driver.encode(joined[turn % len(joined)])


def isa_l_kernel(k: int, r: int, rows: list[list[np.ndarray]]) -> Candidate:
    """`ec_encode_data` of libisal, with a Cauchy matrix; see isa-l/erasure_code.h."""
    matrix = ctypes.create_string_buffer((k + r) * k)
    isa_l.gf_gen_cauchy1_matrix(matrix, k + r, k)
    tables = ctypes.create_string_buffer(32 * k * r)
    isa_l.ec_init_tables(k, r, ctypes.byref(matrix, k * k), tables)
    size = rows[0][0].nbytes
    parity = [aligned_empty((size,), np.uint8) for _ in range(r)]
    outputs = (ctypes.c_void_p * r)(*(block.ctypes.data for block in parity))
    inputs = [(ctypes.c_void_p * k)(*(block.ctypes.data for block in row)) for row in rows]
    return lambda turn: (isa_l.ec_encode_data(size, k, r, tables, inputs[turn % len(inputs)], outputs), parity)


def speeds(code: Code, size: int, seconds: dict[str, float], against: str) -> Row:
    """GB/s of data for each candidate, and the ratio of encode to the rival."""
    data = code.k * size
    return {
        "code": code.name,
        "k": code.k,
        "r": code.r,
        "block_kib": size // KIB,
        "gb_per_s": {name: data / value / 1e9 for name, value in seconds.items()},
        "against": against,
        "ratio": seconds[against] / seconds["encode"],
        "ratio_incremental": seconds[against] / seconds["incremental"],
    }


def measure_precision(k: int = 16, r: int = 4) -> list[Row]:
    """The worst condition number and error over all patterns of r lost blocks."""
    results: list[Row] = []
    for name in ("stable", "vandermonde"):
        code = make_code(name, k, r)
        data = list(np.random.default_rng(0).standard_normal((k, 16)))
        blocks = data + code.encode(data)
        conditions, errors = [], []
        for lost in combinations(range(k + r), r):
            decoded = code.decode({i: block for i, block in enumerate(blocks) if i not in lost})
            errors.append(float(np.abs(np.array(decoded) - data).max() / np.abs(data).max()))
            conditions.append(code.condition_number(lost))
        results.append(
            {
                "code": name,
                "k": k,
                "r": r,
                "patterns": comb(k + r, r),
                "condition_worst": max(conditions),
                "condition_median": statistics.median(conditions),
                "error_worst": max(errors),
                "error_median": statistics.median(errors),
            }
        )
    return results


def speed_table(results: list[Row]) -> str:
    """A table of GB/s of data, and the ratios to the rival of each row."""
    names = list(dict.fromkeys(name for row in results for name in row["gb_per_s"]))
    heading = ["code", "(k,r)", "KiB", *(f"{name} GB/s" for name in names), "encode / rival", "incremental / rival"]
    return table(
        [*heading, "rival"],
        [
            [row["code"], f"({row['k']},{row['r']})", row["block_kib"],
             *(row["gb_per_s"].get(name, "") for name in names),
             row["ratio"], row["ratio_incremental"], row["against"]]
            for row in results
        ],
    )  # fmt: skip


def keep_freed_memory() -> None:
    """Have glibc reuse big blocks: by default pyeclib's 1 MiB fragments cost more in page faults than in coding."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter in M_MMAP_THRESHOLD, M_TRIM_THRESHOLD:
            mallopt(parameter, 1 << 30)


def main() -> None:
    """Measure, print the tables, write the JSON file."""
    keep_freed_memory()
    print(f"instruction level: {level()}")
    if pyeclib is None:
        print("no ISA-L column: pyeclib is not installed (pip install pyeclib; needs liberasurecode and libisal)")
    real, gf256, precision = measure_real(), measure_gf256(), measure_precision()
    tables = {
        f"real numbers and XOR beside memcpy ({level()}; medians of {ROUNDS})": speed_table(real),
        "gf256 beside ISA-L through pyeclib": speed_table(gf256),
        "precision over all patterns of r lost blocks": table(
            list(precision[0]), [list(row.values()) for row in precision]
        ),
    }
    save("codes", "Erasure codes", tables, {"level": level(), "real": real, "gf256": gf256, "precision": precision})


if __name__ == "__main__":
    main()
