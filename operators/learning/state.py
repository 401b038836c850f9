"""Restores an operator's state from its saved arrays."""

from __future__ import annotations

import numpy as np


def copy_into(state: np.ndarray, saved: np.ndarray) -> None:
    """Overwrite a state by its saved array; ValueError when that has another shape, instead of broadcasting it."""
    if saved.shape != state.shape:
        raise ValueError(f"a saved state of shape {saved.shape}, expected {state.shape}: are the options the same?")
    state[...] = saved
