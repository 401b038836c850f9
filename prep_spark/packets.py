"""Turns captures of packets into record shards in the order of time: one stream, or several to be joined.

The captures are pcap or pcapng, perhaps within gzip, such as CAIDA's traces (AFX 6.1: heavy hitters, online join).
A file is one task; `packet_records` tells what is kept of a packet and what is skipped.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from riprap.prep_spark.capture_files import CaptureFile
from riprap.prep_spark.context import java_version, spark_context
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.failures import explained
from riprap.prep_spark.packet_records import DTYPE, KEPT
from riprap.prep_spark.publish import check_out, publish, staging
from riprap.prep_spark.raw_files import RawFile, find_files
from riprap.prep_spark.shards import record_fields, shard_name, write_manifest, write_npy
from riprap.prep_spark.time_order import cut, merged, sort_file

if TYPE_CHECKING:
    from pyspark import SparkContext


class Fragment(NamedTuple):
    """The records of one file, in the order of time, and the outcomes of its packets; or why it could not be read."""

    path: str
    counts: Counter[str]
    fault: PrepError | None = None


class Shard(NamedTuple):
    """One shard to be written: of each fragment the records from its start to its stop."""

    directory: str
    number: int
    runs: list[tuple[str, int, int]]


def run(
    inputs: Sequence[str],
    out: str,
    *,
    split: int = 1,
    shard_rows: int = 250_000,
    report: Callable[[str], Any] = print,
) -> dict[str, Any]:
    """Write the packets of some captures to the directory `out`, ordered by time.

    `inputs` are paths, globs or URLs. With a `split` of N the files are dealt out in turn to out/stream-0 to
    out/stream-(N-1). Returns the counts: read, kept, skipped {reason: packets}, rows {stream: packets}, shards and
    seconds. Raises PrepError, and leaves nothing behind, for whatever the user can mend.
    """
    begun = time.monotonic()
    for option, value in (("split", split), ("shard-rows", shard_rows)):
        if value < 1:
            raise PrepError(f"--{option} is {value}; expected a positive number", f"correct --{option}")
    check_out(out)
    files = find_files(inputs)
    if len(files) < split:
        raise PrepError(f"--split is {split}, but there are {len(files)} files", "name at least one file a stream")
    java_version()
    report(f"packets: reading {len(files)} files into {out}; starting Spark, which takes some seconds")
    with staging(out) as directory, spark_context() as context, explained(", ".join(inputs)):
        fragments = _parse(context, files, os.path.join(directory, "fragments"))
        counts = _counts(fragments)
        report(f"  {counts['kept']:,} packets parsed; writing shards")
        target = os.path.join(directory, "out")
        counts |= _write(context, files, fragments, split, shard_rows, target)
        publish(target, out)
    counts |= {"seconds": round(time.monotonic() - begun, 3)}
    report(_summary(counts, out))
    return counts


def _parse(context: SparkContext, files: list[RawFile], directory: str) -> list[Fragment]:
    tasks = [(file.path, os.path.join(directory, f"packets-{place:06d}")) for place, file in enumerate(files)]
    fragments = context.parallelize(tasks, len(tasks)).map(lambda task: parse_file(*task)).collect()
    for fragment in fragments:
        if fragment.fault is not None:
            raise fragment.fault
    return fragments


def parse_file(source: str, path: str) -> Fragment:
    """Parse one capture into a file of records, sorted by time. Runs in Spark's workers."""
    path = f"{path}-{os.urandom(4).hex()}.records"  # a task that runs twice must not write into its twin's file
    capture = CaptureFile(source)
    try:
        with open(path, "wb") as file:
            for records in capture:
                file.write(records.data)
    except PrepError as error:
        return Fragment(path, Counter(), error)
    if capture.counts[KEPT]:
        sort_file(path, DTYPE)
    return Fragment(path, capture.counts)


def _counts(fragments: list[Fragment]) -> dict[str, Any]:
    counts = sum((fragment.counts for fragment in fragments), Counter())
    read, kept = counts.total(), counts.pop(KEPT, 0)
    if kept == 0:
        raise PrepError(f"no packet is left of {read:,}: {dict(counts)}", "name captures that hold IP packets")
    return {"read": read, "kept": kept, "skipped": dict(sorted(counts.items()))}


def _write(
    context: SparkContext, files: list[RawFile], fragments: list[Fragment], split: int, shard_rows: int, target: str
) -> dict[str, Any]:
    rows, shards = {}, 0
    for stream in range(split):
        name = "all" if split == 1 else f"stream-{stream}"
        directory = target if split == 1 else os.path.join(target, name)
        os.makedirs(directory)
        own = fragments[stream::split]
        counts = _counts(own)
        plans = _plan([fragment for fragment in own if fragment.counts[KEPT]], shard_rows, directory)
        entries = context.parallelize(plans, len(plans)).map(write_shard).collect()
        source = {"files": [file.path for file in files[stream::split]]}
        fields = {"dataset": "packets", **record_fields(DTYPE), "source": source, "counts": counts, "split": name}
        write_manifest(directory, entries, fields)
        rows[name] = counts["kept"]
        shards += len(entries)
    return {"rows": rows, "shards": shards}


def _plan(fragments: list[Fragment], shard_rows: int, directory: str) -> list[Shard]:
    """The shards of one stream, each of `shard_rows` packets but the last."""
    times = [np.memmap(fragment.path, DTYPE, "r").view(np.ndarray)["time_ns"] for fragment in fragments]
    total = sum(map(len, times))
    bounds = [cut(times, rank) for rank in (*range(0, total, shard_rows), total)]
    paths = [fragment.path for fragment in fragments]
    return [
        Shard(directory, number, [run for run in zip(paths, starts, stops) if run[1] < run[2]])
        for number, (starts, stops) in enumerate(pairwise(bounds))
    ]


def write_shard(shard: Shard) -> dict[str, Any]:
    """Merge the runs of one shard and write it; returns its entry in the manifest. Runs in Spark's workers."""
    runs = [np.memmap(path, DTYPE, "r")[start:stop].view(np.ndarray) for path, start, stop in shard.runs]
    records = merged(runs)
    entry = write_npy(shard.directory, shard_name(shard.number), DTYPE, records.shape, [records])
    return {"rows": len(records)} | entry


def _summary(counts: dict[str, Any], out: str) -> str:
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in counts["skipped"].items()) or "none"
    rows = ", ".join(f"{count:,} {stream}" for stream, count in counts["rows"].items())
    return (
        f"packets: {counts['read']:,} packets read, {counts['kept']:,} kept, skipped: {skipped}\n"
        f"  wrote {rows} packets in {counts['shards']} shards to {out} in {counts['seconds']:.1f} s"
    )
