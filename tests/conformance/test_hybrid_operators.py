"""What every processor of the package that splits its work must do: be linear, and bear being decoded (LEC III-D)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from test_operators import PAIRS, Pair, bits, block, received, trained

from riprap.codec import make_code
from riprap.operators.learning.linearity import check_linear

HYBRID = {name: pair for name, pair in PAIRS.items() if pair.open()[0].is_hybrid}
ROWS = 37


@pytest.fixture(params=HYBRID)
def pair(request: pytest.FixtureRequest) -> Pair:
    return HYBRID[request.param]


def test_which_split_their_work() -> None:
    predicting = {name for name in PAIRS if name.endswith("_prediction")}
    assert len(predicting) == 6 and HYBRID.keys() == predicting | {"random_features"}


def test_the_linear_part_is_linear(pair: Pair) -> None:
    check_linear(trained(pair)[0], block(100))


def test_an_item_has_the_same_linear_part_in_any_block(pair: Pair) -> None:
    processor, _ = trained(pair)
    items = block(150)
    whole = processor.process_linear(items)
    for size in (1, 2, 3, 5, 64):
        cuts = [processor.process_linear(received(items[at : at + size])) for at in range(0, len(items), size)]
        assert b"".join(bits(cuts)) == whole.tobytes(), f"blocks of {size}"


def test_both_parts_together_are_the_whole(pair: Pair) -> None:
    processor, _ = trained(pair)
    items = block(65)
    linear = processor.process_linear(items)
    expected = bits(processor.process_data(items))
    assert bits(processor.process_nonlinear(linear, items)) == expected
    for offset in range(8):
        assert bits(processor.process_nonlinear(received(linear, offset), None)) == expected


def test_whose_linear_part_travels_alone() -> None:
    """The sink makes of it what the processor would have: `test_both_parts_together_are_the_whole`."""
    assert {name for name, pair in HYBRID.items() if pair.open()[0].is_linear} == {"regression_prediction"}


@pytest.mark.parametrize("name", ["stable", "vandermonde"])
def test_results_follow_from_decoded_linear_parts_after_any_two_losses(pair: Pair, name: str) -> None:
    processor, sink = trained(pair)
    code = make_code(name, 4, 2)
    blocks = [block(ROWS, seed) for seed in range(4)]
    pieces = [processor.process_linear(piece) for piece in (*blocks, *code.encode(blocks))]
    expected = [processor.process_data(items) for items in blocks]
    decodings = 0
    for lost in itertools.combinations(range(6), 2):
        decoded = code.decode({index: piece for index, piece in enumerate(pieces) if index not in lost})
        for index in set(lost) & set(range(4)):
            assert decoded[index].shape == (ROWS, pieces[0].shape[1])
            for found, wanted in zip(sink.recompute_linear(decoded[index]), expected[index]):
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
            decodings += 1
    assert decodings == 20
