"""The cost of streaming training rows from `.npy` shards, from Arrow files and from Parquet, all mapped.

    python -m bench.shard_formats [--rows 1000000] [--rounds 7]

Each case hands out blocks of 100,000 rows as the float64 matrix that the kernels take, and a matrix-vector product
reads every number, as training does. The files are in the page cache; the cases alternate.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

import riprap
from bench.rounds import alternate, await_quiet
from bench.runs import save, table
from riprap.operators.inputs.shards import open_shards

COLUMNS = 29
BLOCK_ROWS = 100_000

Blocks = Callable[[], Iterator[np.ndarray]]


def npy(folder: Path) -> Iterator[np.ndarray]:
    """Views of mapped rows."""
    shards = open_shards(folder / "npy")
    for start in range(0, shards.rows, BLOCK_ROWS):
        yield shards.read(start, min(start + BLOCK_ROWS, shards.rows))


def arrow(folder: Path) -> Iterator[np.ndarray]:
    """Mapped columns, put together to rows."""
    with pa.memory_map(str(folder / "x.arrow")) as source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield rows_of(reader.get_batch(number))


def parquet(folder: Path) -> Iterator[np.ndarray]:
    """Decoded columns, put together to rows."""
    file = pq.ParquetFile(folder / "x.parquet", memory_map=True)
    for batch in file.iter_batches(BLOCK_ROWS):
        yield rows_of(batch)


def rows_of(batch: pa.RecordBatch) -> np.ndarray:
    """The matrix of a batch, row after row."""
    return np.column_stack([column.to_numpy() for column in batch.columns])


CASES = {"npy, mapped": npy, "Arrow file, mapped": arrow, "Parquet, mapped": parquet}


def write(folder: Path, rows: int) -> None:
    """The same rows in each format."""
    rng = np.random.default_rng(1)
    matrix = np.column_stack([rng.integers(0, 2, rows).astype(float), rng.normal(size=(rows, COLUMNS - 1))])
    names = ["label", *(f"x{place}" for place in range(1, COLUMNS))]
    riprap.write_shards(folder / "npy", matrix, columns=names)
    whole = pa.table({name: matrix[:, place] for place, name in enumerate(names)})
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, whole.schema) as writer:
        writer.write_table(whole, BLOCK_ROWS)
    pq.write_table(whole, folder / "x.parquet", row_group_size=BLOCK_ROWS)


def measure(blocks: Callable[[Path], Iterator[np.ndarray]], folder: Path) -> dict[str, float]:
    """Wall and CPU seconds of one pass."""
    weights = np.ones(COLUMNS)
    wall, cpu = time.perf_counter(), time.process_time()
    total = sum(float((block @ weights).sum()) for block in blocks(folder))
    assert np.isfinite(total)
    return {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def main() -> None:
    """Measure, print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    load = await_quiet()
    with tempfile.TemporaryDirectory(prefix="riprap-bench-", dir=".") as name:
        folder = Path(name)
        write(folder, args.rows)
        sizes = {"npy, mapped": sum(path.stat().st_size for path in (folder / "npy").glob("*.npy")),
                 "Arrow file, mapped": (folder / "x.arrow").stat().st_size,
                 "Parquet, mapped": (folder / "x.parquet").stat().st_size}  # fmt: skip
        found = alternate("shard formats", CASES, lambda case: measure(case, folder), args.rounds)
    lines = [
        [name, case.median(lambda one: args.rows / one["seconds"] / 1e6), case.median(lambda one: one["cpu"]),
         f"{sizes[name] / 1e6:.0f}", case.n_of_n]
        for name, case in found.items()
    ]  # fmt: skip
    save(
        "shard_formats", "Formats of shards: what streaming the rows costs",
        {f"{args.rows:,} rows of {COLUMNS} columns, one thread": table(
            ["format", "M rows/s", "CPU s", "MB on disk", "rounds"], lines)},
        {name: case.rounds for name, case in found.items()},
        data="synthesized: normal numbers", rounds=args.rounds, load=load,
    )  # fmt: skip


if __name__ == "__main__":
    main()
