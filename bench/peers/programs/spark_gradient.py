"""The sums of a micro-batch's gradient in Spark: mapInArrow and NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame


def sums(batch: DataFrame, weights: np.ndarray, intercept: float) -> np.ndarray:
    """The gradient, of the intercept too, and the number of rows. Columns are the label and x0, x1, ..."""

    def gradient(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sums of a partition: one row of one array."""
        total = np.zeros(len(weights) + 2)
        for part in parts:
            y, *columns = (column.to_numpy() for column in part.columns)
            x = np.stack(columns)
            residual = 1 / (1 + np.exp(-(weights @ x + intercept))) - y
            total += [*(x @ residual), residual.sum(), len(residual)]
        yield pa.record_batch([pa.array([total.tolist()])], names=["sums"])

    return np.sum([row.sums for row in batch.mapInArrow(gradient, "sums array<double>").collect()], axis=0)
