import numpy as np

def add_gradients(
    items: np.ndarray,
    first: int,
    label: int,
    weights: np.ndarray,
    saved_mean: np.ndarray,
    total: np.ndarray,
    tallies: np.ndarray,
    apart: float,
    theta: float,
) -> tuple[int, float]: ...
