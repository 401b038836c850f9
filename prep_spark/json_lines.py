"""Reads JSON, one object a line: pyarrow parses whole batches; one that it refuses is looked at line by line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from riprap.prep_spark.columnar import Converter
from riprap.prep_spark.formats import Reason
from riprap.prep_spark.inference import BOM, json_type
from riprap.prep_spark.reading import Fault, Lines, Parsed, Parser, Reading, shown

Flaw = tuple[str, str, str]
"""The fault of a line: the place, the value expected, and the value found."""


@dataclass(frozen=True)
class JsonReader:
    """`types` are those of the values of each column: boolean, number, string or null."""

    reading: Reading
    types: Mapping[str, str]
    unit: str = "line"

    @property
    def width(self) -> int:
        """Numbers of a parsed row, the label first."""
        return len(self.reading.layout.columns)

    def parser(self, at_start: bool) -> Parser:
        """A parser for a split."""
        return JsonParser(self)


class JsonParser:
    """Parses one split, batch by batch."""

    skipped = 0

    def __init__(self, reader: JsonReader) -> None:
        self._reader = reader
        self._converter = Converter(reader.reading)
        self.tables = self._converter.tables
        self._lines: list[bytes] = []

    def parse(self, batch: Lines) -> Parsed | Fault:
        """The rows of one batch of lines."""
        self._lines = [batch.line(number).removeprefix(BOM) for number in range(batch.num_rows)]
        reasons = np.array([Reason.NONE if line.strip() else Reason.BLANK for line in self._lines], np.uint8)
        places = np.zeros(len(reasons), np.int32)
        arrays = self._arrays(reasons)
        for fault in (self._flaw, self._refusal):
            if arrays is None:
                self._refuse(reasons, fault)
                arrays = self._arrays(reasons)
        assert arrays is not None, "pyarrow refuses lines of JSON that are sound one by one"
        if not len(arrays[0]):
            return Parsed(np.empty((0, self._reader.width)), reasons, places)
        parsed = self._converter.rows(arrays)
        good = np.flatnonzero(reasons == Reason.NONE)
        reasons[good], places[good] = parsed.reasons, parsed.places
        return Parsed(parsed.rows, reasons, places)

    def _refuse(self, reasons: np.ndarray, fault: Callable[[bytes], Flaw | None]) -> None:
        """Refuse the good lines that have such a fault."""
        for line in np.flatnonzero(reasons == Reason.NONE).tolist():
            if fault(self._lines[line]) is not None:
                reasons[line] = Reason.JSON

    def _arrays(self, reasons: np.ndarray) -> Sequence[Any] | None:
        """The columns of the good lines; None when one of them is not UTF-8, or pyarrow refuses it."""
        good = [line for line, reason in zip(self._lines, reasons.tolist()) if reason == Reason.NONE]
        try:
            return self._read(good)
        except ValueError:
            return None

    def _read(self, lines: Sequence[bytes]) -> Sequence[Any]:
        """The columns of some lines; ValueError says why there are none."""
        import pyarrow as pa
        import pyarrow.json

        kinds = {"boolean": pa.bool_(), "string": pa.string()}
        names = [column.name for column in self._reader.reading.layout.columns]
        schema = pa.schema([(name, kinds.get(self._reader.types[name], pa.float64())) for name in names])
        if not lines:
            return [pa.array([], field.type) for field in schema]
        data = b"\n".join(lines)
        data.decode()
        options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        table = pa.json.read_json(io.BytesIO(data), pa.json.ReadOptions(False, len(data) + 1), options)
        if table.num_rows != len(lines):
            raise ValueError(f"{table.num_rows} objects in {len(lines)} lines")
        return [table.column(name).combine_chunks() for name in names]

    def _flaw(self, line: bytes) -> Flaw | None:
        """The fault of one line, as Python sees it; None where it can see none, and pyarrow's word counts."""
        try:
            text = line.decode()
            return self._unfit(json.loads(text), text)
        except UnicodeDecodeError as error:
            return f"byte {error.start + 1}", "UTF-8", f"0x{line[error.start]:02x}"
        except json.JSONDecodeError as error:
            return f"column {error.colno}", f"an object of JSON ({error.msg})", shown(text[error.pos :])
        except (RecursionError, ValueError):  # it is nested too deeply, or has a whole number of thousands of digits
            return None

    def _unfit(self, value: Any, text: str) -> Flaw | None:
        """The fault of a value that is no object, or has a column of another type than expected."""
        if not isinstance(value, dict):
            return "column 1", "an object of JSON", shown(text)
        for column in self._reader.reading.layout.columns:
            wanted, found = self._reader.types[column.name], json_type(value.get(column.name))
            if found not in ("null", "number" if wanted == "null" else wanted):
                name = f"column {column.place + 1} ({column.name})"
                return name, f"a {'number' if wanted == 'null' else wanted}", shown(json.dumps(value[column.name]))
        return None

    def _refusal(self, line: bytes) -> Flaw | None:
        """The fault of a line that is sound for Python, as pyarrow sees it: a number beyond float64, half a surrogate
        pair, a name that comes twice."""
        try:
            self._read([line])
        except ValueError as error:
            why = str(error).removeprefix("JSON parse error: ").removesuffix(" in row 0")
            return "column 1", f"an object of JSON ({why})", shown(line.decode(errors="replace"))
        return None

    def explain(self, line: int, reason: Reason, place: int) -> Fault:
        """The reason why a line of the batch that was parsed last gives no row."""
        if reason == Reason.JSON:
            flaw = self._flaw(self._lines[line]) or self._refusal(self._lines[line])
            assert flaw is not None, "only a line with a fault is refused"
            return Fault(line + 1, *flaw)
        column = self._reader.reading.layout.columns[place]
        try:
            found = json.dumps(json.loads(self._lines[line]).get(column.name))
        except (RecursionError, ValueError):  # as above: the whole line, then
            found = self._lines[line].decode()
        return self._reader.reading.fault(line + 1, reason, column, shown(found))
