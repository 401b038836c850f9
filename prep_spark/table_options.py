"""The choices of the user of `riprap prep table`."""

from __future__ import annotations

from dataclasses import dataclass

from riprap.prep_spark.columns import Wishes
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.inference import MISSING
from riprap.prep_spark.reading import Policy

FORMATS = ("csv", "parquet", "json", "libsvm", "avro", "delta", "table")
BUCKETS_MAX = 1 << 32


@dataclass(frozen=True)
class TableOptions:
    """See `table.run` for each of them."""

    input: str
    out: str
    format: str
    wishes: Wishes
    missing: Policy = "fail"
    scale: str = "none"
    buckets: int | None = None
    one_hot: bool = False
    holdout: float = 0.0
    na: tuple[str, ...] = MISSING
    delimiter: str | None = None
    header: bool | None = None
    zero_based: bool = False
    bad_rows: str = "fail"
    shard_rows: int = 250_000
    seed: int = 1
    categories_max: int = 100_000
    like: str | None = None

    def check(self) -> None:
        """PrepError that names all options out of their range, or of no meaning together."""
        problems = [
            f"--{option} is {value!r}; expected {expected}"
            for option, value, fits, expected in (
                ("format", self.format, self.format in FORMATS, f"one of {', '.join(FORMATS)}"),
                ("missing", self.missing, self.missing in ("fail", "drop", "mean", "flag"), "fail, drop, mean or flag"),
                ("scale", self.scale, self.scale in ("none", "standard", "minmax"), "none, standard or minmax"),
                ("holdout", self.holdout, 0 <= self.holdout < 1, "at least 0 and below 1, for example 0.1"),
                ("bad-rows", self.bad_rows, self.bad_rows in ("fail", "drop"), "fail or drop"),
                ("shard-rows", self.shard_rows, self.shard_rows > 0, "a positive number of rows"),
                ("categories-max", self.categories_max, self.categories_max > 0, "a positive number"),
                ("hash", self.buckets, self.buckets is None or 1 <= self.buckets <= BUCKETS_MAX, f"1 to {BUCKETS_MAX}"),
                (
                    "delimiter",
                    self.delimiter,
                    self.delimiter is None or _is_mark(self.delimiter),
                    "one ASCII character",
                ),
            )
            if not fits
        ]
        problems += self._clashes()
        if problems:
            raise PrepError("\n".join(problems), "correct the options; riprap prep table --help lists them")

    def _clashes(self) -> list[str]:
        clashes = []
        if self.buckets and self.one_hot:
            clashes.append("--hash and --one-hot: categories become one or the other")
        of_columns = any((*self.wishes[1:], self.buckets, self.one_hot)) or self.missing != "fail"
        if self.format == "libsvm" and (of_columns or self.wishes.label not in ("", "label")):
            clashes.append("--format libsvm: its columns are numbers without names, of which none can be missing")
        if self.like and (of_columns or self.wishes.label or self.scale != "none"):
            clashes.append("--like: the transform says what becomes of the columns; leave the options of columns out")
        if self.format != "libsvm" and self.zero_based:
            clashes.append("--zero-based is for --format libsvm")
        if self.format != "csv" and (self.delimiter is not None or self.header is not None):
            clashes.append("--delimiter and --header are for --format csv")
        return clashes


def _is_mark(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text not in '"\r\n'
