"""The numbers that the text of a cell stands for: a date, a category's code, a bucket of hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from riprap.prep_spark.errors import PrepError

CACHED_MAX = 1 << 17
UNSEEN = -1.0
"""The code of a category that the transform does not know."""


class Table(Protocol):
    """From the bytes of a cell to a number. Raises ValueError for text that stands for nothing."""

    def __getitem__(self, cell: bytes, /) -> float: ...


class _Cached(dict[bytes, float]):
    """Remembers the meanings of cells; forgets all when there are too many."""

    def value(self, cell: bytes) -> float:
        raise NotImplementedError

    def __missing__(self, cell: bytes) -> float:
        if len(self) >= CACHED_MAX:
            self.clear()
        self[cell] = value = self.value(cell)
        return value


class Numbers(_Cached):
    """Decimal numbers, as Python reads them."""

    def value(self, cell: bytes) -> float:
        text = cell.decode("ascii").strip(" ")
        if "_" in text:
            raise ValueError(text)
        return float(text)


class Dates(_Cached):
    """ISO 8601 dates and times as seconds since 1970; those without a zone are UTC."""

    def value(self, cell: bytes) -> float:
        return seconds(cell.decode("ascii").strip(" "))


class Buckets(_Cached):
    """Values of one column as buckets: a hash of the column's name and the value, modulo their number."""

    def __init__(self, column: str, buckets: int) -> None:
        super().__init__()
        self._column, self._buckets = column, buckets

    def value(self, cell: bytes) -> float:
        cell.decode()
        return float(bucket(self._column, cell, self._buckets))


class Codes(dict[bytes, float]):
    """Categories, numbered as they come; PrepError when there are more than `most`."""

    def __init__(self, column: str, most: int) -> None:
        super().__init__()
        self._column, self._most = column, most

    def __missing__(self, cell: bytes) -> float:
        cell.decode()
        if len(self) >= self._most:
            raise too_many(self._column, self._most)
        self[cell] = code = float(len(self))
        return code


class Known(dict[bytes, float]):
    """The categories of a transform; others are UNSEEN."""

    def __init__(self, categories: Sequence[str]) -> None:
        super().__init__((category.encode(), float(code)) for code, category in enumerate(categories))

    def __missing__(self, cell: bytes) -> float:
        cell.decode()
        return UNSEEN


def bucket(column: str, value: bytes, buckets: int) -> int:
    """The bucket of a value of a column: the same on every machine and in every run."""
    digest = hashlib.blake2b(value, digest_size=8, key=hashlib.blake2b(column.encode(), digest_size=16).digest())
    return int.from_bytes(digest.digest(), "little") % buckets


def seconds(text: str) -> float:
    """ISO 8601 text as seconds since 1970. ValueError when it is none, or has no date."""
    if len(text) < len("2000-01-01") or text[4] != "-":
        raise ValueError(text)
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def too_many(column: str, most: int) -> PrepError:
    """The error of a column with too many categories."""
    return PrepError(
        f"column {column} has more than {most:,} categories",
        f"hash them with --hash BUCKETS, leave {column} out of --features, or raise --categories-max",
    )
