"""JSON that every reader takes (RFC 8259), and a reader of whatever a file holds.

Python's own writer lets NaN and Infinity through, and its reader ends in a RecursionError.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def to_json(value: Any, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """The text of `value`. Numbers that are not finite become null, NumPy's scalars numbers, anything else its text."""
    try:
        return json.dumps(value, indent=indent, separators=separators, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, separators=separators, default=_plain, allow_nan=False)


def from_json(text: str | bytes) -> Any:
    """The value that a text writes; ValueError for what is no JSON, or nested without end."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested without end") from error


def _finite(value: Any) -> Any:
    """The same with None in place of each number that is not finite."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    value = value if isinstance(value, str | int | float | None) else _plain(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    """A NumPy scalar as its Python number, anything else as text."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)
