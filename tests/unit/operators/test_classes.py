"""The labels of two classes are kept, and what is not two classes is refused by its values and places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from operator_streams import context_of, micro_batches, opened, train, write_shards

from riprap.codec.errors import DataError
from riprap.operators.base import Context, Processor, Sink
from riprap.operators.dataflow import Items
from riprap.operators.inputs.shard_source import FIRST_ITEMS, RUN_ITEMS, ShardSource
from riprap.operators.learning import logistic_regression, random_features, svm
from riprap.operators.learning.classes import CLASSES, Labels, check_binary
from riprap.operators.learning.estimators import evaluate, from_estimator, predict, to_estimator
from riprap.operators.learning.gradient import LocalGradient
from riprap.operators.learning.linear_prediction import SupportVectorMachine
from riprap.operators.learning.online_logistic import LocalModel

NAN = float("nan")


def classes_of(*runs: tuple[int, list[float]]) -> tuple[float, float]:
    labels = Labels("click")
    for start, values in runs:
        labels.look(np.array(values), start)
    return labels.classes()


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([0, 1], (0, 1)),
        ([1, -1, 1], (-1, 1)),
        ([-3, 7], (-3, 7)),
        ([1, 1], (0, 1)),
        ([-1], (-1, 1)),
        ([NAN, 0.0], (0, 1)),
        ([], (0, 1)),
    ],
)
def test_the_classes_are_the_user_s(values: list[float], classes: tuple[float, float]) -> None:
    assert classes_of((0, values)) == classes


def test_a_third_class_is_named_with_where_each_was_first() -> None:
    with pytest.raises(DataError, match=r"click has the values 0 \(item 0\), 1 \(item 2\), 2 \(item 1,001\)"):
        classes_of((0, [0.0, 0.0, 1.0]), (1000, [0.0, 2.0]))
    with pytest.raises(DataError, match=r"1 \(item 0\), 2 \(item 1\): one must be above 0.5 and the other not"):
        classes_of((0, [1.0, 2.0]))


def items(lower: float, upper: float) -> np.ndarray:
    features = np.random.default_rng(5).standard_normal((2000, 3))
    return np.column_stack([np.where(features @ [1.0, -2.0, 0.5] > 0, upper, lower), features])


@pytest.mark.parametrize(
    "pair",
    [
        lambda: (logistic_regression.Gradient(), logistic_regression.Model()),
        lambda: (svm.Gradient(), svm.Model()),
        lambda: (random_features.Gradient(hidden=20), random_features.Model()),
    ],
    ids=["logistic", "svm", "network"],
)
def test_what_trains_on_two_labels_predicts_these(pair: object) -> None:
    models = {}
    for classes in (CLASSES, (-1.0, 1.0)):
        rows = items(*classes)
        processor, sink = pair()  # type: ignore[operator]
        assert isinstance(processor, Processor) and isinstance(sink, Sink)
        context = Context(context_of(rows).columns, "c0", 3, classes=classes)
        model = train(*opened(processor, sink, context), micro_batches(rows, 200, 3)).model()
        assert processor.tells_classes and model["classes"].tolist() == list(classes)
        assert set(predict(model, rows[:, 1:])) == set(classes)
        accuracy = evaluate(model, rows, context.columns, "c0")["accuracy"]
        estimator = to_estimator(model)
        assert accuracy > 0.9 and estimator.score(rows[:, 1:], rows[:, 0]) == accuracy
        assert from_estimator(estimator)["classes"].tolist() == list(classes)
        models[classes] = model["coefficients"]
    assert (models[CLASSES] == models[-1.0, 1.0]).all(), "they are the same classes"


def test_predictions_of_classes_are_the_model_s_labels() -> None:
    rows = items(-1.0, 1.0)
    model = {"coefficients": [1.0, -2.0, 0.5], "intercept": [0.0], "classes": [-1.0, 1.0]}
    processor = SupportVectorMachine(model=model, classes=True)
    processor.open(Context(context_of(rows).columns, "c0"))
    predictions, statistics = processor.process_data(rows)
    assert (predictions[:, 0] == rows[:, 0]).all() and statistics.tolist() == [2000.0, 2000.0]


def test_a_class_at_the_end_of_sorted_shards_is_in_the_sample(tmp_path: Path) -> None:
    rows = np.zeros((FIRST_ITEMS * 3, 2))
    rows[-RUN_ITEMS:, 0] = 2.0
    write_shards(tmp_path, [rows[: FIRST_ITEMS * 2], rows[FIRST_ITEMS * 2 :]])
    source = ShardSource()
    source.open(Context(input={"path": str(tmp_path), "repeat": 3}))
    found = {value: start for start, run in source.sample() for value in np.unique(run[:, 0]).tolist()}
    assert found[2.0] == len(rows) - RUN_ITEMS
    assert sum(len(run) for _, run in source.sample()) < len(rows)


def test_a_loss_that_calculates_with_labels_takes_0_and_1_alone() -> None:
    check_binary(np.array([0.0, 1.0]), "y")
    with pytest.raises(DataError, match="the label y has the value -1 in item 1 of a block, not 0 or 1"):
        check_binary(np.array([0.0, -1.0]), "y")


def test_the_gradient_of_a_dataflow_operator_refuses_them_too() -> None:
    out = None  # nothing is sent before the window closes
    rows = Items(1, "", 0, 3, (np.array([[0.0, 5.0], [1.0, 5.0], [-1.0, 5.0]]),))
    with pytest.raises(DataError, match="in column 0 has the value -1 in item 2"):
        LocalGradient().process_data(rows, 0, out)  # type: ignore[arg-type]
    begun = LocalGradient()
    begun.process_data(Items(1, "", 0, 2, (rows.arrays[0][:2],)), 0, out)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="in column 0 has the value -1 in item 2"):
        begun.process_data(rows, 0, out)  # type: ignore[arg-type]
    sparse = np.zeros(2, [("label", "<f4"), ("indexes", "<u4", (2,)), ("values", "<f4", (2,))])
    sparse["label"] = (1, 2)
    with pytest.raises(DataError, match="the value 2 in item 1"):
        LocalModel().process_data(Items(1, "", 0, 2, (sparse,)), 0, out)  # type: ignore[arg-type]
