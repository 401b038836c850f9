"""Streaming k-means against the NumPy loop, its own definition, and scikit-learn's batch k-means."""

from __future__ import annotations

import numpy as np
import pytest
from operator_streams import context_of, higgs, micro_batches, opened, train
from sklearn.cluster import KMeans

from bench import numpy_loop
from riprap.codec.errors import ConfigError
from riprap.operators.learning import kmeans, svm


def blobs(seed: int = 0, rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Items around five well separated points, and the points."""
    generator = np.random.default_rng(seed)
    points = 10 * np.eye(5, 6)
    return points[generator.integers(0, 5, rows)] + generator.normal(0, 0.5, size=(rows, 6)), points


@pytest.mark.parametrize("squeeze", [1.0, 0.05], ids=["as it is", "with centres to split"])
def test_same_centres_as_the_numpy_loop(squeeze: float) -> None:
    items = higgs() * squeeze
    model = train(
        *opened(kmeans.Assignment(k=10), kmeans.Model(), context_of(items)), micro_batches(items, 1000)
    ).model()
    rival = numpy_loop.train(numpy_loop.KMeans(28, 10, 0), micro_batches(items, 1000), label=0)["model"]
    assert np.any(rival["weights"] % 1) == (squeeze < 1)  # halves tell of a split
    np.testing.assert_array_equal(model["weights"], rival["weights"])
    np.testing.assert_allclose(model["centres"], rival["centres"], rtol=1e-12, atol=1e-12)


def test_inertia_comes_close_to_batch_kmeans() -> None:
    items, _ = blobs()
    processor, sink = opened(kmeans.Assignment(k=5, spread=5.0), kmeans.Model(decay=0.5), context_of(items, None, 3))
    train(processor, sink, micro_batches(items, 300, 20))
    best = KMeans(5, n_init=5, random_state=0).fit(items).inertia_ / len(items)
    assert sink.metrics()["recent_inertia"] < 1.1 * best


def test_a_centre_without_items_takes_half_of_the_largest_cluster() -> None:
    items = np.random.default_rng(0).normal(size=(100, 4))
    processor, sink = opened(kmeans.Assignment(k=2), kmeans.Model(), context_of(items, None))
    far = processor._centres.copy()
    far[1] = 1e6
    processor.process_feedback((far,))
    train(processor, sink, [items])
    model = sink.model()
    assert model["weights"].tolist() == [50, 50]
    np.testing.assert_allclose(model["centres"].mean(axis=0), items.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model["centres"][0] - model["centres"][1], 2 * kmeans.APART, rtol=1e-9)
    train(processor, sink, [items])
    assert sink.model()["weights"].min() > 0 and not np.allclose(*sink.model()["centres"])


def test_decay_zero_knows_the_last_epoch_only() -> None:
    items, _ = blobs()
    processor, sink = opened(kmeans.Assignment(k=1), kmeans.Model(decay=0.0), context_of(items, None))
    train(processor, sink, [items[:100], items[100:300]])
    np.testing.assert_allclose(sink.model()["centres"][0], items[100:300].mean(axis=0), rtol=1e-12)
    assert sink.model()["weights"].tolist() == [200]


def test_initial_centres_depend_on_the_seed_alone() -> None:
    items, _ = blobs(rows=1)
    centres = [opened(kmeans.Assignment(), kmeans.Model(), context_of(items, 0, seed))[1].model() for seed in (1, 1, 2)]
    np.testing.assert_array_equal(centres[0]["centres"], centres[1]["centres"])
    assert not np.array_equal(centres[0]["centres"], centres[2]["centres"])


def test_wrong_options_and_a_foreign_processor_are_refused() -> None:
    with pytest.raises(ConfigError, match="k is 0, not a whole number from 1"):
        kmeans.Assignment(k=0)
    with pytest.raises(ConfigError, match="decay is 2"):
        kmeans.Model(decay=2)
    with pytest.raises(ConfigError, match="needs its Assignment upstream"):
        opened(svm.Gradient(), kmeans.Model(), context_of(np.zeros((1, 4))))


def test_feedback_for_another_k_is_refused() -> None:
    processor, _ = opened(kmeans.Assignment(k=3), kmeans.Model(), context_of(np.zeros((1, 4))))
    with pytest.raises(ValueError, match="is k the same"):
        processor.process_feedback((np.zeros((4, 4)),))
