"""The values that a program composes a job of, as a topology file can say them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.configs.document import INTEGER_BITS_MAX


def plain(value: Any, place: str = "") -> Any:
    """The same in mappings, lists, text and numbers, NumPy's among them; ConfigError tells the place of one that no
    file can say."""
    if isinstance(value, Mapping):
        return {plain(key, place): plain(one, f"{place}.{key}".lstrip(".")) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, f"{place}.{index}") for index, one in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() > INTEGER_BITS_MAX:
        raise ConfigError(f"{place}: a whole number of more than 4200 digits", "give a smaller one")
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise ConfigError(
        f"{place}: is a {type(value).__name__}, which no topology can say", "give text, a number, a list or a mapping"
    )
