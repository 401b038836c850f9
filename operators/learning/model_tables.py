"""Trained models as tables: coefficients by the names of columns, centres, and the layers of networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from riprap.operators.learning.hidden_layer import HiddenLayer
from riprap.operators.tables import Schema, Table, of_tasks, ordered, texts

INTERCEPT = "(intercept)"
Model = Mapping[str, np.ndarray]


def coefficients_table(models: Sequence[Model], schema: Schema) -> Table:
    """`column` and `coefficient`, the intercept last; of several models, `task` says whose."""
    return Table(of_tasks([_coefficients(model, schema) for model in models]), _classes_note(models[0]))


def _coefficients(model: Model, schema: Schema) -> dict[str, np.ndarray]:
    names = [*schema.features(len(model["coefficients"])), INTERCEPT]
    return {"column": texts(names), "coefficient": np.append(model["coefficients"], model["intercept"])}


def _classes_note(model: Model) -> str:
    if "classes" not in model:
        return ""
    lower, upper = model["classes"].tolist()
    return f"the sum of coefficient * value, with the intercept, above 0 means class {upper:g}, else {lower:g}"


def _output_note(model: Model) -> str:
    if "classes" not in model:
        return ""
    lower, upper = model["classes"].tolist()
    return f"an output above 0.5 means class {upper:g}, else {lower:g}"


def centres_table(models: Sequence[Model], schema: Schema) -> Table:
    """`centre`, `(weight)` (the decayed number of its items), its value in each column; the heaviest first."""
    return Table(of_tasks([_centres(model, schema) for model in models]))


def _centres(model: Model, schema: Schema) -> dict[str, np.ndarray]:
    centres = model["centres"]
    values = dict(zip(schema.features(centres.shape[1]), centres.T, strict=True))
    columns = {"centre": np.arange(len(centres)), "(weight)": model["weights"], **values}
    return ordered(columns, np.argsort(-model["weights"], kind="stable"))


def network_tables(models: Sequence[Model], schema: Schema) -> dict[str, Table]:
    """`model`: a layer a row; `units`: the output's coefficients; `hidden`: a column a row, a hidden unit a column."""
    return {
        "model": Table(of_tasks([_layers(model) for model in models]), _output_note(models[0])),
        "units": Table(of_tasks([_units(model) for model in models])),
        "hidden": Table(of_tasks([_hidden(model, schema) for model in models])),
    }


def _layers(model: Model) -> dict[str, np.ndarray]:
    layer = HiddenLayer.of(model)
    inputs, units = layer.weights.shape
    output = "logistic" if "classes" in model else "identity"
    return {
        "layer": texts(["hidden", "output"]),
        "inputs": np.array([inputs, units]),
        "outputs": np.array([units, 1]),
        "activation": texts([layer.activation, output]),
        "parameters": np.array([(inputs + 1) * units, units + 1]),
    }


def _units(model: Model) -> dict[str, np.ndarray]:
    names = [*(f"hidden{unit}" for unit in range(len(model["coefficients"]))), INTERCEPT]
    return {"unit": texts(names), "coefficient": np.append(model["coefficients"], model["intercept"])}


def _hidden(model: Model, schema: Schema) -> dict[str, np.ndarray]:
    layer = HiddenLayer.of(model)
    weights = np.vstack([layer.weights, layer.intercept])
    names = [*schema.features(len(layer.weights)), INTERCEPT]
    return {"column": texts(names), **{f"hidden{unit}": weights[:, unit] for unit in range(weights.shape[1])}}
