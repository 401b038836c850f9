"""Columns and numbers of lines, beside what Python makes of them."""

from __future__ import annotations

import math
import re
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.operators.dataflow import Items
from riprap.operators.iteration.read_rows import _line_by_line, table_of
from riprap.operators.panes.timed_lines import TimedLines
from riprap.operators.states.checks import pack_keys, unpack_keys
from riprap.operators.text.columns import column, numbers, whole_numbers, words

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LONG_POWER = re.compile(r"[eE][+-]?\d{5}")
"""It is left to Python, as `test_what_is_not_plainly_a_number_is_left` says."""
DRAWN = st.text("0123456789+-.eE", max_size=12).filter(lambda text: not LONG_POWER.search(text))
NUMBERS = FINITE.map(repr) | st.integers(-(10**30), 10**30).map(str) | DRAWN
LINES = st.lists(st.binary(max_size=12), max_size=8)


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def as_float(text: str) -> float | None:
    """What Python reads; None where it reads none."""
    try:
        return float(text)
    except ValueError:
        return None


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_a_number_is_the_one_that_python_reads(texts: list[str]) -> None:
    found = numbers(*pack_keys([text.encode() for text in texts]))
    values = [as_float(text) for text in texts]
    if None in values:
        assert found is None
    else:
        assert found is not None and [*map(bits, found)] == [bits(value) for value in values if value is not None]


@pytest.mark.parametrize(
    "text",
    ["1e22", "1e23", "9007199254740993", "0.1", "1e-22", "1e-23", "123456789012345678.5", "-0", "1e999", ".5", "5."],
)
def test_numbers_at_the_ends_of_the_short_way(text: str) -> None:
    found = numbers(*pack_keys([text.encode()]))
    assert found is not None and bits(found[0]) == bits(float(text))


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "nan", "inf", "0x1", "1_0", ".", "-", "e5", "1e", "1e+", "1.2.3", "1e12345"]
)
def test_what_is_not_plainly_a_number_is_left(text: str) -> None:
    assert numbers(*pack_keys([b"1", text.encode()])) is None
    assert whole_numbers(*pack_keys([b"1", text.encode()])) is None


@given(st.lists(st.integers(-(10**18) + 1, 10**18 - 1), min_size=1, max_size=5))
def test_whole_numbers(values: list[int]) -> None:
    found = whole_numbers(*pack_keys([str(value).encode() for value in values]))
    assert found is not None and found.tolist() == values


@pytest.mark.parametrize("text", ["1234567890123456789", "+1", "1.0", "--1"])
def test_whole_numbers_of_another_form_are_left(text: str) -> None:
    assert whole_numbers(*pack_keys([text.encode()])) is None


@given(LINES, st.integers(0, 3))
def test_a_column_is_what_split_has_there(lines: list[bytes], number: int) -> None:
    found = column(*pack_keys(lines), b",", number)
    split = [line.split(b",") for line in lines]
    if any(len(parts) <= number for parts in split) or not b"".join(lines):
        assert found is None
    else:
        assert found is not None and unpack_keys(found) == [parts[number] for parts in split]


@given(st.lists(st.text("ab \t\r\n\x0b\x0c\x1c", max_size=9).map(str.encode), max_size=6))
def test_words_are_those_of_split(lines: list[bytes]) -> None:
    found = words(*pack_keys(lines))
    assert found is not None
    data, offsets, counts = found
    split = [line.split() for line in lines]
    assert unpack_keys((data, offsets)) == [word for one in split for word in one]
    assert counts.tolist() == [*map(len, split)]


@pytest.mark.parametrize("offsets", [[0, 3, 2], [-1, 2], [0, 4], []])
def test_offsets_that_are_none_are_left(offsets: list[int]) -> None:
    lines = np.frombuffer(b"1 2", np.uint8), np.array(offsets, np.int64)
    assert words(*lines) is None and numbers(*lines) is None and whole_numbers(*lines) is None
    assert column(*lines, b",", 0) is None
    assert numbers(lines[0].astype(np.int8), np.array([0, 1])) is None, "nor are other types"


@given(
    st.lists(
        st.lists(FINITE.map(repr), min_size=2, max_size=2).map(" \t".join) | st.sampled_from(["", "  "]), max_size=6
    )
)
def test_a_table_is_the_same_at_once_and_line_by_line(texts: list[str]) -> None:
    lines = pack_keys([text.encode() for text in texts])
    at_once, one_by_one = table_of(*lines, "rows", ""), _line_by_line(*lines, "rows", "")
    assert at_once.dtype == one_by_one.dtype and at_once.shape == one_by_one.shape
    assert at_once.tobytes() == one_by_one.tobytes()


def test_a_line_end_within_a_line_ends_it() -> None:
    lines = pack_keys([b"1 2\r3 4", b"5 6\r"])
    assert table_of(*lines, "rows", "").tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_table_keeps_what_only_python_reads() -> None:
    table = table_of(*pack_keys([b"1 nan", b"inf 2"]), "rows", "")
    assert table[0, 0] == 1 and math.isnan(table[0, 1]) and table[1].tolist() == [math.inf, 2]


@pytest.mark.parametrize("text", [False, True])
@given(rows=st.lists(st.tuples(st.integers(-9, 10**15), st.integers(0, 99), FINITE), min_size=1, max_size=6))
def test_timed_lines_are_the_same_at_once_and_one_by_one(text: bool, rows: list[tuple[int, int, float]]) -> None:
    source = TimedLines(value=2, text=text)
    lines = pack_keys([",".join(map(repr, row)).encode() for row in rows])
    at_once, one_by_one = source._at_once(*lines), source._line_by_line(*lines)
    assert at_once is not None
    assert [(one.dtype, one.tobytes()) for one in at_once] == [(one.dtype, one.tobytes()) for one in one_by_one]


def test_odd_lines_are_read_one_by_one() -> None:
    source = TimedLines(value=2)
    times, values, keys = source.prepare(Items(1, "", 0, 2, pack_keys([b" 1,2,inf", b"+3,4,1"]))).arrays
    assert (times.tolist(), values.tolist(), keys.tolist()) == ([1, 3], [math.inf, 1], [2, 4])
