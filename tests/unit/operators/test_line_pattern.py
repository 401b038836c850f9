"""Searches over whole blocks find the lines that searches line by line find."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.operators.states import pack_keys
from riprap.operators.text.line_pattern import LinePattern

PIECES = [
    *("a", "b", "ab", "a*", "b+", "a?", "[^a]", "[^b]+", r"\s", r"\s*", r"\W", ".", ".*", "^", "$", r"\b", r"\B"),
    *("a{2}", "|", "|"),
    *("(a|b)", "(?:ab)+", "(?i:A)", "(?s:.)", "(?P<n>a)(?P=n)", "(a)?(?(1)b|a)", r"(b)\1", "(?s)", "(?m)", "[a ]*"),
    *(r"\A", r"\Z", "(?=a)", "(?!b)", r"(?!\s)", "(?<=a)", "(?<!b)", "a++", r"\s*+", "(?>a*)", "(?-m:^)"),
]
texts = st.lists(st.sampled_from([b"", b"a", b"ab", b" ", b"b a", b"aab", b"ba ", b"a\nb", b"AB"]), max_size=12)


def line_by_line(pattern: bytes, lines: list[bytes], first: int) -> list[int]:
    return [number for number, line in enumerate(lines) if number >= first and re.search(pattern, line)]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5), texts, st.integers(0, 4), st.integers(0, 3))
def test_lines_are_found_as_line_by_line(pieces: list[str], lines: list[bytes], first: int, before: int) -> None:
    pattern = "".join(pieces).encode()
    try:
        re.compile(pattern)
    except re.error:
        return
    first = min(first, len(lines))
    data, offsets = pack_keys([b"a" * before, *lines, b"ab"])
    found = LinePattern(pattern).matching(data, offsets[1:-1], first)
    assert found.dtype == np.int64 and found.tolist() == line_by_line(pattern, lines, first)


@pytest.mark.parametrize("pattern", PIECES)
def test_each_piece_alone(pattern: str) -> None:
    lines = [b"", b"a", b"b", b"", b"ab", b" a", b"bb", b"a ", b"\n", b""]
    found = LinePattern(pattern.encode()).matching(*pack_keys(lines), 0)
    assert found.tolist() == line_by_line(pattern.encode(), lines, 0)


def test_a_match_across_lines_hides_none() -> None:
    lines = [b"xa", b"b", b"aab", b"a", b"", b"b"]
    assert LinePattern(b"a[^c]*b").matching(*pack_keys(lines), 0).tolist() == [2]
    assert LinePattern(b"[^c]{3}").matching(*pack_keys(lines), 0).tolist() == [2]


def test_no_lines_are_refused() -> None:
    for offsets in ([0, 4], [2, 1, 3], []):
        with pytest.raises(ValueError):
            LinePattern(b"a+").matching(np.zeros(3, np.uint8), np.array(offsets, np.int64), 0)
