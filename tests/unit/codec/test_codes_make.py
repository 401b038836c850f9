"""`make_code`: names, limits, and messages that say what was expected."""

from __future__ import annotations

import numpy as np
import pytest

from riprap.codec import make_code


def test_attributes_say_what_a_code_can_do() -> None:
    flags = {name: (make_code(name, 1, 1).exact, make_code(name, 1, 1).linear) for name in ("xor", "gf256", "stable")}
    assert flags == {"xor": (True, False), "gf256": (True, False), "stable": (False, True)}
    code = make_code("replication", 1, 2)
    assert (code.name, code.k, code.r, code.exact, code.linear) == ("replication", 1, 2, True, True)
    assert make_code("vandermonde", 4, 2).linear and not make_code("vandermonde", 4, 2).exact


@pytest.mark.parametrize(
    ("name", "k", "r", "message"),
    [
        ("raid", 4, 2, "expected one of vandermonde, stable, xor, gf256, replication"),
        ("gf256", 0, 2, "k from 1"),
        ("gf256", 4, -1, "r from 0"),
        ("gf256", 200, 56, "at most 255"),
        ("xor", 4, 2, "r from 0 to 1"),
        ("replication", 2, 1, "k from 1 to 1"),
        ("vandermonde", 100, 20, "use 'stable'"),
    ],
)
def test_what_cannot_be_made_is_refused(name: str, k: int, r: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_code(name, k, r)


def test_the_paper_s_example() -> None:
    """LEC figure 2: k = 2, r = 2, parities X1 + X2 and X1 + 2 X2."""
    x1, x2 = np.array([3.0, 5.0]), np.array([10.0, 20.0])
    first, second = make_code("vandermonde", 2, 2).encode([x1, x2])
    assert first.tolist() == [13.0, 25.0]
    assert second.tolist() == [23.0, 45.0]


def test_xor_and_copies_are_what_they_say() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(0, 256, 1001, np.uint8) for _ in range(3))
    assert (make_code("xor", 3, 1).encode([a, b, c])[0] == a ^ b ^ c).all()
    assert (make_code("gf256", 3, 2).encode([a, b, c])[0] == a ^ b ^ c).all()
    copies = make_code("replication", 1, 3).encode([a])
    assert len(copies) == 3 and all((copy == a).all() for copy in copies)


def test_more_blocks_than_needed_use_the_data_first() -> None:
    code = make_code("vandermonde", 3, 2)
    data = [np.full(4, float(i)) for i in range(3)]
    wrong = [np.full(4, 99.0)] * 2
    assert [d is e for d, e in zip(code.decode(dict(enumerate(data + wrong))), data)] == [True] * 3
