"""Writes arrays and tables of this process as shards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.errors import DataError
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.publish import check_out, publish, staging
from riprap.prep_spark.shards import CHUNK_ROWS, DTYPE, shard_name, write_manifest, write_npy

SPARSE_COLUMNS_MAX = 4096
PREPARE = "write the table to a file, and turn it into shards with riprap prep table"


class _Chunk(NamedTuple):
    """Some columns with names, and a way to get some of their rows as a float64 matrix."""

    names: tuple[str, ...]
    rows: int
    source: Any

    def pieces(self) -> Iterator[np.ndarray]:
        for start in range(0, self.rows, CHUNK_ROWS):
            yield _matrix(self.source, start, min(start + CHUNK_ROWS, self.rows))


def write_shards(
    directory: str | os.PathLike[str], data: Any, *, label: Any = "label", columns: Iterable[str] | None = None,
    shard_rows: int = 250_000,
) -> dict[str, Any]:  # fmt: skip
    """Write `data` to a new `directory` of shards, all or nothing; returns {"rows": ..., "shards": ...}.

    `data` is a matrix (rows x features), a pair (X, y), a SciPy sparse matrix of at most 4,096 columns, a table
    (anything that speaks Arrow's stream interface: pandas, polars, pyarrow), or an iterable of chunks of these, of
    which one shard at most is kept in memory. `label` is the labels themselves, or the name of the label's column: of a
    table the one that it has, of a pair the one that y gets. `columns` names a matrix's features, else x1, x2, ...;
    a matrix without labels of its own names the label among them. All numbers become float64; a null becomes NaN,
    and so does what is masked.

    Raises DataError, naming the chunk and the columns, for what is no number, for a label that is missing, for chunks
    that differ and for a directory that is not new.
    """
    named = None if columns is None else tuple(columns)
    out = os.fspath(directory)
    if isinstance(label, str):
        name, chunks = label, _chunks(data)
    else:
        name, chunks = "label", iter([(data, label)])
    try:
        check_out(out)
        with staging(out) as folder:
            target = os.path.join(folder, "out")
            os.mkdir(target)
            shards, names = _write(target, (_chunk(one, name, named) for one in chunks), name, shard_rows)
            fields = {"dataset": "write_shards", "columns": list(names), "label": name, "split": "all"}
            write_manifest(target, shards, fields)
            publish(target, out)
    except PrepError as error:
        raise DataError(str(error.args[0]), error.remedy) from error
    return {"rows": sum(shard["rows"] for shard in shards), "shards": len(shards)}


def _write(
    target: str, chunks: Iterable[_Chunk], label: str, shard_rows: int
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The shards, each of `shard_rows` rows but the last, and the names of their columns."""
    if shard_rows < 1:
        raise DataError(f"shard_rows is {shard_rows}; expected at least 1", "correct shard_rows")
    names: tuple[str, ...] = ()
    shards: list[dict[str, Any]] = []
    waiting: list[np.ndarray] = []

    def write(pieces: list[np.ndarray]) -> None:
        rows = sum(map(len, pieces))
        name = shard_name(len(shards))
        shape = (rows, len(names))
        shards.append({"rows": rows} | write_npy(target, name, np.dtype(DTYPE), shape, pieces))

    for place, chunk in enumerate(chunks):
        if names and chunk.names != names:
            raise DataError(
                f"chunk {place} has the columns {', '.join(chunk.names)}; the first has {', '.join(names)}",
                "give chunks with the same columns in the same order",
            )
        names = chunk.names
        if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            found = ", ".join(map(str, names))
            raise DataError(
                f"chunk {place} has the columns {found}; expected text, and a name of its own for each",
                "correct columns; a label that stands among the features needs no labels beside them",
            )
        if label not in names:
            raise DataError(f"there is no column {label!r} for the label, but {', '.join(names)}", "correct label")
        for piece in chunk.pieces():
            while len(piece):
                room = shard_rows - sum(map(len, waiting))
                waiting.append(piece[:room])
                piece = piece[room:]
                if room == len(waiting[-1]):
                    write(waiting)
                    waiting.clear()
    if waiting:
        write(waiting)
    if not shards:
        raise DataError("the data has no rows", "give at least one")
    return shards, names


def _chunks(data: Any) -> Iterator[Any]:
    """The chunks of an iterable; else the data itself, as one."""
    is_pair = isinstance(data, tuple) and len(data) == 2 and np.ndim(data[1]) == 1
    if is_pair or isinstance(data, np.ndarray) or _is_table(data) or _is_sparse(data):
        yield data
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        for one in data:
            is_matrix = isinstance(one, np.ndarray) and one.ndim == 2
            if not (is_matrix or isinstance(one, tuple) or _is_table(one) or _is_sparse(one)):
                raise DataError(
                    f"a chunk is a {type(one).__name__}, not a matrix, a pair (X, y) or a table",
                    "give an array of two dimensions: rows x features",
                )
            yield one
    else:
        raise DataError(f"a {type(data).__name__} is no data for shards", "give an array, a table or chunks of them")


def _is_table(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__")


def _is_sparse(data: Any) -> bool:
    return hasattr(data, "tocsr") and hasattr(data, "toarray")


def _chunk(data: Any, label: str, columns: tuple[str, ...] | None) -> _Chunk:
    if _is_table(data):
        import pyarrow as pa

        try:
            table = pa.table(data.reset_index(drop=True) if hasattr(data, "reset_index") else data)
        except (TypeError, ValueError) as error:
            why = "; ".join(map(str, error.args))
            raise DataError(f"a {type(data).__name__} cannot be read as a table: {why}", PREPARE) from error
        _refuse_text(table.schema)
        if columns is not None:
            named = ", ".join(map(str, columns))
            raise DataError(
                f"columns names {named}; a table has names of its own", "leave columns out; choose them in the table"
            )
        return _Chunk(tuple(table.column_names), table.num_rows, table)
    features, labels = data if isinstance(data, tuple) else (data, None)
    if _is_table(features):
        features, columns = _table_matrix(features, columns)
    features = _two_dimensional(features)
    names = columns or tuple(f"x{place}" for place in range(1, features.shape[1] + 1))
    if len(names) != features.shape[1]:
        raise DataError(f"columns names {len(names)}; the matrix has {features.shape[1]}", "correct columns")
    if labels is None:
        return _Chunk(names, features.shape[0], features)
    labels = _array(labels)
    if labels.shape != (features.shape[0],) or labels.dtype.kind not in "biuf":
        raise DataError(
            f"the labels are {labels.dtype} of shape {labels.shape}; expected {features.shape[0]} numbers",
            "give one number a row",
        )
    return _Chunk((label, *names), features.shape[0], (features, labels))


def _table_matrix(table: Any, columns: tuple[str, ...] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """A table of features whose labels are beside it."""
    chunk = _chunk(table, "", None)
    return np.concatenate([*chunk.pieces(), np.zeros((0, len(chunk.names)))]), columns or chunk.names


def _two_dimensional(features: Any) -> Any:
    if _is_sparse(features):
        if features.shape[1] > SPARSE_COLUMNS_MAX:
            raise DataError(
                f"a sparse matrix of {features.shape[1]:,} columns would be dense here, {SPARSE_COLUMNS_MAX:,} at most",
                "save it with sklearn.datasets.dump_svmlight_file, and give that to riprap prep table --format libsvm",
            )
        return features.tocsr()
    array = _array(features)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise DataError(
            f"an array of {array.dtype} and shape {array.shape}; expected numbers, rows x features", PREPARE
        )
    return array


def _array(values: Any) -> np.ndarray:
    """The values as they are, but those that are masked as NaN."""
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "biuf":
        return np.ma.filled(values.astype(float), np.nan)
    return np.asarray(values)


def _refuse_text(schema: Any) -> None:
    import pyarrow.types as types

    bad = [
        f"{field.name} ({field.type})"
        for field in schema
        if not (types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type))
    ]
    if bad:
        raise DataError(f"no numbers are in column {', '.join(bad)}", f"leave them out; or {PREPARE}")
    if len(set(schema.names)) < len(schema.names):
        raise DataError(f"columns have the same name: {', '.join(schema.names)}", "give each a name of its own")


def _matrix(source: Any, start: int, stop: int) -> np.ndarray:
    """Some rows as float64."""
    if isinstance(source, tuple):
        features, labels = source
        return np.column_stack([labels[start:stop].astype(float), _matrix(features, start, stop)])
    if isinstance(source, np.ndarray):
        return source[start:stop].astype("<f8")
    if _is_sparse(source):
        return source[start:stop].toarray().astype("<f8")
    made = np.empty((stop - start, source.num_columns), "<f8")
    for place, column in enumerate(source.slice(start, stop - start).columns):
        made[:, place] = _numbers(column)
    return made


def _numbers(column: Any) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    numbers: np.ndarray = pc.fill_null(column.cast(pa.float64(), safe=False), float("nan")).to_numpy()
    return numbers
