"""A topology that is written out says, read back, what it said before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.configs.document import parse_document, written_document

AWKWARD = ["word", " ", "\n", "\t", ": ", " #", "- ", "'", '"', "\\", "x" * 90, "\x85", "\u2028", "\x00", "yes", "1"]
TEXT = st.lists(st.sampled_from(AWKWARD), max_size=20).map("".join) | st.text(max_size=8)
SCALARS = TEXT | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)


def back(values: dict[str, Any]) -> Any:
    return parse_document("job.yaml", written_document(values).encode()).values


@given(st.dictionaries(TEXT, VALUES, max_size=3))
def test_what_is_written_is_read_back(values: dict[str, Any]) -> None:
    assert repr(back(values)) == repr(values)


@pytest.mark.parametrize(
    "text",
    [
        "a\x85b",  # a line break to YAML, and to it within quotes a space
        "x" * 90 + " \u2028" + ": y",
        "x" * 90 + "  " + "y" * 90,
    ],
)
def test_text_is_neither_broken_nor_folded(text: str) -> None:
    values = {"job": "a", "options": {"pattern": text, text: [text]}}
    assert back(values) == values
