"""Trained models as ONNX graphs (onnx.ai), which other programs predict with; the numbers are those of `predict`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import to_json
from riprap.operators.learning.estimators import Model
from riprap.operators.learning.hidden_layer import HiddenLayer

OPSET, IR_VERSION = 18, 9
"""Of 2022: runtimes since onnxruntime 1.14 read them."""
ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid"}
"""The activations of a hidden layer, by their names among ONNX's operators."""


def to_onnx(model: Model, columns: Sequence[str] = (), metadata: Mapping[str, str] | None = None) -> Any:
    """An onnx.ModelProto of a trained model (riprap.load_model).

    Its input `features` is float64 (rows, features), in the order of the features in training; their names `columns`
    are kept in its metadata, as a JSON list. Outputs, all of shape (rows,): `label` (float64, the classes' own labels)
    and `margin` (positive for the upper class) of a classifier, `value` (float64) of a regression, `cluster` (int64) of
    k-means.

    ConfigError without onnx, or when the model has another number of features than there are columns.
    """
    graph = _Graph()
    features = _features(model)
    if columns and len(columns) != features:
        raise ConfigError(f"{len(columns)} columns for a model of {features} features", "name one for each feature")
    if "centres" in model:
        graph.add_clusters(model["centres"])
    else:
        graph.add_linear(model)
    return graph.model(features, {"columns": to_json(list(columns))} | dict(metadata or {}))


def _features(model: Model) -> int:
    if "centres" in model:
        return int(model["centres"].shape[1])
    return len(model["hidden_weights"] if "hidden_weights" in model else model["coefficients"])


class _Graph:
    """Nodes and constants; values are known by their names."""

    def __init__(self) -> None:
        self._onnx = _import_onnx()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._outputs: list[tuple[str, Any]] = []

    def add_clusters(self, centres: np.ndarray) -> None:
        """The nearest centre by squared distances, as `predict` finds it; the lowest index wins a tie."""
        rows = self._node("Unsqueeze", "features", self._constant("middle", np.array([1])))
        apart = self._node("Sub", rows, self._constant("centres", centres[np.newaxis]))
        squares = self._node("Mul", apart, apart)
        distances = self._node("ReduceSum", squares, self._constant("last", np.array([2])), keepdims=0)
        self._node("ArgMin", distances, axis=1, keepdims=0, to="cluster")
        self._outputs.append(("cluster", self._onnx.TensorProto.INT64))

    def add_linear(self, model: Model) -> None:
        """Margins or values; of a classifier, the label of the side that a margin lies on."""
        double, values = self._onnx.TensorProto.DOUBLE, "margin" if "classes" in model else "value"
        product = self._node("MatMul", self._hidden(model), self._constant("coefficients", model["coefficients"]))
        self._node("Add", product, self._constant("intercept", model["intercept"]), to=values)
        if "classes" in model:
            lower, upper = (self._constant(f"class_{n}", label.reshape(1)) for n, label in enumerate(model["classes"]))
            above = self._node("Greater", values, self._constant("zero", np.zeros(1)))
            self._node("Where", above, upper, lower, to="label")
            self._outputs.append(("label", double))
        self._outputs.append((values, double))

    def model(self, features: int, metadata: Mapping[str, str]) -> Any:
        """The whole model, checked."""
        helper, double = self._onnx.helper, self._onnx.TensorProto.DOUBLE
        inputs = [helper.make_tensor_value_info("features", double, ["rows", features])]
        outputs = [helper.make_tensor_value_info(name, kind, ["rows"]) for name, kind in self._outputs]
        graph = helper.make_graph(self._nodes, "riprap", inputs, outputs, self._constants)
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="riprap")
        helper.set_model_props(model, {name: value for name, value in metadata.items() if value})
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _hidden(self, model: Model) -> str:
        """The input of the linear part: the features, or the outputs of a hidden layer."""
        if "hidden_weights" not in model:
            return "features"
        layer = HiddenLayer.of(model)
        linear = self._node("MatMul", "features", self._constant("hidden_weights", layer.weights))
        shifted = self._node("Add", linear, self._constant("hidden_intercept", layer.intercept))
        return self._node(ACTIVATIONS[layer.activation], shifted)

    def _constant(self, name: str, array: np.ndarray) -> str:
        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _node(self, kind: str, *inputs: str, to: str = "", **attributes: int) -> str:
        """Add an operator; returns the name of its result."""
        name = to or f"{kind}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name


def _import_onnx() -> Any:
    try:
        onnx = importlib.import_module("onnx")
        for part in ("checker", "helper", "numpy_helper"):
            importlib.import_module(f"onnx.{part}")
    except ModuleNotFoundError as error:
        raise ConfigError("onnx is not installed", "install it: pip install 'riprap[onnx]'") from error
    return onnx
