"""Streams to learn from, and one processor and one sink run over micro-batches as an engine would."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from riprap.operators.base import Context, Processor, Sink
from riprap.prep_spark.shards import write_manifest

HIGGS = Path(__file__).parents[2] / "data/higgs/HIGGS_first10k.csv.gz"


def higgs() -> np.ndarray:
    """The first 10,000 rows of HIGGS, label first."""
    return np.loadtxt(HIGGS, delimiter=",")


def context_of(items: np.ndarray, label: int | None = 0, seed: int = 0) -> Context:
    """A context with columns c0, c1, ..."""
    columns = tuple(f"c{i}" for i in range(items.shape[1]))
    return Context(columns, None if label is None else columns[label], seed)


def opened(processor: Processor, sink: Sink, context: Context) -> tuple[Processor, Sink]:
    """The pair, ready to run; the sink has the processor that recomputes."""
    processor.open(context)
    sink.processor = processor
    sink.open(context)
    return processor, sink


def micro_batches(items: np.ndarray, size: int, passes: int = 1) -> Iterator[np.ndarray]:
    """Consecutive blocks, the last of a pass perhaps shorter."""
    for _ in range(passes):
        for start in range(0, len(items), size):
            yield items[start : start + size]


def train(processor: Processor, sink: Sink, batches: Iterable[np.ndarray], blocks: int = 1) -> Sink:
    """One epoch per micro-batch, each cut into so many blocks."""
    for epoch, batch in enumerate(batches, start=1):
        for block in np.array_split(batch, blocks):
            sink.aggregate(processor.process_data(block))
        processor.process_feedback(sink.commit(epoch))
    return sink


def write_shards(directory: Path, shards: list[np.ndarray], label: str | None = "c0") -> None:
    """A shard directory of these matrices, with columns c0, c1, ..."""
    entries = []
    for number, matrix in enumerate(shards):
        path = directory / f"part-{number:05d}.npy"
        np.save(path, matrix)
        content = path.read_bytes()
        crc = f"{zlib.crc32(content):08x}"
        entries.append({"file": path.name, "rows": len(matrix), "bytes": len(content), "crc32": crc})
    columns = [f"c{i}" for i in range(shards[0].shape[1])]
    write_manifest(str(directory), entries, {"columns": columns, "label": label})
