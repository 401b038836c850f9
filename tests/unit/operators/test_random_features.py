"""A network with a random hidden layer learns what a linear model cannot, and is the same however it is computed."""

from __future__ import annotations

import numpy as np
import pytest
from operator_streams import context_of, micro_batches, opened, train

from riprap.codec import make_code
from riprap.codec.errors import ConfigError
from riprap.operators.base import Sink
from riprap.operators.learning import logistic_regression, network_prediction, random_features
from riprap.operators.learning.prediction import Predictions


@pytest.fixture(scope="module")
def circle() -> np.ndarray:
    """Class 1 within a circle that holds half of the items."""
    points = np.random.default_rng(0).standard_normal((20_000, 2))
    return np.column_stack([np.square(points).sum(axis=1) < 2 * np.log(2), points])


def trained(items: np.ndarray, **options: object) -> Sink:
    pair = random_features.Gradient(**options), random_features.Model()  # type: ignore[arg-type]
    return train(*opened(*pair, context_of(items, seed=1)), micro_batches(items, 100))


@pytest.mark.parametrize(("activation", "scale"), [("relu", 2.0), ("tanh", 2.0), ("logistic", 4.0)])
def test_a_circle_is_learnt_which_no_line_divides(circle: np.ndarray, activation: str, scale: float) -> None:
    linear = train(
        *opened(logistic_regression.Gradient(), logistic_regression.Model(), context_of(circle)),
        micro_batches(circle, 100),
    )
    assert linear.metrics()["recent_accuracy"] < 0.6
    assert trained(circle, activation=activation, scale=scale).metrics()["recent_accuracy"] > 0.93


def test_the_hidden_layer_is_the_seeds(circle: np.ndarray) -> None:
    models = [
        opened(random_features.Gradient(), random_features.Model(), context_of(circle, seed=seed))[1].model()
        for seed in (1, 1, 2)
    ]
    assert models[0]["hidden_weights"].tobytes() == models[1]["hidden_weights"].tobytes()
    assert not np.array_equal(models[0]["hidden_weights"], models[2]["hidden_weights"])


def test_what_was_trained_predicts(circle: np.ndarray) -> None:
    model = {name: array.tolist() for name, array in trained(circle).model().items()}
    processor, sink = opened(network_prediction.Network(model=model), Predictions(), context_of(circle))
    sink.aggregate(processor.process_data(circle[-2000:]))
    sink.commit(1)
    assert sink.metrics()["accuracy"] > 0.85


def test_the_model_is_the_network_that_the_processors_judge(circle: np.ndarray) -> None:
    pair = opened(random_features.Gradient(), random_features.Model(), context_of(circle, seed=1))
    sink = train(*pair, micro_batches(circle[:5000], 100))
    _, (items, loss, _) = pair[0].process_data(circle[5000:6000])
    model = {name: array.tolist() for name, array in sink.model().items()}
    processor, _ = opened(network_prediction.Network(model=model), Predictions(), context_of(circle))
    probabilities = processor.process_data(circle[5000:6000])[0][:, 0]
    right = np.where(circle[5000:6000, 0] == 1.0, probabilities, 1.0 - probabilities)
    assert loss / items == pytest.approx(-np.log(right).mean(), rel=1e-9)


def test_gradients_from_decoded_linear_parts_train_the_same_model(circle: np.ndarray) -> None:
    code = make_code("stable", 4, 2)
    context = context_of(circle, seed=1)
    usual, hybrid = (opened(random_features.Gradient(), random_features.Model(), context) for _ in range(2))
    for epoch, batch in enumerate(micro_batches(circle[:8000], 400), start=1):
        blocks = np.split(batch, 4)
        pieces = [hybrid[0].process_linear(piece) for piece in (*blocks, *code.encode(blocks))]
        linear = code.decode({index: pieces[index] for index in (0, 2, 4, 5)})
        for number, block in enumerate(blocks):
            usual[1].aggregate(usual[0].process_data(block))
            lost = number in (1, 3)
            hybrid[1].aggregate(
                hybrid[1].recompute_linear(linear[number])
                if lost
                else hybrid[0].process_nonlinear(pieces[number], block)
            )
        for processor, sink in (usual, hybrid):
            processor.process_feedback(sink.commit(epoch))
    for name, array in usual[1].model().items():
        np.testing.assert_allclose(hybrid[1].model()[name], array, rtol=1e-9, atol=1e-9)
    assert hybrid[1].metrics()["accuracy"] == usual[1].metrics()["accuracy"]


def test_wrong_options_and_a_wrong_processor_are_refused(circle: np.ndarray) -> None:
    with pytest.raises(ConfigError, match="activation is 'sine', not one of relu, tanh"):
        random_features.Gradient(activation="sine")
    with pytest.raises(ConfigError, match="hidden is 0"):
        random_features.Gradient(hidden=0)
    with pytest.raises(ConfigError, match="needs random_features:Gradient upstream, not Gradient"):
        opened(logistic_regression.Gradient(), random_features.Model(), context_of(circle))
    with pytest.raises(ConfigError, match="no label column"):
        random_features.Gradient().open(context_of(circle, label=None))
