import numpy as np

SQUARED: int
LOGISTIC: int
HINGE: int
STATISTICS: int

def linear_result(loss: int, items: np.ndarray, state: np.ndarray, label: int) -> tuple[np.ndarray, np.ndarray]: ...
def kmeans_result(
    items: np.ndarray, centres: np.ndarray, features: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]: ...
