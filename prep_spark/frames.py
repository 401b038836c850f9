"""Runs one piece of work for each split of a Spark DataFrame, on its Arrow batches, in the order of the input."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.reading import lines_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


class Split(NamedTuple):
    """A run of bytes of one file, and which of Spark's partitions reads it; the file is empty for other sources.

    `stop` is None where it is the end of the file, or Spark's affair.
    """

    file: str
    start: int
    partition: int
    stop: int | None = None


Work = Callable[[int, Split, Iterable[Any]], T]
"""From a split's place in the order of the input, the split and its batches, to something picklable."""


def text_frame(session: SparkSession, source: str) -> DataFrame:
    """The lines of text files, as bytes without their ends."""
    from pyspark.sql.functions import col

    return session.read.text(source).select(col("value").cast("binary"))


def selected(frame: DataFrame, names: list[str]) -> DataFrame:
    """Some columns of a frame, by their exact names."""
    from pyspark.sql.functions import col

    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    return frame.select(*[col(name).alias(f"c{place}") for place, name in enumerate(quoted)])


def splits_of(frame: DataFrame) -> list[Split]:
    """The splits of a frame, ordered by file name and place: this is the order of the stream."""
    found = []
    for index, partition in enumerate(frame._jdf.queryExecution().toRdd().partitions()):
        if partition.getClass().getSimpleName() != "FilePartition":
            found.append(Split("", index, index))
            continue
        files = partition.files()
        assert len(files) == 1, f"partition {index} holds {len(files)} files; their order would be lost"
        found.append(Split(files[0].filePath().toPath().toString(), files[0].start(), index))
    return sorted(found)


def attempted(work: Work[T], place: int, split: Split, batches: Iterable[Any]) -> T | PrepError:
    """The result of `work`, or its refusal."""
    try:
        return work(place, split, batches)
    except PrepError as error:
        return error


def results(made: Iterable[Any]) -> list[Any]:
    """The results, unless something was refused: then the first such PrepError is raised."""
    found = list(made)
    for one in found:
        if isinstance(one, PrepError):
            raise one
    return found


def run_splits(frame: DataFrame, splits: list[Split], work: Work[T], is_text: bool) -> list[T]:
    """The results of all splits, in their order; text comes as `Lines`. Runs `work` in Spark's workers."""
    places = {split.partition: place for place, split in enumerate(splits)}

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        place = places[context.partitionId()]
        parts = map(lines_of, batches) if is_text else batches
        made = pickle.dumps(attempted(work, place, splits[place], parts))
        yield pa.RecordBatch.from_pydict({"place": pa.array([place], pa.int32()), "made": [made]})

    rows: list[Any] = frame.mapInArrow(run, "place int, made binary").collect()
    by_place = {row.place: pickle.loads(row.made) for row in rows}  # noqa: S301 - made by this program's own tasks
    return results(by_place[place] for place in range(len(splits)) if place in by_place)
