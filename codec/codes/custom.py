"""A user's own erasure code behind the interface of ours: two methods, Encode and Decode of LEC Listing 1.

    class Mine:
        exact = False   # decoding gives back every bit
        linear = False  # it commutes with linear functions, so that attachment `hybrid` may use it

        def __init__(self, k: int, r: int): ...
        def encode(self, data: list[np.ndarray]) -> list[np.ndarray]: ...         # k blocks -> r parity blocks
        def decode(self, blocks: dict[int, np.ndarray]) -> list[np.ndarray]: ...  # any k of k + r -> the k data blocks

All blocks that it is given are C-contiguous, of one dtype and shape, and must not be changed. Sources and sinks make
one each, with the same k and r, so it must come to the same coefficients everywhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.codec.importing import import_named, own_line

EXAMPLE = "my_codes:Mine"


class CustomCode:
    """A `riprap.codec.codes.code.Code` made of a user's own class."""

    def __init__(self, path: str, k: int, r: int) -> None:
        self.name, self.k, self.r = path, k, r
        self._own = _make(path, k, r)
        self.exact, self.linear = bool(getattr(self._own, "exact", False)), bool(getattr(self._own, "linear", False))

    def __repr__(self) -> str:
        return f"<Code {self.name} k={self.k} r={self.r}>"

    def encode(self, data: Sequence[np.ndarray], out: list[np.ndarray] | None = None) -> list[np.ndarray]:
        """As `Code.encode`; ValueError unless the user's own gives r blocks like the longest of the data."""
        longest = max(data, key=len)
        parity = self._checked("encode", self._own.encode([_padded(block, longest) for block in data]), self.r, longest)
        for target, block in zip(out or (), parity):
            target[...] = block
        return parity if out is None else out

    def decode(self, blocks: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """As `Code.decode`; what is there is returned as it is. ValueError unless the user's own gives k blocks."""
        if len(blocks) < self.k:
            raise ValueError(f"{self!r} decodes from any {self.k} of its {self.k + self.r} blocks, not {len(blocks)}")
        longest = max(blocks.values(), key=len)
        whole = {i: _padded(block, longest) for i, block in sorted(blocks.items())}
        decoded = self._checked("decode", self._own.decode(whole), self.k, longest)
        return [blocks.get(i, block) for i, block in enumerate(decoded)]

    def _checked(self, method: str, found: Any, count: int, like: np.ndarray) -> list[np.ndarray]:
        blocks = [np.asarray(block) for block in found]
        wrong = [block for block in blocks if block.dtype != like.dtype or block.shape != like.shape]
        if len(blocks) != count or wrong:
            kinds = sorted({f"{block.dtype}{list(block.shape)}" for block in wrong or blocks})
            raise ValueError(
                f"{method} of {self.name} returned {len(blocks)} blocks, {', '.join(kinds)}; "
                f"expected {count} of {like.dtype}{list(like.shape)}"
            )
        return blocks


def _make(path: str, k: int, r: int) -> Any:
    module, found = import_named("code", path, EXAMPLE)
    made: Any = found
    name = path.partition(":")[2]
    if not inspect.isclass(found) or not all(callable(getattr(found, method, None)) for method in ("encode", "decode")):
        has = "is no class with encode and decode" if found is not None else f"is not in {module.__name__}"
        raise ConfigError(
            f"code {path!r}: {name} {has}", "Name a class with the methods encode and decode: docs/schemes.md."
        )
    try:
        return made(k, r)
    except Exception as error:
        raise ConfigError(
            f"code {path!r} cannot be made with k={k} and r={r}: {own_line(error, __file__)}",
            "Let its constructor take k and r, or choose others.",
        ) from error


def _padded(block: np.ndarray, longest: np.ndarray) -> np.ndarray:
    """A read-only block of the longest's length, with zeros behind what is there."""
    if len(block) < len(longest):
        block = np.concatenate([block, np.zeros((len(longest) - len(block), *block.shape[1:]), block.dtype)])
    view = np.ascontiguousarray(block).view()
    view.flags.writeable = False
    return view
