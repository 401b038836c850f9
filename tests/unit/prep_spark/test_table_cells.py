"""The parsers of cells and of pairs against Python's own csv, float and split."""

from __future__ import annotations

import csv
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from riprap.prep_spark.cells import parse_cells, parse_pairs
from riprap.prep_spark.formats import Reason
from riprap.prep_spark.tables import Codes, Dates

MISSING = frozenset({b"", b"NA"})


def arrow(lines: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """The offsets and bytes of lines, as Arrow has them."""
    offsets = np.cumsum([0, *map(len, lines)]).astype(np.int32)
    return offsets, np.frombuffer(b"".join(lines), np.uint8)


def cells(
    lines: list[bytes], tables: list, slots: list[int] | None = None, delimiter: str = ",",
    missing: frozenset[bytes] = MISSING,
):  # fmt: skip
    """Rows, reasons and places of some lines."""
    slots = [*range(len(tables))] if slots is None else slots
    rows = np.full((len(lines), max(slots) + 1), -7.0)
    reasons, places = np.empty(len(lines), np.uint8), np.empty(len(lines), np.int32)
    kept = parse_cells(*arrow(lines), delimiter, np.array(slots, np.int32), tables, missing, rows, reasons, places)
    return rows[:kept].tolist(), [Reason(reason) for reason in reasons], places.tolist()


def same(ours: list, theirs: list) -> bool:
    return np.array_equal(np.array(ours, float), np.array(theirs, float), equal_nan=True)


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(["", "NA", " 1.5 ", "nan", "1e5", "-0"]),
)  # fmt: skip
words = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=6)


@given(st.lists(st.tuples(numbers, words, numbers), min_size=1, max_size=8), st.booleans())
@example([("1", 'a"b,"c', "2")], True)
@example([("1", "NA", "")], False)
def test_cells_mean_what_the_csv_module_says(table: list[tuple[str, str, str]], quote_all: bool) -> None:
    lines = []
    for row in table:
        text: list[str] = []
        csv.writer(_Into(text), quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL).writerow(row)
        lines.append(text[0].rstrip("\r\n").encode())
    codes = Codes("word", 100)
    rows, reasons, _ = cells(lines, [None, codes, None])
    assert set(reasons) == {Reason.NONE}
    met = [cell.decode() for cell in codes]
    for line, row in zip(lines, rows):
        expected = next(csv.reader([line.decode()], skipinitialspace=True))
        for value, cell in ((row[0], expected[0]), (row[2], expected[2])):
            cell = cell.strip(" ")
            assert same([value], [math.nan if cell in ("", "NA") else float(cell)])
        if not math.isnan(row[1]):
            assert met[int(row[1])] == (expected[1] if line.count(b'"') else expected[1].strip(" "))


class _Into:
    def __init__(self, lines: list[str]) -> None:
        self.write = lines.append


@pytest.mark.parametrize(
    ("line", "reason", "place"),
    [
        (b"1,2", Reason.COLUMNS, 2),
        (b"1,x,2020-01-01,4", Reason.COLUMNS, 4),
        (b"abc,x,2020-01-01", Reason.NUMBER, 0),
        (b"1_000,x,2020-01-01", Reason.NUMBER, 0),
        (b"1 2,x,2020-01-01", Reason.NUMBER, 0),
        (b"1\x00,x,2020-01-01", Reason.NUMBER, 0),
        (b"1,\xff,2020-01-01", Reason.CELL, 1),
        (b"1,x,yesterday", Reason.CELL, 2),
        (b'1,"x,2020-01-01', Reason.QUOTE, 1),
        (b'1,"x"y,2020-01-01', Reason.QUOTE, 1),
        (b"", Reason.BLANK, 0),
        (b"   ", Reason.BLANK, 0),
    ],
)
def test_a_bad_line_has_its_reason_and_its_column(line: bytes, reason: Reason, place: int) -> None:
    good = b"1,x,2020-01-01"
    rows, reasons, places = cells([good, line, good], [None, Codes("c", 9), Dates()])
    assert rows == [[1, 0, 1577836800]] * 2
    assert reasons == [Reason.NONE, reason, Reason.NONE]
    assert places[1] == place


def test_cells_go_to_their_slots_and_others_nowhere() -> None:
    rows, _, _ = cells([b"1\tx\t3\t4", b"5\t\t7\t"], [None, None, None, None], [2, -1, 0, 1], "\t")
    assert same(rows, [[3, 4, 1], [7, math.nan, 5]])


def test_a_number_may_stand_for_a_missing_value() -> None:
    lines = [b"-999,1", b' -999 ,"-999"', b"-999.0,-9990"]
    rows, reasons, _ = cells(lines, [None, None], missing=frozenset({b"", b"-999"}))
    assert same(rows, [[math.nan, 1], [math.nan, math.nan], [-999, -9990]])
    assert set(reasons) == {Reason.NONE}


def test_dates_are_seconds() -> None:
    lines = [b"1970-01-02", b"1970-01-01 00:00:01.5", b"1970-01-01T02:00:00+01:00", b"1970-01-01T00:00:00Z", b"NA"]
    rows, reasons, _ = cells(lines, [Dates()])
    assert same(rows, [[86400], [1.5], [3600], [0], [math.nan]])
    assert set(reasons) == {Reason.NONE}


def test_a_line_may_be_long() -> None:
    line = b",".join([b"%d" % number for number in range(5000)])
    rows, _, _ = cells([b"1" + b",2" * 4999, line], [None] * 5000)
    assert rows[1] == [*range(5000)]


def pairs(lines: list[bytes], first: int = 1):
    """Labels, pairs by row, reasons and places."""
    count = len(lines)
    room = sum(line.count(b":") for line in lines) + 1
    labels, bounds, indexes, values = np.empty(count), np.empty(count + 1, int), np.empty(room, int), np.empty(room)
    reasons, places = np.empty(count, np.uint8), np.empty(count, np.int32)
    kept = parse_pairs(*arrow(lines), first, labels, bounds, indexes, values, reasons, places)
    rows = [dict(zip(indexes[a:b].tolist(), values[a:b].tolist())) for a, b in pairwise(bounds[: kept + 1])]
    return labels[:kept].tolist(), rows, [Reason(reason) for reason in reasons], places.tolist()


def test_pairs_are_read_in_any_order_with_qid_and_comments() -> None:
    lines = [b"+1 3:1 1:0.5 2:-2e1", b"-1 qid:7 9:1 # 8:1", b"0", b"# nothing", b"", b"  1\t1:1  "]
    labels, rows, reasons, _ = pairs(lines)
    assert labels == [1, -1, 0, 1]
    assert rows == [{3: 1, 1: 0.5, 2: -20}, {9: 1}, {}, {1: 1}]
    assert reasons == [Reason.NONE] * 3 + [Reason.BLANK] * 2 + [Reason.NONE]


@pytest.mark.parametrize(
    ("line", "reason", "place"),
    [
        (b"1 0:1", Reason.INDEX, 2),
        (b"1 2:1 1:1 2:3", Reason.DUPLICATE, 10),
        (b"1 2:1 2:3", Reason.DUPLICATE, 6),
        (b"1 2:", Reason.PAIR, 2),
        (b"1 2:x", Reason.PAIR, 2),
        (b"1 :3", Reason.PAIR, 2),
        (b"1 -2:3", Reason.PAIR, 2),
        (b"1 2 :3", Reason.PAIR, 2),
        (b"1 2:3:4", Reason.PAIR, 2),
        (b"1 9999999999:3", Reason.PAIR, 2),
        (b"1 f2:3", Reason.PAIR, 2),
        (b" yes 2:1", Reason.NUMBER, 1),
        (b"1,2 2:1", Reason.NUMBER, 0),
        (b"2:1 3:1", Reason.NUMBER, 0),
    ],
)
def test_a_bad_line_of_pairs_has_its_reason_and_its_character(line: bytes, reason: Reason, place: int) -> None:
    labels, rows, reasons, places = pairs([b"1 1:1", line, b"0 2:2"])
    assert (labels, rows) == ([1, 0], [{1: 1}, {2: 2}])
    assert (reasons[1], places[1]) == (reason, place)


def test_the_first_index_may_be_zero() -> None:
    assert pairs([b"1 0:4 1:5"], first=0)[1] == [{0: 4, 1: 5}]
