"""Reads tables that Spark has columns of (Parquet, Avro, Delta, a catalogue's): Arrow arrays to rows of float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from riprap.prep_spark.columns import Column, Found, Kind
from riprap.prep_spark.formats import Reason
from riprap.prep_spark.inference import EXAMPLES
from riprap.prep_spark.reading import Fault, Parsed, Parser, Reading, shown
from riprap.prep_spark.tables import Dates, Numbers, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean"), "number"),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "date"),
    **dict.fromkeys(("string", "char", "varchar"), "category"),
}
"""By the name of Spark's type."""


@dataclass(frozen=True)
class ColumnarReader:
    """The batches hold the columns of the layout alone, in its order."""

    reading: Reading
    unit: str = "row"

    @property
    def width(self) -> int:
        """Numbers of a parsed row, the label first."""
        return len(self.reading.layout.columns)

    def parser(self, at_start: bool) -> Parser:
        """A parser for a split."""
        return ColumnarParser(self.reading)


class ColumnarParser:
    """Parses one split, batch by batch."""

    skipped = 0

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._converter = Converter(reading)
        self.tables = self._converter.tables
        self._batch: Any = None

    def parse(self, batch: pa.RecordBatch) -> Parsed | Fault:
        """The rows of one batch."""
        self._batch = batch
        return self._converter.rows(batch.columns)

    def explain(self, line: int, reason: Reason, place: int) -> Fault:
        """The reason why a row of the batch that was parsed last gives none."""
        try:
            found = str(self._batch.column(place)[line].as_py())
        except UnicodeDecodeError as error:
            found = error.object.decode("utf-8", "replace")
        return self._reading.fault(line + 1, reason, self._reading.layout.columns[place], shown(found))


class Converter:
    """Turns Arrow arrays, one a slot, into rows; `tables` are those of the reading, and of numbers written as text."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.tables: list[Table | None] = reading.tables()
        self._texts: list[Table] = [Numbers() if table is None else table for table in self.tables]

    def rows(self, arrays: Sequence[Any]) -> Parsed:
        """The rows without a bad cell; the place of a fault is its slot."""
        count = len(arrays[0])
        rows = np.empty((count, len(arrays)), "<f8")
        reasons, places = np.zeros(count, np.uint8), np.zeros(count, np.int32)
        for slot, (array, column) in reversed([*enumerate(zip(arrays, self._reading.layout.columns))]):
            bad = self._column(array, column, slot, rows[:, slot])
            reasons[bad], places[bad] = Reason.CELL, slot
        return Parsed(rows[reasons == Reason.NONE], reasons, places)

    def _column(self, array: Any, column: Column, slot: int, out: np.ndarray) -> np.ndarray:
        """Fill in the numbers of one column; the rows whose cells are none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
        if not text and column.kind != "category":
            out[:] = pc.fill_null(_numbers(array), float("nan")).to_numpy(zero_copy_only=False)
            return np.zeros(0, int)
        coded = pc.dictionary_encode(array if text else pc.cast(array, pa.string()))
        values = np.array(
            [self._cell(cell, slot) for cell in coded.dictionary.cast(pa.binary()).to_pylist()] + [np.nan]
        )
        bad = np.array([value is None for value in values])
        places = pc.fill_null(coded.indices, len(values) - 1).to_numpy(zero_copy_only=False)
        out[:] = np.where(bad, np.nan, values).astype(float)[places]
        return np.flatnonzero(bad[places])

    def _cell(self, cell: bytes, slot: int) -> float | None:
        if cell in self._reading.missing:
            return float("nan")
        try:
            return self._texts[slot][cell]
        except ValueError:
            return None


def _numbers(array: Any) -> Any:
    """Numbers, truth values and moments as float64; moments are seconds since 1970."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_timestamp(kind):
        micros = pc.cast(pc.cast(array, pa.timestamp("us", kind.tz), safe=False), pa.int64())
        return pc.divide(pc.cast(micros, pa.float64(), safe=False), 1e6)
    if pa.types.is_date(kind):
        days = pc.cast(pc.cast(array, pa.date32()), pa.int32())
        return pc.multiply(pc.cast(days, pa.float64()), 86400.0)
    if pa.types.is_boolean(kind):
        array = pc.cast(array, pa.int8())
    return pc.cast(array, pa.float64(), safe=False)


def infer_columns(frame: DataFrame, sample_rows: int) -> tuple[list[Found], dict[str, str]]:
    """The columns of a frame by Spark's types, with examples from its first rows; and those that no table can hold,
    each with its type."""
    rows = frame.limit(sample_rows).collect()
    found, nested = [], {}
    for place, field in enumerate(frame.schema.fields):
        name = field.dataType.simpleString().split("(")[0]
        if name not in KINDS:
            nested[field.name] = field.dataType.simpleString()
        values = [row[place] for row in rows if row[place] is not None]
        kind = KINDS.get(name, "category")
        if kind == "category" and values and all(map(_is_date, values)):
            kind = "date"
        share = 1 - len(values) / len(rows) if rows else 0.0
        examples = tuple(dict.fromkeys(str(value) for value in values))[:EXAMPLES]
        found.append(Found(field.name, kind, examples, share))
    return found, nested


def _is_date(value: object) -> bool:
    try:
        Dates().value(str(value).encode())
    except ValueError:
        return False
    return True
