"""Computes the distance of a disturbed run's results from an undisturbed one's: pure functions of arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
Results = Mapping[str, Arrays]
"""The arrays that each destination wrote, by worker."""
Entries = Mapping[Any, float] | np.ndarray
"""Numbers by key, or a vector of them by position."""

KEY = "epoch"
"""The column that names the window of a row."""


def losses(reference: Results, found: Results) -> dict[str, float]:
    """For each name of the reference: the L1 distance of the results found, by the L1 norm of the reference.

    Entries are compared by key where the results have keys (`entries_of`), else by position; what is on one side only
    counts whole. A reference of zeros loses nothing if zeros were found, and everything (1) if not. Results that hold
    anything but finite numbers, on either side, lose without end (inf): nobody can say how far they are apart.
    """
    distance: dict[str, float] = {}
    for worker, arrays in reference.items():
        others = entries_of(found.get(worker, {}))
        for name, entries in entries_of(arrays).items():
            distance[name] = distance.get(name, 0.0) + _distance(entries, others.get(name))
    norms = sizes(reference)
    return {name: _share(value, norms[name]) for name, value in distance.items()}


def sizes(results: Results) -> dict[str, float]:
    """The L1 norm of each name over all destinations."""
    total: dict[str, float] = {}
    for arrays in results.values():
        for name, entries in entries_of(arrays).items():
            total[name] = total.get(name, 0.0) + _norm(entries)
    return total


def growth(shorter: Mapping[str, float], longer: Mapping[str, float], ratio: float) -> float:
    """The exponent p, from 0 to 1, such that sizes grow at least by `ratio` to the p in a stream longer by `ratio`.

    0 when anything does not grow, or nothing is known: then thresholds that suit a part suit no more of the whole.
    """
    if ratio <= 1 or not shorter:
        return 0.0
    exponents = [_exponent(size, longer.get(name, 0.0), ratio) for name, size in shorter.items()]
    return min(1.0, max(0.0, min(exponents)))


def entries_of(arrays: Arrays) -> dict[str, Entries]:
    """The numbers of a destination's results, by name and then by key or position.

    Keys are columns of unsigned integers, the column `epoch`, and byte strings (`offsets`, one more than there are
    strings, with the bytes beside them); they belong to the other columns of as many rows. Keys without other columns
    count 1 each. What distances mean nothing in is left out: a single unsigned integer, which is a digest, a matrix of
    them, which describes, and bounds, whose names end in `_max`.
    """
    text = _text(arrays)
    columns = {name: np.asarray(array) for name, array in arrays.items() if name not in ("offsets", text)}
    columns = {name: column for name, column in columns.items() if not _describes(name, column)}
    keys = [_strings(arrays[text], arrays["offsets"])] if text else []
    named = {name for name, column in columns.items() if column.ndim == 1 and (column.dtype.kind == "u" or name == KEY)}
    rows = len(keys[0]) if keys else max((len(columns[name]) for name in named), default=0)
    keys += [columns[name].tolist() for name in named if len(columns[name]) == rows and (rows != 1 or name == KEY)]
    values = {name: column for name, column in columns.items() if name not in named and column.dtype.kind in "biuf"}
    entries = {name: _by_key(keys, column) for name, column in values.items() if keys and column.shape == (rows,)}
    if keys and not entries:
        entries = {text or min(named): _by_key(keys, np.ones(rows))}
    return entries | {name: _by_position(column) for name, column in values.items() if name not in entries}


def _describes(name: str, column: np.ndarray) -> bool:
    return name.endswith("_max") or (column.dtype.kind == "u" and column.ndim > 1)


def _text(arrays: Arrays) -> str:
    """The name of the bytes that `offsets` cuts into strings; empty without any."""
    if "offsets" not in arrays:
        return ""
    return next((name for name, array in arrays.items() if array.dtype == np.uint8 and array.ndim == 1), "")


def _strings(data: np.ndarray, offsets: np.ndarray) -> list[bytes]:
    text = data.tobytes()
    return [text[begin:end] for begin, end in pairwise(offsets.tolist())]


def _by_key(keys: list[list[Any]], column: np.ndarray) -> Entries:
    """Equal keys add up."""
    entries: dict[Any, float] = {}
    for key, value in zip(zip(*keys), column.tolist()):
        entries[key] = entries.get(key, 0.0) + value
    return entries


def _by_position(column: np.ndarray) -> Entries:
    return column.astype(np.float64).ravel()


def _distance(first: Entries, second: Entries | None) -> float:
    """Infinite when something is no finite number, on either side."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        short, long = sorted((first, second), key=len)
        with np.errstate(invalid="ignore"):
            total = float(np.abs(long[: len(short)] - short).sum() + np.abs(long[len(short) :]).sum())
    elif isinstance(first, Mapping) and isinstance(second, Mapping):
        total = sum(abs(value - second.get(key, 0.0)) for key, value in first.items())
        total += sum(abs(value) for key, value in second.items() if key not in first)
    else:
        total = _norm(first) + (0.0 if second is None else _norm(second))
    return total if math.isfinite(total) else math.inf


def _share(distance: float, norm: float) -> float:
    if not math.isfinite(distance):
        return math.inf
    return distance / norm if norm else float(distance > 0)


def _norm(entries: Entries) -> float:
    return float(np.abs(entries if isinstance(entries, np.ndarray) else np.fromiter(entries.values(), float)).sum())


def _exponent(before: float, after: float, ratio: float) -> float:
    return math.log(after / before) / math.log(ratio) if before > 0 and after > 0 else 0.0
