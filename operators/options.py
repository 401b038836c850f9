"""Checks of the options that a topology gives to an operator."""

from __future__ import annotations

import math

from codec.errors import ConfigError
from operators.base import Context


def number(name: str, value: object, low: float, high: float = math.inf) -> float:
    """The value as a finite float in [low, high]; else ConfigError names the option."""
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high and value < math.inf:
        return float(value)
    span = f"from {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
    raise ConfigError(f"the option {name} is {value!r}, not a number {span}", f"Correct {name} in the stage.")


def positive(name: str, value: object) -> float:
    """The value as a finite float above 0; else ConfigError names the option."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    raise ConfigError(f"the option {name} is {value!r}, not a number above 0", f"Correct {name} in the stage.")


def whole_number(name: str, value: object, low: int) -> int:
    """The value as an int of at least `low`; else ConfigError names the option."""
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise ConfigError(f"the option {name} is {value!r}, not a whole number from {low}", f"Correct {name}.")
    return value


def switch(name: str, value: object) -> bool:
    """The value if it is true or false; else ConfigError names the option."""
    if not isinstance(value, bool):
        raise ConfigError(f"the option {name} is {value!r}, not true or false", f"Correct {name} in the stage.")
    return value


def required_label(context: Context) -> int:
    """The label's column; ConfigError when the items have none."""
    if context.label_index is None:
        raise ConfigError(
            "the algorithm learns from a label, and the input names no label column",
            "Use an input whose manifest names its label, or an algorithm without one, such as operators.kmeans.",
        )
    return context.label_index


def features_or_error(context: Context) -> int:
    """How many features the items have; ConfigError when there are none."""
    if not context.features:
        raise ConfigError(f"the items have no feature columns, only {context.columns}", "Use an input with features.")
    return context.features
