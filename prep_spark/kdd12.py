"""Turns KDD Cup 2012 track 2's training.txt into shards: clicks on adverts, 11 numeric features scaled to 0..1.

The trace holds 12 tab-separated columns a row and 149,639,105 rows (kaggle.com/c/kddcup2012-track2). The label is 1
when the advert was clicked at least once. StreamLEC's authors scale every feature by its maximum over the full trace,
and so do we, in the order of the columns of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.formats import Reason, RowFormat
from riprap.prep_spark.job import Options, prepare

MAXIMA = {
    "click": 1.0,
    "impression": 764404.0,
    "display_url": 1.8445899849984e19,
    "ad_id": 22238277.0,
    "advertiser_id": 39191.0,
    "depth": 3.0,
    "position": 3.0,
    "query_id": 26243605.0,
    "keyword_id": 1249783.0,
    "title_id": 4051439.0,
    "description_id": 3171828.0,
    "user_id": 23907634.0,
}
"""The largest value of each column in the full trace; the label, a column of 0 and 1, stays as it is."""

COLUMNS = tuple(MAXIMA)


def check_rows(rows: np.ndarray, drop_missing: bool) -> np.ndarray:
    """Make the count of clicks a label of 0 and 1; refuse negative counts and, if asked to, rows with a missing value.

    An id of 0, or none at all, means that it is unknown (AFX 6.1 finds that in 40 of 150 million rows).
    """
    clicks = rows[:, 0]
    reasons = np.where(clicks < 0, Reason.LABEL, Reason.NONE).astype(np.uint8)
    clicks[:] = clicks > 0
    if drop_missing:
        reasons[(reasons == Reason.NONE) & (rows[:, 1:] == 0).any(axis=1)] = Reason.MISSING
    return reasons


def row_format(missing: str) -> RowFormat:
    """The raw format; `missing` is "keep" or "drop"."""
    check = partial(check_rows, drop_missing=missing == "drop")
    return RowFormat("kdd12", "\t", COLUMNS, empty_is_zero=True, check=check)


def paper_scale(maxima: np.ndarray) -> np.ndarray:
    """The maxima of the full trace, whatever the maxima of this input."""
    return np.array(list(MAXIMA.values()))


def auto_scale(maxima: np.ndarray) -> np.ndarray:
    """The maxima of this input's kept rows, held-back ones included; a column of zeros stays as it is."""
    scale = np.where(maxima > 0, maxima, 1.0)
    scale[0] = 1.0
    return scale


SCALES = {"paper": paper_scale, "auto": auto_scale}


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
    scale: str = "paper",
    report: Callable[[str], Any] = print,
) -> dict[str, Any]:
    """Write the shards of training.txt[.gz] to the directory `out`, or to out/train and out/test with a `holdout`.

    `input` is a path, a glob or a URL that Spark reads; rows keep their order (files in order of their names).
    `missing` keeps rows with unknown ids (as 0) or drops them; `scale` divides by the maxima of the full trace
    ("paper") or of this input ("auto"). See `job.Options` for the other options and `job.prepare` for the counts.
    Raises PrepError: for a bad row (`bad_rows="fail"`) or whatever else the user can mend.
    """
    if missing not in ("keep", "drop"):
        raise PrepError(f"--missing is {missing!r}; expected keep or drop", "correct --missing")
    if scale not in SCALES:
        raise PrepError(f"--scale is {scale!r}; expected paper or auto", "correct --scale")
    options = Options(input, out, holdout, bad_rows, limit, shard_rows, seed, {"missing": missing, "scale": scale})
    return prepare(row_format(missing), options, report, SCALES[scale])
