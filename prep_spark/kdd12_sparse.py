"""Turns KDD Cup 2012 track 2's training.txt into records of hashed one-hot features, for models with 10^6 weights.

Each of the 11 attributes becomes one feature: a hash of the column and the value, modulo the number of buckets (the
"hashing trick": Weinberger et al., "Feature hashing for large scale multitask learning", ICML 2009). AFX 6.1,
Experiment 5, trains more than 10^6 features on the rows without missing values, AFX 6.2 on all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.job import Options, prepare
from riprap.prep_spark.kdd12 import COLUMNS, row_format
from riprap.prep_spark.shards import ShardForm

FEATURES = len(COLUMNS) - 1
DTYPE = np.dtype(
    [
        ("label", "<f4"),
        ("impressions", "<u4"),
        ("indexes", "<u4", (FEATURES,)),
        ("values", "<f4", (FEATURES,)),
    ]
)
"""Record of a row: `label` is 1 when the advert was clicked, else 0; `indexes` are the buckets of the 11 attributes in
the order of the file, `values` their values, 1 each; `impressions` is how often the advert was shown."""

BUCKETS_MAX = 1 << 32


def feature_hash(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """64-bit hashes of (column, value) by two rounds of SplitMix64; values are taken by the bits of their float64.

    Of DisplayURL, a 64-bit number, a float64 keeps 53 bits; among its some 10^5 values that merges none but by a chance
    of 10^-6.
    """
    with np.errstate(over="ignore"):
        return _mixed(_mixed(columns.astype(np.uint64)) + np.ascontiguousarray(values, "<f8").view("<u8"))


def _mixed(z: np.ndarray) -> np.ndarray:
    """SplitMix64 (Steele, Lea, Flood: OOPSLA 2014, figure 15)."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def convert(rows: np.ndarray, buckets: int) -> np.ndarray:
    """Parsed rows of training.txt (label, then the 11 attributes) as records."""
    records = np.empty(len(rows), DTYPE)
    records["label"] = rows[:, 0]
    records["impressions"] = rows[:, 1]
    records["indexes"] = feature_hash(np.arange(1, FEATURES + 1), rows[:, 1:]) % np.uint64(buckets)
    records["values"] = 1
    return records


def run(
    input: str,
    out: str,
    *,
    holdout: float = 0.0,
    bad_rows: str = "fail",
    limit: int | None = None,
    shard_rows: int = 250_000,
    seed: int = 1,
    missing: str = "keep",
    buckets: int = 1 << 20,
    report: Callable[[str], Any] = print,
) -> dict[str, Any]:
    """Write the records of training.txt[.gz] to the directory `out`, or to out/train and out/test with a `holdout`.

    `missing` keeps rows with unknown ids, an unknown id being a value like others, or drops them; `buckets` is the
    number of weights. The other options and the counts are those of `kdd12.run`. Raises PrepError likewise.
    """
    if missing not in ("keep", "drop"):
        raise PrepError(f"--missing is {missing!r}; expected keep or drop", "correct --missing")
    if not 1 <= buckets <= BUCKETS_MAX:
        raise PrepError(f"--buckets is {buckets}; expected 1 to {BUCKETS_MAX}", "correct --buckets")
    settings: dict[str, str | int] = {"missing": missing, "buckets": buckets}
    options = Options(input, out, holdout, bad_rows, limit, shard_rows, seed, settings)
    return prepare(row_format(missing), options, report, records=ShardForm(DTYPE, partial(convert, buckets=buckets)))
