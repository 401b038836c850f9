"""Parses the splits of a table into raw fragments, rows of float64 in the order of the input, and counts all lines."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.formats import Reason
from riprap.prep_spark.frames import Split
from riprap.prep_spark.ingest import local_name
from riprap.prep_spark.reading import Fault, Parser, Reader, Reading
from riprap.prep_spark.shards import DTYPE
from riprap.prep_spark.tables import UNSEEN, Codes


@dataclass(frozen=True)
class Task:
    """The request to each worker. `staging` is a directory that driver and workers share."""

    reader: Reader
    reading: Reading | None
    staging: str
    drop_bad: bool


@dataclass(frozen=True)
class Fragment:
    """The outcome of one split: `kept` rows of little-endian float64 in `path`, and counts.

    Invariant: lines == skipped + kept + the sum of `dropped`, unless there is a `fault`. `unseen` counts by column the
    categories that a transform does not know. Without a path the split was not read: an earlier one has a fault.
    """

    place: int
    path: str
    lines: int = 0
    skipped: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)
    fault: Fault | None = None
    error: PrepError | None = None


def read_split(task: Task, place: int, split: Split, batches: Iterable[Any]) -> Fragment:
    """Parse one split into a fragment file; the categories it met go beside it. Runs in Spark's workers."""
    if _faulty_before(task.staging, place):
        return Fragment(place, "")
    # A task that Spark runs twice at once must not write into its twin's file.
    made = Fragment(place, os.path.join(task.staging, f"rows-{place:06d}-{os.getpid()}-{os.urandom(4).hex()}.f8"))
    parser = task.reader.parser(split.start == 0)
    try:
        with open(made.path, "wb") as file:
            for batch in batches:
                rows, made = _read_batch(task, parser, batch, made)
                if made.fault:
                    open(os.path.join(task.staging, f"fault-{place}"), "w").close()
                    break
                file.write(rows.data)
    except PrepError as error:
        open(os.path.join(task.staging, f"fault-{place}"), "w").close()
        return replace(made, error=error)
    save_codes(made, parser)
    return made


def _faulty_before(staging: str, place: int) -> bool:
    """True when a split before this one is known to stop the job."""
    return any(
        entry.name.startswith("fault-") and int(entry.name.removeprefix("fault-")) < place
        for entry in os.scandir(staging)
    )


def _read_batch(task: Task, parser: Parser, batch: Any, made: Fragment) -> tuple[np.ndarray, Fragment]:
    parsed = parser.parse(batch)
    if isinstance(parsed, Fault):
        return np.empty((0, task.reader.width)), replace(made, fault=parsed._replace(line=made.lines + parsed.line))
    rows, reasons, places = parsed
    made = replace(made, lines=made.lines + batch.num_rows)
    policy = "fail"
    if task.reading is not None:
        policy = task.reading.policy
        refused, slots = task.reading.screened(rows)
        if refused.any():
            good = np.flatnonzero(reasons == Reason.NONE)
            reasons[good] = refused
            places[good[refused != Reason.NONE]] = slots[refused != Reason.NONE]
            rows = rows[refused == Reason.NONE]
        made = replace(made, unseen=made.unseen + _unseen(task.reading, rows))
    else:
        made = replace(made, unseen=Counter({"features": getattr(parser, "unseen", 0)}))
    harmless = [Reason.NONE, Reason.BLANK, *([Reason.MISSING] if policy == "drop" else [])]
    faults = np.flatnonzero(~np.isin(reasons, harmless))
    if len(faults) and not task.drop_bad:
        line = int(faults[0])
        fault = parser.explain(line, Reason(reasons[line]), int(places[line]))
        before = made.lines - len(reasons)
        return rows[:0], replace(made, fault=fault._replace(line=before + fault.line))
    numbers, counts = np.unique(reasons[reasons != Reason.NONE], return_counts=True)
    dropped = Counter({Reason(number).name.lower(): int(count) for number, count in zip(numbers, counts)})
    return rows, replace(made, kept=made.kept + len(rows), skipped=parser.skipped, dropped=made.dropped + dropped)


def _unseen(reading: Reading, rows: np.ndarray) -> Counter[str]:
    if reading.known is None:
        return Counter()
    return Counter(
        {
            column.name: int(np.count_nonzero(rows[:, slot] == UNSEEN))
            for slot, column in enumerate(reading.layout.columns)
            if column.kind == "category" and slot
        }
    )


def save_codes(made: Fragment, parser: Parser) -> None:
    """Keep the categories of a split, by slot in the order of their codes; None for one of dropped rows alone."""
    tables = {slot: table for slot, table in enumerate(parser.tables) if type(table) is Codes}
    met: dict[int, list[str | None]] = {slot: [cell.decode() for cell in table] for slot, table in tables.items()}
    if made.dropped and made.kept:
        rows = np.memmap(made.path, DTYPE, "r").reshape(made.kept, -1)
        for slot, cells in met.items():
            kept = set(np.unique(rows[:, slot]).tolist())
            met[slot] = [cell if code in kept else None for code, cell in enumerate(cells)]
    if met:
        with open(f"{made.path}.codes", "w", encoding="utf-8") as file:
            json.dump(met, file)


def load_codes(path: str) -> dict[int, list[str | None]]:
    """Read the categories that `save_codes` kept."""
    with open(f"{path}.codes", encoding="utf-8") as file:
        return {int(slot): cells for slot, cells in json.load(file).items()}


def refuse_faults(fragments: list[Fragment], splits: list[Split], unit: str) -> None:
    """Raise PrepError for the first fault in the order of the input, with the number of its line in its file."""
    for made in fragments:
        if made.error is not None:
            raise made.error
        if made.fault is not None:
            file = splits[made.place].file
            before = sum(other.lines for other in fragments[: made.place] if splits[other.place].file == file)
            fault = made.fault
            raise PrepError(
                f"{local_name(file) or 'the table'}, {unit} {before + fault.line}, {fault.place}: "
                f"expected {fault.expected}, found {fault.found}",
                fault.remedy,
            )
