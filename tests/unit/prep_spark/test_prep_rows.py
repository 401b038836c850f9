"""The parser against Python's own float and split."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from riprap.prep_spark.formats import Reason, RowFormat
from riprap.prep_spark.ingest import parse_lines
from riprap.prep_spark.rows import parse

COLUMNS = 3


def dumb(line: str, empty_is_zero: bool) -> tuple[Reason, list[float]]:
    """What a line means, by the slow way."""
    if not line:
        return Reason.BLANK, []
    fields = [field.strip(" ") for field in line.split(",")]
    if len(fields) != COLUMNS:
        return Reason.COLUMNS, []
    values = []
    for field in fields:
        if not field and empty_is_zero:
            values.append(0.0)
            continue
        try:
            if field != field.strip() or "_" in field or not field.isascii():
                return Reason.NUMBER, []
            values.append(float(field))
        except ValueError:
            return Reason.NUMBER, []
        if not math.isfinite(values[-1]):
            return Reason.FINITE, []
    return Reason.NONE, values


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map("{:.18e}".format),
    st.integers(-(10**25), 10**25).map(str),
    st.from_regex(r"[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,5})?", fullmatch=True),
)
fields = st.one_of(numbers, st.text("0123456789.eE+-_ nafix\t\r\0é", max_size=8))
lines = st.one_of(st.lists(fields, min_size=COLUMNS, max_size=COLUMNS), st.lists(fields, max_size=6)).map(",".join)


@given(st.lists(lines, min_size=1, max_size=8), st.booleans())
@example(["1,2\x00,3"], False)
@example(["9007199254740993,1e22,1e23"], False)
@example(["1,2,3,", ",,", "1,,3"], True)
def test_every_line_means_what_python_says(text: list[str], empty_is_zero: bool) -> None:
    rows = np.full((len(text), COLUMNS), -7.0)
    reasons = np.empty(len(text), np.uint8)
    kept = parse("\n".join(text).encode(), ",", empty_is_zero, rows, reasons)
    expected = [dumb(line, empty_is_zero) for line in text]
    assert [Reason(reason) for reason in reasons] == [reason for reason, _ in expected]
    assert rows[:kept].tolist() == [values for reason, values in expected if reason == Reason.NONE]


def test_long_mantissas_are_rounded_once() -> None:
    # Odd multiples of half a unit in the last place, and their neighbours: what rounding twice gets wrong.
    rng = np.random.default_rng(3)
    odd = [int(m) | 1 for m in rng.integers(2**53, 2**54, 2000)]
    texts = [f"{m * scale + step}" for m in odd for scale in (1, 2, 4) for step in (-1, 0, 1)]
    texts += [f"{str(m * 5**k)[:-k]}.{str(m * 5**k)[-k:]}" for m in odd[:500] for k in (1, 2, 3)]
    texts += [f"{value:.18e}" for value in rng.random(20_000)]
    rows = np.empty((len(texts), 1))
    assert parse("\n".join(texts).encode(), ",", False, rows, np.empty(len(texts), np.uint8)) == len(texts)
    assert rows[:, 0].tolist() == [float(text) for text in texts]


def test_a_wrong_number_of_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="number of lines"):
        parse(b"1\n2", ",", False, np.empty((3, 1)), np.empty(3, np.uint8))


def test_a_check_refuses_rows_beside_the_parser() -> None:
    form = RowFormat(
        "toy", ",", ("label", "x"), check=lambda rows: np.where(rows[:, 0] > 1, Reason.LABEL, 0).astype("u1")
    )
    rows, reasons = parse_lines([b"1,2", b"3,4", b"", b"x,6", b"0,8"], form)
    assert rows.tolist() == [[1, 2], [0, 8]]
    assert reasons.tolist() == [Reason.NONE, Reason.LABEL, Reason.BLANK, Reason.NUMBER, Reason.NONE]


@pytest.mark.parametrize(
    ("line", "reason", "expected", "found"),
    [
        (b"1,2", Reason.COLUMNS, "3 columns separated by commas", "2 in '1,2'"),
        (b"1,abc,3", Reason.NUMBER, "a number in column 2 (a)", "'abc'"),
        (b"1,,3", Reason.NUMBER, "a number in column 2 (a)", "''"),
        (b"1,2,1e999", Reason.FINITE, "a finite number in column 3 (b)", "'1e999'"),
        (b"7,2,3", Reason.LABEL, "a label that toy knows in column 1", "'7'"),
        (b"1,2,\xff", Reason.NUMBER, "a number in column 3 (b)", "'\ufffd'"),
    ],
)
def test_a_refusal_names_column_and_content(line: bytes, reason: Reason, expected: str, found: str) -> None:
    assert RowFormat("toy", ",", ("label", "a", "b")).explain(line, reason) == (expected, found)
