"""An erasure code of one's own: the data blocks' running sums, as the smallest code that is not in the box.

fault_tolerance: {scheme: erasure, code: "own_code:SumAndWeightedSum", k: 4, r: 2}
"""

import numpy as np


class SumAndWeightedSum:
    """Two parity blocks over the real numbers: the sum of the data, and the sum weighted by 1, 2, 3, ..."""

    exact = False
    linear = True

    def __init__(self, k: int, r: int) -> None:
        if r != 2:
            raise ValueError(f"r is 2 with this code, not {r}")
        self.weights = np.array([np.ones(k), np.arange(1.0, k + 1)])

    def encode(self, data: list[np.ndarray]) -> list[np.ndarray]:
        """Two blocks from k."""
        return [sum(w * block for w, block in zip(row, data)) for row in self.weights]

    def decode(self, blocks: dict[int, np.ndarray]) -> list[np.ndarray]:
        """The k data blocks from any k, by the normal solution of the rows that are left."""
        k = self.weights.shape[1]
        rows = np.concatenate([np.eye(k), self.weights])[list(blocks)]
        solution = np.linalg.inv(rows)
        return [sum(c * block for c, block in zip(row, blocks.values())) for row in solution]
