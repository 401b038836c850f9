"""Rows into files of a directory, each there whole and once: CSV or Parquet."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import numpy as np

from riprap.codec.errors import ConfigError, DataError, JobFailed
from riprap.operators.base import Context
from riprap.operators.dataflow import Emitter, Items
from riprap.operators.options import Option, check
from riprap.operators.outputs.columns import columns_of, names_of
from riprap.operators.outputs.transactional import TransactionalSink

if TYPE_CHECKING:
    import pyarrow

STAGING = ".staging"
"""The folder below the directory for files that no reader should look at."""


class RowFiles(TransactionalSink):
    """Destination: writes the rows that it gets into files of a directory, a file for each checkpoint and task.

    A file appears whole, once the checkpoint that its rows came before is whole: readers of the directory see each row
    exactly once, whoever dies. The files of task 3 are `part-00003-CHECKPOINT.csv`; what is being written lies in
    `.staging`. Items are arrays of one row an item; columns are called c0, c1, ... unless `columns` names them.
    """

    def __init__(
        self,
        directory: Annotated[str, Option("Where the files go; made if it is not there", example="rows")],
        format: Annotated[str, Option("Of the files", choices=("csv", "parquet"))] = "csv",
        columns: Annotated[str | None, Option("Names of the columns, with commas between them")] = None,
    ) -> None:
        check(self, directory=directory, format=format, columns=columns)
        self._directory, self._format, self._names = Path(directory).absolute(), format, names_of(columns)
        self._staging = self._directory / STAGING
        self._writer: Any = None
        self._schema: pyarrow.Schema | None = None
        self._task = ""
        self._open = Path()
        """The file that is being written; this incarnation's alone, for one before it that was suspended may go on."""

    def open(self, context: Context) -> None:
        """ConfigError where the directory cannot be made."""
        import pyarrow.csv
        import pyarrow.parquet  # noqa: F401 - here, because it takes a while, and the stream need not wait for it

        self._task = f"part-{context.index:05d}-"
        try:
            self._staging.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self._staging}: {error.strerror}", "name a directory that you may write to") from error

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Arrays of one row an item."""
        import pyarrow

        columns = columns_of(items.arrays, first, items.count, self._names)
        table = pyarrow.table({name: _arrow(column) for name, column in columns.items()})
        if self._writer is None:
            self._schema, self._writer = table.schema, self._opened(table.schema)
        if table.schema != self._schema:
            raise DataError(
                f"rows of {_named(table.schema)} come behind rows of {_named(self._schema)}, into one file",
                "send columns of the same types in each block",
            )
        self._writer.write_table(table)
        return items.count

    def _opened(self, schema: pyarrow.Schema) -> Any:
        self._open = self._staging / f"{self._task}open-{uuid4().hex}"
        if self._format == "parquet":
            from pyarrow.parquet import ParquetWriter

            return ParquetWriter(self._open, schema)
        from pyarrow.csv import CSVWriter

        return CSVWriter(str(self._open), schema)

    def pre_commit(self, checkpoint: int) -> str | None:
        if self._writer is None:
            return None
        self._writer.close()
        self._writer = None
        name = f"{self._task}{checkpoint:012d}.{self._format}"
        _sync(self._open)
        os.replace(self._open, self._staging / name)
        _sync(self._staging)
        return name

    def commit(self, name: str) -> None:
        """JobFailed where a file of that name is another's."""
        staged, final = self._staging / name, self._directory / name
        if staged.exists():
            if final.exists():
                raise JobFailed(f"{final} is there already, and is not of this job", "choose an empty directory")
            os.rename(staged, final)
            _sync(self._directory)
        elif not final.exists():
            raise JobFailed(f"{final} was to be committed, and is gone", "run the job anew, into another directory")

    def abort(self, kept: Collection[str]) -> None:
        for path in self._staging.glob(f"{self._task}*"):
            if path.name not in kept:
                path.unlink()


def _named(schema: pyarrow.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _arrow(column: np.ndarray) -> pyarrow.Array:
    """A column that is contiguous. Where Arrow is handed an array it imports pandas, which takes a second."""
    import pyarrow

    if column.dtype.kind not in "iuf":
        return pyarrow.array(column)
    kind = pyarrow.from_numpy_dtype(column.dtype)
    return pyarrow.Array.from_buffers(kind, len(column), [None, pyarrow.py_buffer(column)])


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
