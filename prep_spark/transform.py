"""The transform of a table's columns: kept beside the shards as transform.json, so that new rows are treated alike."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from riprap.prep_spark.columns import Column, Kind, Layout
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.measure import Moments
from riprap.prep_spark.reading import Policy
from riprap.prep_spark.relabel import Categories
from riprap.prep_spark.shards import DTYPE, ShardForm, record_fields
from riprap.prep_spark.tables import bucket

NAME = "transform.json"
FORMAT = "riprap-transform"
VERSION = 1
DENSE_MAX = 4096
"""Columns of a matrix; wider tables are records of sparse features."""


@dataclass(frozen=True)
class Feature:
    """A column, and the change of its numbers: a missing one becomes `mean`, and each (number - shift) / scale.

    `categories` are those of a category that is not hashed, in the order of their codes; `flagged`: a further column
    says where the value was missing.
    """

    name: str
    kind: Kind
    categories: tuple[str, ...] = ()
    mean: float = 0.0
    shift: float = 0.0
    scale: float = 1.0
    flagged: bool = False


class Indexes(NamedTuple):
    """The indexes of libsvm: the first, and the number of features."""

    first: int
    features: int


@dataclass(frozen=True)
class Transform:
    """From parsed rows to the rows of shards. `label` has its classes as categories when its cells are text.

    `buckets`: the features are hashed to records; `sparse`: they are records of one-hot features by their places.
    `libsvm`: the table has indexes for names; where it is sparse too, `features` is empty.
    """

    label: Feature
    features: tuple[Feature, ...]
    policy: Policy
    missing: tuple[str, ...]
    buckets: int | None = None
    sparse: bool = False
    libsvm: Indexes | None = None

    @property
    def known(self) -> dict[str, tuple[str, ...]]:
        """The categories, and the label's classes, by column."""
        return {one.name: one.categories for one in (self.label, *self.features) if one.kind == "category"}

    def columns(self) -> list[str]:
        """The names of the columns of a matrix, or of a record's features by index, the label first."""
        return [self.label.name, *(name for feature in self.features for name in self.made_of(feature))]

    def made_of(self, feature: Feature) -> list[str]:
        """The columns that a feature becomes; a hashed one stands for as many features as records have for it."""
        names = [feature.name]
        if feature.kind == "category" and not self.buckets:
            names = [f"{feature.name}={category}" for category in feature.categories]
        return names + ([f"{feature.name}_missing"] if feature.flagged else [])

    def form(self, columns: int) -> ShardForm | None:
        """The form that turns parsed rows of `columns` columns into rows of shards; None when they are that already."""
        if self.libsvm and self.sparse:
            dtype = record_type((columns - 1) // 2)
            return ShardForm(dtype, partial(pairs_as_records, dtype=dtype))
        if self.buckets or self.sparse:
            dtype = record_type(len(self.features) + sum(feature.flagged for feature in self.features))
            return ShardForm(dtype, partial(self._records, dtype=dtype))
        names = self.columns()
        plain = all(
            feature.kind != "category" and not feature.flagged and (feature.shift, feature.scale) == (0.0, 1.0)
            for feature in self.features
        )
        if plain and columns == len(names) and self.policy in ("fail", "drop"):
            return None
        return ShardForm(np.dtype(DTYPE), self._matrix, len(names))

    def _matrix(self, rows: np.ndarray) -> np.ndarray:
        made = np.zeros((len(rows), len(self.columns())), "<f8")
        made[:, 0] = rows[:, 0]
        place = 1
        for slot, feature in enumerate(self.features, 1):
            values = rows[:, slot]
            if feature.kind == "category":
                there = np.flatnonzero(values >= 0)
                made[there, place + values[there].astype(int)] = 1
            else:
                made[:, place] = self._numbers(feature, values)
            place += len(self.made_of(feature))
            if feature.flagged:
                made[:, place - 1] = np.isnan(values)
        return made

    def _numbers(self, feature: Feature, values: np.ndarray) -> np.ndarray:
        filled = np.where(np.isnan(values), feature.mean, values)
        return (filled - feature.shift) / feature.scale

    def _records(self, rows: np.ndarray, dtype: np.dtype) -> np.ndarray:
        records = np.zeros(len(rows), dtype)
        records["label"] = as_float32(self.label.name, rows[:, 0])
        indexes, numbers = records["indexes"], records["values"]
        place, index = 0, 0
        for slot, feature in enumerate(self.features, 1):
            values = rows[:, slot]
            if feature.kind == "category":
                there = values >= 0
                indexes[there, place] = values[there] if self.buckets else values[there] + index
                numbers[:, place] = there
            else:
                indexes[:, place] = self._index(feature.name, index)
                numbers[:, place] = as_float32(feature.name, self._numbers(feature, values))
            place, index = place + 1, index + len(self.made_of(feature))
            if feature.flagged:
                indexes[:, place] = self._index(f"{feature.name}_missing", index - 1)
                numbers[:, place] = np.isnan(values)
                place += 1
        return records

    def _index(self, name: str, place: int) -> int:
        return bucket(name, b"", self.buckets) if self.buckets else place

    def fields(self, form: ShardForm | None) -> dict[str, Any]:
        """The manifest's fields that say what shards of a form hold; of records also how many features there are."""
        if form is not None and not form.columns:
            features = self.libsvm.features if self.libsvm else self.buckets or len(self.columns()) - 1
            return record_fields(form.dtype) | {"features": features}
        return {"columns": self.columns(), "label": self.label.name}

    def of_libsvm(self, indexes: Indexes) -> Transform:
        """The same, of a table that has indexes for names."""
        return replace(self, libsvm=indexes)

    def save(self, directory: str) -> None:
        """Write transform.json."""
        described = {"format": FORMAT, "version": VERSION, **asdict(self)}
        with open(os.path.join(directory, NAME), "w", encoding="utf-8") as file:
            json.dump(described, file, indent=1, ensure_ascii=False, allow_nan=False)
            file.write("\n")


def pairs_as_records(rows: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Rows of a label, indexes and as many values, as records. PrepError as `as_float32`."""
    records = np.zeros(len(rows), dtype)
    width = dtype["indexes"].shape[0]
    records["label"], records["indexes"] = as_float32("label", rows[:, 0]), rows[:, 1 : 1 + width]
    records["values"] = as_float32("values", rows[:, 1 + width :])
    return records


def as_float32(column: str, numbers: np.ndarray) -> np.ndarray:
    """Finite numbers as records hold them; PrepError names the column where one is too large."""
    if np.abs(numbers).max(initial=0.0) > np.finfo(np.float32).max:
        greatest = numbers.flat[np.abs(numbers).argmax()]
        raise PrepError(
            f"column {column} has the number {greatest:g}: records of sparse features hold float32, to 3.4e38",
            "scale the column, or leave it out of --features",
        )
    return numbers.astype(np.float32)


def record_type(features: int) -> np.dtype:
    """The type of records of `features` sparse features: label, indexes, values."""
    return np.dtype([("label", "<f4"), ("indexes", "<u4", (features,)), ("values", "<f4", (features,))])


def load(directory: str) -> Transform:
    """The transform of a directory that `riprap prep table` wrote. PrepError names the faults in it."""
    path = directory if directory.endswith(".json") else os.path.join(directory, NAME)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError as error:
        raise PrepError(f"{path} does not exist", "name a directory that riprap prep table wrote") from error
    except (OSError, ValueError, RecursionError) as error:
        raise PrepError(f"{path} cannot be read: {error}", "write it again with riprap prep table") from error
    try:
        for key, expected in (("format", FORMAT), ("version", VERSION)):
            if found[key] != expected:
                raise ValueError(f"expected {key} to be {expected!r}, found {found[key]!r}")
        features = tuple(_feature(one) for one in found["features"])
        label, missing = _feature(found["label"]), tuple(found["missing"])
        libsvm = found["libsvm"] and Indexes(*found["libsvm"])
        return Transform(label, features, found["policy"], missing, found["buckets"], found["sparse"], libsvm)
    except (KeyError, TypeError, ValueError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise PrepError(f"{path}: {why}", "write it again with riprap prep table") from error


def _feature(described: dict[str, Any]) -> Feature:
    return Feature(**described | {"categories": tuple(described["categories"])})


def fitted(
    columns: Sequence[Column], categories: Categories, moments: Moments | None, scale: str, policy: Policy,
    missing: Sequence[str], buckets: int | None, sparse: bool,
) -> Transform:  # fmt: skip
    """The transform of a table, from its label and features and what was found in them. PrepError when a matrix would
    be too wide or have two columns of a name, and when no float64 holds a scale."""
    made = []
    for slot, column in enumerate(columns):
        feature = Feature(column.name, column.kind, categories.get(slot, ()))
        if moments is not None and slot:
            feature = _fitted(feature, moments, slot, scale, policy)
        made.append(feature)
    transform = Transform(made[0], tuple(made[1:]), policy, tuple(missing), buckets, sparse)
    width = len(transform.columns()) - 1
    if not buckets and not sparse and width > DENSE_MAX:
        widest = max(transform.features, key=lambda feature: len(feature.categories))
        raise PrepError(
            f"the features are {width:,} columns, more than {DENSE_MAX:,}; "
            f"most, {len(widest.categories):,}, are categories of {widest.name}",
            "give --one-hot, or --hash BUCKETS: either writes records of sparse features",
        )
    names = Counter(transform.columns())
    if not buckets and not sparse and len(names) <= width:
        raise PrepError(
            f"two columns of the shards would be named {names.most_common(1)[0][0]}",
            "rename that column of the table, or leave it out of --features",
        )
    return transform


def _fitted(feature: Feature, moments: Moments, slot: int, scale: str, policy: Policy) -> Feature:
    flagged = policy == "flag" and bool(moments.missing[slot])
    if feature.kind == "category":
        return Feature(feature.name, feature.kind, feature.categories, flagged=flagged)
    mean = float(moments.mean[slot])
    shift, divisor = 0.0, 1.0
    if moments.numbers[slot] and scale == "standard":
        shift, divisor = mean, float(moments.deviation[slot]) or 1.0
    if moments.numbers[slot] and scale == "minmax":
        shift = float(moments.least[slot])
        divisor = float(moments.greatest[slot]) - shift or 1.0
    if not np.isfinite([mean, shift, divisor]).all():
        raise PrepError(
            f"column {feature.name} has numbers from {moments.least[slot]:g} to {moments.greatest[slot]:g}, "
            "too far apart for their mean or scale",
            f"repair the column, or leave {feature.name} out of --features",
        )
    return Feature(feature.name, feature.kind, (), mean, shift, divisor, flagged)


def layout_like(transform: Transform, names: Sequence[str]) -> Layout:
    """The columns of a transform among those of another table. PrepError names all that are missing."""
    wanted = (transform.label, *transform.features)
    absent = [one.name for one in wanted if one.name not in names]
    if absent:
        raise PrepError(
            f"the table has no column {', '.join(absent)}, which the transform needs", f"it has {', '.join(names)}"
        )
    return Layout(tuple(Column(one.name, one.kind, names.index(one.name)) for one in wanted), tuple(names), len(wanted))
