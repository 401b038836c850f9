"""The bound of event times, and of the options that are lengths of event time."""

from __future__ import annotations

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.options import Option

TIME_MAX = 2**61
"""Event times, and lengths of event time, are below it, so that a pane's length and its lateness can be added."""


def length(says: str, low: int = 0, example: str = "") -> Option:
    """An option that is a length of event time."""
    return Option(says, unit="event time", low=low, high=TIME_MAX, below=True, example=example)


def check_times(times: np.ndarray, having: str) -> None:
    """DataError where there is an event time (int64) that no length can be added to; `having` says what has it."""
    if len(times) and max(-int(times.min()), int(times.max())) >= TIME_MAX:
        wrong = times[(times >= TIME_MAX) | (times <= -TIME_MAX)][0]
        raise DataError(f"{having} the event time {wrong}", "use times below 2**61")
