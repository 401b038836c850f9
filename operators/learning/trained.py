"""The trained model of a predicting processor, from a file or from the topology itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators.learning.estimators import load_model
from riprap.operators.options import Option

Trained = Annotated[
    Any,
    Option(
        "The model to predict with: the path of a model.npz, or its arrays as {name: [numbers]}",
        example="runs/my-run/model.npz",
    ),
]

_FORM = "Give the path of a model.npz, or the arrays themselves: {coefficients: [...], intercept: [...]}."


def trained(model: object, *names: str) -> dict[str, np.ndarray]:
    """The model that an option `model` names: the path of a model.npz, or a mapping of names to (nested) lists.

    ConfigError when it is neither or lacks one of the arrays `names`, DataError when the file is no model.
    """
    if isinstance(model, str):
        arrays = load_model(model)
    elif isinstance(model, Mapping):
        arrays = {str(name): _numbers(str(name), values) for name, values in model.items()}
    else:
        raise ConfigError(f"the option model is {model!r}, not a model", _FORM)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ConfigError(
            f"the model has {', '.join(arrays) or 'nothing'}, but no {' and no '.join(missing)}",
            "Name a model of the algorithm that the processor predicts with.",
        )
    return arrays


def _numbers(name: str, values: object) -> np.ndarray:
    try:
        return np.array(values, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"the model's {name} is not an array of numbers: {error}", _FORM) from error
