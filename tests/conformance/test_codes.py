"""What every registered code promises, tried on random shapes, short blocks, and every pattern of lost blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec import Code, make_code
from riprap.codec.codes import CODES

SMALL = [(k, r) for k in range(1, 6) for r in range(4)]
LARGE = {"vandermonde": [(8, 3)], "stable": [(16, 4), (40, 10)], "gf256": [(16, 4), (40, 10), (200, 55)]}
ALL = [(name, k, r) for name in CODES for k, r in SMALL + LARGE.get(name, [])]


def makeable(name: str, k: int, r: int) -> bool:
    return k <= CODES[name].k_max and r <= CODES[name].r_max


def cases(sizes: list[tuple[str, int, int]]) -> list[Code]:
    return [make_code(*size) for size in sizes if makeable(*size)]


codes_small = pytest.mark.parametrize("code", cases([(n, k, r) for n in CODES for k, r in SMALL]), ids=repr)
codes_all = pytest.mark.parametrize("code", cases(ALL), ids=repr)


def random_blocks(code: Code, shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for _ in range(code.k)]


def assert_equal(code: Code, actual: np.ndarray, expected: np.ndarray) -> None:
    """Bit for bit for exact codes, else to the precision that the condition of the worst pattern tried here leaves."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    if code.exact:
        assert actual.tobytes() == expected.tobytes()
    else:
        scale = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9 * scale)


def lose(blocks: list[np.ndarray], lost: tuple[int, ...]) -> dict[int, np.ndarray]:
    return {i: block for i, block in enumerate(blocks) if i not in lost}


@codes_small
def test_every_loss_of_up_to_r_blocks_is_decoded(code: Code) -> None:
    data = random_blocks(code, (3, 5))
    blocks = data + code.encode(data)
    for size in range(code.r + 1):
        for lost in combinations(range(code.k + code.r), size):
            decoded = code.decode(lose(blocks, lost))
            assert len(decoded) == code.k
            for i in range(code.k):
                assert_equal(code, decoded[i], data[i])
                assert (decoded[i] is data[i]) == (i not in lost)


@pytest.mark.parametrize("code", cases([(n, k, r) for n, sizes in LARGE.items() for k, r in sizes]), ids=repr)
def test_random_losses_of_r_blocks_are_decoded(code: Code) -> None:
    data = random_blocks(code, (7,))
    blocks = data + code.encode(data)
    rng = np.random.default_rng(1)
    for _ in range(25):
        lost = tuple(rng.choice(code.k + code.r, code.r, replace=False))
        for actual, expected in zip(code.decode(lose(blocks, lost)), data):
            assert_equal(code, actual, expected)


@codes_all
def test_fewer_than_k_blocks_are_refused(code: Code) -> None:
    data = random_blocks(code, (2,))
    with pytest.raises(ValueError, match=f"any {code.k} of"):
        code.decode(lose(data, (0,)))


@codes_all
def test_an_index_out_of_range_is_refused(code: Code) -> None:
    blocks = dict(enumerate(random_blocks(code, (2,))))
    for index in (-1, code.k + code.r):
        with pytest.raises(ValueError, match="s_index"):
            code.decode({**blocks, index: blocks[0]})


shapes = st.one_of(
    st.tuples(st.integers(0, 3000)),
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
)


@st.composite
def code_and_shape(draw: st.DrawFn) -> tuple[Code, tuple[int, ...]]:
    name = draw(st.sampled_from(list(CODES)))
    k = draw(st.integers(1, min(12, CODES[name].k_max)))
    r = draw(st.integers(0, min(6 if name != "vandermonde" else 2, CODES[name].r_max)))
    return make_code(name, k, r), draw(shapes)


@given(code_and_shape(), st.randoms(use_true_random=False), st.data())
@settings(max_examples=80, deadline=None)
def test_updates_in_any_order_with_short_blocks_equal_encode(case, random, data_strategy) -> None:
    code, shape = case
    rows = [data_strategy.draw(st.one_of(st.just(shape[0]), st.integers(0, shape[0]))) for _ in range(code.k)]
    full = random_blocks(code, shape, seed=random.randrange(2**32))
    short = [block[:n] for block, n in zip(full, rows)]
    padded = [np.concatenate([block, np.zeros((shape[0] - len(block), *shape[1:]))]) for block in short]
    order = list(range(code.k))
    random.shuffle(order)
    encoder = code.encoder(shape, np.float64)
    for _ in range(2):  # the second row reuses the encoder
        for i in order:
            encoder.update(i, short[i])
        parity = encoder.parity()
        assert len(parity) == code.r
        for actual, expected in zip(parity, code.encode(padded)):
            assert_equal(code, actual, expected)
        encoder.reset()
    for lost in [tuple(order[: code.r]), tuple(range(min(code.r, code.k)))]:
        decoded = code.decode(lose(short + parity, lost))
        for i in lost:
            assert_equal(code, decoded[i], padded[i])


@codes_all
def test_updates_in_order_equal_encode_to_the_last_bit(code: Code) -> None:
    data = random_blocks(code, (37, 3))
    encoder = code.encoder((37, 3), np.float64)
    for i, block in enumerate(data):
        encoder.update(i, block)
    assert [p.tobytes() for p in encoder.parity()] == [p.tobytes() for p in code.encode(data)]


@codes_small
def test_parity_has_the_rows_of_the_longest_where_rows_have_no_bytes(code: Code) -> None:
    data = [np.empty((2 + i, 0)) for i in range(code.k)]
    assert [parity.shape for parity in code.encode(data)] == [(1 + code.k, 0)] * code.r


@codes_all
def test_blocks_never_updated_count_as_zeros(code: Code) -> None:
    zeros = [np.zeros((4, 3)) for _ in range(code.k)]
    assert [p.tobytes() for p in code.encoder((4, 3), np.float64).parity()] == [z.tobytes() for z in zeros[:1]] * code.r
    data = random_blocks(code, (4, 3))
    encoder = code.encoder((4, 3), np.float64)
    encoder.update(0, data[0])
    for actual, expected in zip(encoder.parity(), code.encode([data[0], *zeros[1:]])):
        assert_equal(code, actual, expected)


@codes_all
def test_parity_outlives_the_encoder_and_the_data(code: Code) -> None:
    data = random_blocks(code, (40, 8))
    expected = [p.copy() for p in code.encode(data)]
    encoder = code.encoder((40, 8), np.float64)
    scratch = np.empty((40, 8))
    for i, block in enumerate(data):
        scratch[:] = block
        encoder.update(i, scratch)
    parity = encoder.parity()
    encoder.reset()
    for i in range(code.k):
        encoder.update(i, scratch)
    encoder.parity()
    for actual, wanted in zip(parity, expected):
        assert actual.flags.writeable and actual.ctypes.data % 64 == 0
        assert_equal(code, actual, wanted)


@codes_all
def test_data_in_any_layout_gives_the_same_parity(code: Code) -> None:
    data = random_blocks(code, (30, 6))
    expected = code.encode(data)
    bytes_ = np.empty((code.k, 30 * 6 * 8 + 1), np.uint8)
    misaligned = [row[1:].view(np.float64).reshape(30, 6) for row in bytes_]
    for target, block in zip(misaligned, data):
        target[:] = block
    assert misaligned[0].ctypes.data % 8 or (code.k > 1 and misaligned[1].ctypes.data % 8)
    strided = [np.repeat(block, 2, axis=0)[::2] for block in data]
    fortran = [np.asfortranarray(block) for block in data]
    received = [np.frombuffer(block.tobytes()).reshape(30, 6) for block in data]  # read-only, as from the network
    for layout in (misaligned, strided, fortran, received):
        assert [p.tobytes() for p in code.encode(layout)] == [p.tobytes() for p in expected]
        blocks = lose(layout + expected, tuple(range(min(code.k, code.r))))
        for actual, wanted in zip(code.decode(blocks), data):
            assert_equal(code, actual, wanted)


@codes_small
def test_threads_may_share_a_code(code: Code) -> None:
    rows = [random_blocks(code, (500, 8), seed) for seed in range(8)]
    expected = [[p.tobytes() for p in code.encode(row)] for row in rows]
    lost = tuple(range(min(code.k, code.r)))

    def work(index: int) -> None:
        for _ in range(5):
            parity = code.encode(rows[index])
            assert [p.tobytes() for p in parity] == expected[index]
            for actual, wanted in zip(code.decode(lose(rows[index] + parity, lost)), rows[index]):
                assert_equal(code, actual, wanted)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(len(rows)))) == [None] * len(rows)


BITS = [0, 1, 1 << 63, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48 | 5, 0x7FF0 << 48 | 1, (1 << 64) - 1, 0x000F << 48]


@pytest.mark.parametrize("code", [c for c in cases(ALL) if c.exact], ids=repr)
def test_exact_codes_keep_every_bit_of_nan_infinity_and_denormals(code: Code) -> None:
    rng = np.random.default_rng(2)
    data = [rng.choice(np.array(BITS, np.uint64), 50).view(np.float64) for _ in range(code.k)]
    blocks = data + code.encode(data)
    for lost in (tuple(range(min(code.k, code.r))), tuple(rng.choice(code.k + code.r, code.r, replace=False))):
        for actual, expected in zip(code.decode(lose(blocks, lost)), data):
            assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("code", [c for c in cases(ALL) if c.exact], ids=repr)
@pytest.mark.parametrize("dtype", ["u1", "<f4", "S7", "M8[s]", [("a", "u1"), ("b", "<i2")]], ids=str)
def test_exact_codes_take_any_plain_dtype_of_any_odd_size(code: Code, dtype) -> None:
    rng = np.random.default_rng(3)
    size = np.dtype(dtype).itemsize
    for count in (0, 1, 61):
        data = [rng.integers(0, 256, count * size, np.uint8).view(dtype) for _ in range(code.k)]
        blocks = data + code.encode(data)
        decoded = code.decode(lose(blocks, tuple(range(min(code.k, code.r)))))
        assert [d.tobytes() for d in decoded] == [d.tobytes() for d in data]
        assert all(d.dtype == np.dtype(dtype) for d in decoded)


@pytest.mark.parametrize("code", [c for c in cases(ALL) if c.linear and c.r], ids=repr)
def test_linear_codes_commute_with_linear_functions(code: Code) -> None:
    data = random_blocks(code, (9, 4))
    weights = np.random.default_rng(4).standard_normal(4)
    results = [block @ weights for block in data + code.encode(data)]
    lost = tuple(range(min(code.k, code.r)))
    for actual, block in zip(code.decode(lose(results, lost)), data):
        np.testing.assert_allclose(actual, block @ weights, rtol=0, atol=1e-9 * max(1, code.condition_number(lost)))


@codes_all
def test_the_condition_number_is_that_of_the_system(code: Code) -> None:
    assert code.condition_number(()) == 1.0
    assert code.condition_number(range(code.k, code.k + code.r)) == 1.0
    with pytest.raises(ValueError, match="survives"):
        code.condition_number(range(code.r + 1))
    with pytest.raises(ValueError, match="s_index"):
        code.condition_number([code.k + code.r])
    if code.r:
        assert code.condition_number([0]) >= 1.0
        assert not code.exact or code.condition_number([0]) == 1.0


@codes_all
def test_blocks_that_do_not_fit_are_refused(code: Code) -> None:
    encoder = code.encoder((4, 3), np.float64)
    for wrong in (np.zeros((5, 3)), np.zeros((4, 2)), np.zeros(4), np.zeros((4, 3), np.float32), np.float64(1)):
        with pytest.raises(ValueError, match="expected float64"):
            encoder.update(0, np.asarray(wrong))
    for index in (-1, code.k):
        with pytest.raises(ValueError, match="s_index"):
            encoder.update(index, np.zeros((4, 3)))
    encoder.update(0, np.zeros((4, 3)))
    with pytest.raises(ValueError, match="before"):
        encoder.update(0, np.zeros((4, 3)))
    encoder.parity()
    with pytest.raises(ValueError, match="reset"):
        encoder.update(0, np.zeros((4, 3)))
    with pytest.raises(ValueError, match="not 0"):
        code.encode([])
    with pytest.raises(ValueError, match=r"object|float64"):
        code.encode([np.array([object()])] * code.k)


@pytest.mark.parametrize("code", [c for c in cases(ALL) if c.r > 1 and c.k > 1], ids=repr)
def test_decode_refuses_blocks_of_different_shapes(code: Code) -> None:
    data = random_blocks(code, (4, 3))
    blocks = lose(data + code.encode(data), (0, 1))
    with pytest.raises(ValueError, match="shapes"):
        code.decode({**blocks, code.k: np.zeros((3, 3))})
    if code.k > 2:
        with pytest.raises(ValueError, match="expected"):
            code.decode({**blocks, 2: np.zeros((5, 3))})
