"""Turns HIGGS.csv into shards: a label and 28 features of particle collisions.

The data set is UCI's (archive.ics.uci.edu/dataset/280/higgs; Baldi, Sadowski, Whiteson: "Searching for exotic
particles in high-energy physics with deep learning", 2014): no header, 11 million rows, label 1.0 for signal. Its
documentation holds back the last 500,000 rows; `holdout` here draws rows from all over the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from riprap.prep_spark.formats import Reason, RowFormat
from riprap.prep_spark.job import Options, prepare

JETS = tuple(f"jet{i}_{what}" for i in range(1, 5) for what in ("pt", "eta", "phi", "b_tag"))
COLUMNS = (
    "label",
    *("lepton_pt", "lepton_eta", "lepton_phi", "missing_energy_magnitude", "missing_energy_phi"),
    *JETS,
    *("m_jj", "m_jjj", "m_lv", "m_jlv", "m_bb", "m_wbb", "m_wwbb"),
)


def check_rows(rows: np.ndarray) -> np.ndarray:
    """Refuse labels other than 0 and 1."""
    label = rows[:, 0]
    return np.where((label == 0) | (label == 1), Reason.NONE, Reason.LABEL).astype(np.uint8)


FORMAT = RowFormat("higgs", ",", COLUMNS, check=check_rows)


def run(
    input: str,
    out: str,
    *,
    holdout: float = 0.0,
    bad_rows: str = "fail",
    limit: int | None = None,
    shard_rows: int = 250_000,
    seed: int = 1,
    report: Callable[[str], Any] = print,
) -> dict[str, Any]:
    """Write the shards of HIGGS.csv[.gz] to the directory `out`, or to out/train and out/test with a `holdout`.

    `input` is a path, a glob or a URL that Spark reads; rows keep their order (files in order of their names).
    Features keep their values. See `job.Options` for the options and `job.prepare` for the counts returned.
    Raises PrepError: for a bad row (`bad_rows="fail"`) or whatever else the user can mend.
    """
    return prepare(FORMAT, Options(input, out, holdout, bad_rows, limit, shard_rows, seed), report)
