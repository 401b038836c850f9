"""The check of linearity finds what is only almost linear, and names it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from riprap.codec.errors import ConfigError
from riprap.operators.base import Processor
from riprap.operators.learning.linearity import check_linear

WEIGHTS = np.array([[2.0, 0.0], [-1.0, 1.0], [0.5, 0.0]])


class Linear(Processor):
    """What the others are variations of."""

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items @ WEIGHTS


class Identity(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items


class Intercept(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items @ WEIGHTS + 1e-7


class Clipped(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return np.clip(items, -1e9, 1e9) @ WEIGHTS


class Normed(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return np.column_stack([items @ WEIGHTS, np.sqrt(np.square(items).sum(axis=1))])


class SmallSquare(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items @ WEIGHTS + 1e-12 * np.square(items[:, :1])


class Product(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items[:, :1] * items[:, 1:]


class Absolute(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return np.abs(items)


class Centred(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items - items.mean(axis=0)


class Rounded(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return (items.astype(np.float32) @ WEIGHTS.astype(np.float32)).astype(np.float64)


class Single(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items.astype(np.float32)


class Summed(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items.sum(axis=0, keepdims=True)


class Flat(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items[:, 0]


class Growing(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return np.zeros((len(items), len(items)))


class Choosy(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        if not ((items[:, 0] >= 0) & (items[:, 0] <= 1)).all():
            raise ValueError("the label is 0 or 1")
        return items


class Greedy(Processor):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        items *= 2.0
        return items


def sample(kind: str) -> np.ndarray:
    """Items as they come: small, of very different sizes, or with values that are not finite."""
    rows = np.random.default_rng(0).standard_normal((50, 3))
    if kind == "small":
        rows *= 1e-6
    elif kind == "uneven":
        rows *= [1e8, 1.0, 1e-8]
    elif kind == "damaged":
        rows[::3, 1] = np.nan
    elif kind == "none":
        rows = rows[:0]
    return rows


SAMPLES = ("plain", "small", "uneven", "damaged", "none")


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("processor", [Linear(), Identity()], ids=lambda processor: type(processor).__name__)
def test_linear_maps_pass(processor: Processor, kind: str) -> None:
    check_linear(processor, sample(kind))


class Cancelling(Processor):
    """Linear, though its terms nearly cancel."""

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return np.column_stack([1e9 * items[:, 0] - 1e9 * items[:, 1]])


def test_terms_that_cancel_are_no_reason_to_refuse() -> None:
    rows = sample("plain")
    rows[:, 1] = rows[:, 0] * (1 + 1e-9)
    check_linear(Cancelling(), rows)


INTERCEPT, SPLIT, ALONE = "the intercept into process_nonlinear", "whatever is not linear", "from that row only"


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize(
    ("processor", "message", "remedy"),
    [
        (Intercept(), r"f\(0\) is 1e-07, not 0", INTERCEPT),
        (Clipped(), "differ", SPLIT),
        (Normed(), "differ: .* in column 2 of the result", SPLIT),
        (SmallSquare(), "differ: .* in column [01] of the result", SPLIT),
        (Product(), "differ", SPLIT),
        (Absolute(), "differ", SPLIT),
        (Centred(), "a row alone and among others differ", ALONE),
        (Rounded(), "differ", SPLIT),
        (Single(), r"it returns float32 of shape \(2, 3\)", "matrix of float64"),
        (Summed(), r"of 2 rows it returns float64 of shape \(1, 3\)", "with a row per item"),
        (Flat(), r"float64 of shape \(2,\)", "with a row per item"),
        (Growing(), "it returns float64 of shape", "always as many columns"),
        (Choosy(), "raise ValueError: the label is 0 or 1", "Accept every value"),
        (Greedy(), "raise ValueError: .*read-only", "Accept every value"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Processor) else "",
)
def test_what_is_not_linear_is_refused_with_its_place(
    processor: Processor, message: str, remedy: str, kind: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        check_linear(processor, sample(kind))
    assert remedy in str(refused.value)
    name = type(processor).__name__
    place = re.search(rf"test_linearity:{name} \((.*):(\d+)\)", str(refused.value))
    assert place and Path(place[1]) == Path(__file__)
    lines = Path(__file__).read_text().splitlines()
    assert lines[int(place[2]) - 1].lstrip().startswith("def process_linear")
    assert f"class {name}(" in "".join(lines[int(place[2]) - 4 : int(place[2])])
