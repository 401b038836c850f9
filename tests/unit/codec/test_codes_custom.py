"""A user's own code: what the adapter passes and takes, and that `check_code` finds each broken law by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.codec.codes import CODES, load_code, make_code
from riprap.codec.codes.laws import check_code
from riprap.codec.codes.patterns import losses, worst_condition
from riprap.codec.errors import ConfigError

CODES_OF_USERS = '''
import itertools
import numpy as np
from riprap.codec.codes import make_code

class Good:
    exact = True
    def __init__(self, k, r):
        self.code = make_code("gf256", k, r)
    def encode(self, data):
        assert len({block.shape for block in data}) == 1 and not any(block.flags.writeable for block in data)
        return self.code.encode(data)
    def decode(self, blocks):
        assert len({block.shape for block in blocks.values()}) == 1
        return self.code.decode(blocks)

class Real(Good):
    exact, linear = False, True
    def __init__(self, k, r):
        self.code = make_code("stable", k, r)

class NotExact(Real):
    exact = True

class NotLinear(Good):
    linear = True

class NotMds(Good):
    """Every parity is the same sum."""
    def encode(self, data):
        return [self.code.encode(data)[0]] * self.code.r

class Moody(Good):
    moods = itertools.count()
    def encode(self, data):
        return [block + next(self.moods) for block in self.code.encode(data)]

class Few(Good):
    def encode(self, data):
        return self.code.encode(data)[:-1]

class Narrow(Good):
    def decode(self, blocks):
        return [block[:, :1] for block in self.code.decode(blocks)]

class Scribbler(Good):
    def encode(self, data):
        data[0] += 1
        return self.code.encode(data)

class Picky:
    def __init__(self, k, r):
        raise ValueError("only k = 3")
    encode = decode = None

class NoDecode:
    def encode(self, data): ...
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with codes of users, good ones and broken ones."""
    (tmp_path / f"codes_{tmp_path.name}.py").write_text(
        CODES_OF_USERS.replace("encode = decode = None", "encode = decode = print")
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return f"codes_{tmp_path.name}"


@pytest.mark.parametrize("k", [1, 2, 4, 7])
@pytest.mark.parametrize("r", [0, 1, 2, 3])
def test_sound_codes_keep_all_laws(module: str, k: int, r: int) -> None:
    for name, exact, linear in (("Good", True, False), ("Real", False, True)):
        code = check_code(f"{module}:{name}", k, r)
        assert (code.exact, code.linear, code.k, code.r) == (exact, linear, k, r)


BROKEN = {
    "NotExact": "not decoded to the bit",
    "NotLinear": "of a linear function's results, though it is `linear`",
    "NotMds": r"block \d is not decoded to the bit without the blocks",
    "Moody": "other parity for the same data",
    "Few": r"encode of .* returned 1 blocks",
    "Narrow": r"decode of .* returned 4 blocks, float64\[6, 1\]; expected 4 of float64\[6, 4\]",
    "Scribbler": r"(?s)read-only.*codes_.*\.py:\d+: data\[0\] \+= 1",
    "Picky": r"(?s)cannot be made with k=4 and r=2: ValueError: only k = 3.*raise ValueError",
    "NoDecode": "is no class with encode and decode",
    "Absent": "Absent is not in codes_",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_law_is_named(module: str, name: str) -> None:
    with pytest.raises(ConfigError, match=BROKEN[name]):
        check_code(f"{module}:{name}", 4, 2)


def test_the_example_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples"))
    assert check_code("own_code:SumAndWeightedSum", 4, 2).linear
    with pytest.raises(ConfigError, match="r is 2 with this code"):
        check_code("own_code:SumAndWeightedSum", 4, 3)


def test_short_blocks_are_padded_and_memory_that_is_given_is_filled(module: str) -> None:
    code: Any = load_code(f"{module}:Good", 3, 2)
    data = [np.arange(8.0).reshape(4, 2), np.ones((2, 2)), np.empty((0, 2))]
    memory = [np.empty((4, 2)), np.empty((4, 2))]
    assert code.encode(data, memory) is memory
    expected = make_code("gf256", 3, 2).encode(data)
    assert [block.tobytes() for block in memory] == [block.tobytes() for block in expected]
    decoded = code.decode({0: data[0], 3: memory[0], 4: memory[1]})
    assert decoded[0] is data[0] and decoded[1][:2].tobytes() == data[1].tobytes() and not decoded[1][2:].any()
    with pytest.raises(ValueError, match="any 3 of"):
        code.decode({0: data[0]})


@pytest.mark.parametrize(("k", "r", "most", "count"), [(4, 2, 15, 15), (4, 2, 14, 14), (1, 0, 5, 1)])
def test_losses_are_all_or_as_many_as_are_asked_for(k: int, r: int, most: int, count: int) -> None:
    found = list(losses(k, r, most, np.random.default_rng(1)))
    assert len(found) == count and all(len(set(lost)) == r and max(lost, default=0) < k + r for lost in found)


def test_the_worst_condition_is_the_worst_of_all() -> None:
    assert worst_condition(make_code("gf256", 16, 4)) == 1.0
    code = make_code("vandermonde", 5, 3)
    expected = max(code.condition_number(lost) for lost in losses(5, 3, 10_000, np.random.default_rng(0)))
    assert worst_condition(code) == expected
    assert worst_condition(make_code("vandermonde", 16, 4)) > 1e12 > 1e5 > worst_condition(make_code("stable", 16, 4))
    assert set(CODES) == {"vandermonde", "stable", "xor", "gf256", "replication"}
