import numpy as np

def add_gradients(
    items: np.ndarray,
    first: int,
    label: int,
    weights: np.ndarray,
    saved: np.ndarray,
    total: np.ndarray,
    tallies: np.ndarray,
    expected: float,
    tasks: float,
    apart: float,
    theta: float,
) -> tuple[int, float]: ...
