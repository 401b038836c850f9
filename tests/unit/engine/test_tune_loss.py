"""How far two results are from each other: by key where there are keys, by position where there are none."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.engine.tune.loss import growth, losses, sizes

COUNTS = st.dictionaries(st.sampled_from([b"a", b"bb", b"c", b"", b"dd"]), st.integers(1, 9))


def words(counts: Mapping[bytes, float]) -> dict[str, np.ndarray]:
    """As CountWords writes them."""
    ordered = sorted(counts)
    return {
        "words": np.frombuffer(b"".join(ordered), np.uint8),
        "offsets": np.cumsum([0, *map(len, ordered)]),
        "counts": np.array([counts[word] for word in ordered], np.int64),
    }


def hitters(*found: tuple[int, int, int]) -> dict[str, np.ndarray]:
    """As GlobalSketch writes them: epoch, flow, bytes; what bounds the error, and between whom it is."""
    columns = np.array(found, np.int64).reshape(-1, 3).T
    described = {"error_max": columns[2] * len(found), "ends": np.full((len(found), 38), len(found), np.uint8)}
    return {"epoch": columns[0], "flow": columns[1].astype(np.uint64), "bytes": columns[2], **described}


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=3))
def test_words_are_compared_by_word_over_all_destinations(
    pairs: list[tuple[dict[bytes, int], dict[bytes, int]]],
) -> None:
    reference = {f"count.{i}": words(pair[0]) for i, pair in enumerate(pairs)}
    found = {f"count.{i}": words(pair[1]) for i, pair in enumerate(pairs)}
    distance = sum(abs(one.get(w, 0) - two.get(w, 0)) for one, two in pairs for w in one.keys() | two.keys())
    norm = sum(sum(one.values()) for one, _ in pairs)
    wanted = distance / norm if norm else float(distance > 0)
    assert losses(reference, found)["counts"] == pytest.approx(wanted)
    assert sizes(reference)["counts"] == norm


def test_rows_are_compared_by_the_window_and_the_flow_they_are_of() -> None:
    reference = {"merge.0": hitters((1, 7, 100), (1, 8, 100), (2, 7, 200))}
    found = {"merge.0": hitters((2, 7, 200), (1, 7, 110), (3, 9, 50))}
    assert losses(reference, found) == {"bytes": pytest.approx((10 + 100 + 50) / 400)}


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("sides", ["reference", "found", "reference and found"])
def test_what_is_no_finite_number_is_no_loss_of_nothing(odd: float, sides: str) -> None:
    """Whatever else is there, and whether by position or by key."""
    sound, broken = np.array([1.0, 2.0]), np.array([odd, 2.0])
    sides_of = [{"a": sound, "b": broken if side in sides else sound} for side in ("reference", "found")]
    keyed = [{**arrays, "epoch": np.array([1, 2])} for arrays in sides_of]
    for reference, found in (sides_of, keyed):
        assert losses({"w": reference}, {"w": found}) == {"a": 0.0, "b": math.inf}


def test_keys_alone_are_counted() -> None:
    lines = words({b"x": 1, b"yy": 1})
    del lines["counts"]
    fewer = words({b"yy": 1})
    del fewer["counts"]
    assert losses({"w": lines}, {"w": fewer}) == {"words": 0.5}


def test_numbers_without_keys_are_compared_by_place_and_a_digest_not_at_all() -> None:
    reference = {"m": {"model": np.array([[1.0, -2.0], [3.0, 4.0]]), "checksum": np.array([5], np.uint64)}}
    found = {"m": {"model": np.array([[1.0, -1.0], [3.0, 2.0]]), "checksum": np.array([6], np.uint64)}}
    assert losses(reference, found) == {"model": 0.3}
    assert losses(reference, {"m": {"model": np.array([1.0, -2.0, 3.0])}}) == {"model": 0.4}


def test_a_destination_or_an_array_that_is_not_there_is_lost_whole() -> None:
    reference = {"a": {"x": np.ones(4)}, "b": {"x": np.ones(4)}}
    assert losses(reference, {"b": {"x": np.ones(4)}}) == {"x": 0.5}
    assert losses(reference, {}) == {"x": 1.0}


def test_of_nothing_nothing_is_lost_and_no_number_is_a_total_loss() -> None:
    assert losses({"a": {"x": np.zeros(3)}}, {"a": {"x": np.zeros(3)}}) == {"x": 0.0}
    assert losses({"a": {"x": np.zeros(3)}}, {"a": {"x": np.ones(3)}}) == {"x": 1.0}
    assert losses({"a": {"x": np.ones(3)}}, {"a": {"x": np.array([1.0, math.nan, 1.0])}}) == {"x": math.inf}


@pytest.mark.parametrize(
    ("shorter", "longer", "ratio", "exponent"),
    [
        ({"counts": 50.0}, {"counts": 100.0}, 2.0, 1.0),
        ({"counts": 50.0}, {"counts": 400.0}, 2.0, 1.0),
        ({"model": 50.0}, {"model": 50.0}, 2.0, 0.0),
        ({"model": 50.0}, {"model": 40.0}, 2.0, 0.0),
        ({"distinct": 50.0}, {"distinct": 100.0}, 4.0, 0.5),
        ({"counts": 50.0, "model": 7.0}, {"counts": 100.0, "model": 7.0}, 2.0, 0.0),
        ({"counts": 0.0}, {"counts": 100.0}, 2.0, 0.0),
        ({"counts": 50.0}, {"counts": 50.0}, 1.0, 0.0),
        ({}, {}, 2.0, 0.0),
    ],
)
def test_growth_is_that_of_what_grows_least(
    shorter: dict[str, float], longer: dict[str, float], ratio: float, exponent: float
) -> None:
    assert growth(shorter, longer, ratio) == pytest.approx(exponent)
