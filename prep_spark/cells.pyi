import numpy as np

from riprap.prep_spark.tables import Table

def parse_cells(
    offsets: np.ndarray,
    text: np.ndarray,
    delimiter: str,
    slots: np.ndarray,
    tables: list[Table | None],
    missing: frozenset[bytes],
    rows: np.ndarray,
    reasons: np.ndarray,
    places: np.ndarray,
) -> int: ...
def parse_pairs(
    offsets: np.ndarray,
    text: np.ndarray,
    first_index: int,
    labels: np.ndarray,
    bounds: np.ndarray,
    indexes: np.ndarray,
    values: np.ndarray,
    reasons: np.ndarray,
    places: np.ndarray,
) -> int: ...
