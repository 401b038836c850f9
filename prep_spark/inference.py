"""Finds the kinds of the columns of a text table, from the first lines of its first file."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from riprap.prep_spark.columns import Found, Kind
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.tables import seconds

SAMPLE_LINES = 1000
DELIMITERS = (",", "\t", ";", "|")
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "?")
"""Cells that stand for a value that is missing, unless the user names others."""
UTF16 = (b"\xff\xfe", b"\xfe\xff")
BOM = b"\xef\xbb\xbf"
EXAMPLES = 3


class Delimited(NamedTuple):
    """The form of a delimited file: `header` is the line that names the columns, None without one."""

    columns: list[Found]
    delimiter: str
    header: bytes | None


def infer_delimited(
    lines: Sequence[bytes], file: str, delimiter: str | None, header: bool | None, missing: Collection[str]
) -> Delimited:
    """Columns, delimiter and header of a file from its first lines; values that are given are taken as they are.

    A first line with a number in it is no header.

    PrepError names the file when it is not text in UTF-8, or has no row.
    """
    texts = [text for text in decoded(lines, file) if text.strip()]
    if not texts:
        raise PrepError(f"{file} is empty", "name a file that has rows")
    if len(texts) == 1 and "\r" in texts[0]:
        raise PrepError(f"{file} is one line: its lines end with CR alone", "convert it: tr '\\r' '\\n'")
    mark = delimiter or _delimiter(texts[0])
    rows = [cells_of(text, mark) for text in texts]
    has_header = header if header is not None else not any(map(_is_number, rows[0]))
    if has_header and len(rows) == 1:
        raise PrepError(f"{file} has a header and no row", "name a file that has rows, or give --no-header")
    names = _names(rows[0], file) if has_header else [f"c{place}" for place in range(1, len(rows[0]) + 1)]
    cells = [row for row in rows[has_header:] if len(row) == len(names)]
    columns = [_column(name, [row[place].strip() for row in cells], missing) for place, name in enumerate(names)]
    first = next(line for line in lines if line.removeprefix(BOM).strip())
    return Delimited(columns, mark, first if has_header else None)


def decoded(lines: Sequence[bytes], file: str) -> list[str]:
    """The lines as text; PrepError with line and column for bytes that are not UTF-8."""
    if lines and lines[0][:2] in UTF16:
        raise PrepError(f"{file}, line 1: expected UTF-8, found UTF-16", "convert it: iconv -f UTF-16 -t UTF-8")
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.removeprefix(BOM).decode() if number == 1 else line.decode())
        except UnicodeDecodeError as error:
            raise PrepError(
                f"{file}, line {number}, byte {error.start + 1}: expected UTF-8, found 0x{line[error.start]:02x}",
                "convert it, for example: iconv -f LATIN1 -t UTF-8",
            ) from error
    return texts


def _delimiter(line: str) -> str:
    """The delimiter that cuts the line into most cells."""
    return max(DELIMITERS, key=lambda mark: len(cells_of(line, mark)))


def cells_of(line: str, mark: str) -> list[str]:
    """The cells of a line, without their quotes, as `parse_cells` tells them apart.

    Not by Python's csv, which refuses long cells, and CR within them.
    """
    spaces, end = ("" if mark == " " else " *"), re.escape(mark)
    cell = re.compile(rf'{spaces}(?:"((?:[^"]|"")*)"{spaces}(?={end}|\Z)|([^{end}]*))')
    cells, at = [], 0
    while at <= len(line):
        found = cell.match(line, at)
        assert found is not None, "a cell may be empty"
        quoted, plain = found.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        at = found.end() + 1
    return cells


def _names(cells: Sequence[str], file: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    empty = [str(place) for place, name in enumerate(names, 1) if not name]
    twice = [f"{name} (column {place})" for place, name in enumerate(names, 1) if name and name in names[: place - 1]]
    problems = [f"no name for column {', '.join(empty)}"] if empty else []
    problems += [f"a second column named {', '.join(twice)}"] if twice else []
    if problems:
        raise PrepError(
            f"{file}, line 1: the header has {' and '.join(problems)}",
            "give each column a name of its own, or --no-header",
        )
    return names


def _column(name: str, cells: Sequence[str], missing: Collection[str]) -> Found:
    values = [cell for cell in cells if cell not in missing]
    kind: Kind = "category"
    if all(map(_is_number, values)):
        kind = "number"
    elif all(map(_is_date, values)):
        kind = "date"
    share = 1 - len(values) / len(cells) if cells else 0.0
    return Found(name, kind, tuple(dict.fromkeys(values))[:EXAMPLES], share)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell and cell.isascii()


def _is_date(cell: str) -> bool:
    try:
        seconds(cell)
    except ValueError:
        return False
    return True


def infer_json(lines: Sequence[bytes], file: str, missing: Collection[str]) -> tuple[list[Found], dict[str, str]]:
    """The columns of a file of JSON objects, one a line, from the first lines; and the type of each, a key of
    `json_lines.TYPES`.

    PrepError names line and column of what is no object, is nested, or has two types.
    """
    types: dict[str, str] = {}
    values: dict[str, list[Any]] = {}
    rows = 0
    for number, text in enumerate(decoded(lines, file), 1):
        if not text.strip():
            continue
        rows += 1
        for key, value in _object(text, f"{file}, line {number}").items():
            found = json_type(value)
            known = types.setdefault(key, found)
            if known == "null":
                types[key] = found
            elif found not in ("null", known):
                raise PrepError(
                    f"{file}, line {number}, column {key}: expected a {known}, as before; found a {found}, {value!r}",
                    "give all values of a column one type",
                )
            values.setdefault(key, []).append(value)
    if not rows:
        raise PrepError(f"{file} is empty", "name a file that has rows")
    return [_json_column(key, values[key], types[key], rows, missing) for key in types], types


def _object(text: str, place: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise PrepError(
            f"{place}, character {error.colno}: expected an object of JSON; {error.msg}", "give one object a line"
        ) from error
    except (RecursionError, ValueError) as error:
        raise PrepError(f"{place}: {error}", "leave out values that are nested so deeply, or so long") from error
    if not isinstance(value, dict):
        raise PrepError(f"{place}: expected an object of JSON, found {text[:40]!r}", "give one object a line")
    return value


def json_type(value: Any) -> str:
    """The type of a value: null, boolean, number, string, or what a table cannot hold."""
    names = {type(None): "null", bool: "boolean", int: "number", float: "number", str: "string"}
    return names.get(type(value), "nested value")


def _json_column(name: str, values: list[Any], kind: str, rows: int, missing: Collection[str]) -> Found:
    present = [value for value in values if value is not None and value not in missing]
    examples = tuple(dict.fromkeys(str(value) for value in present))[:EXAMPLES]
    share = 1 - len(present) / rows
    if kind != "string":
        return Found(name, "number", examples, share)
    return Found(name, "date" if all(map(_is_date, present)) and present else "category", examples, share)
