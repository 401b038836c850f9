import numpy as np

def parse(
    text: bytes, delimiter: str, empty_is_zero: bool, rows: np.ndarray, reasons: np.ndarray, keep_all: bool = False
) -> int: ...
