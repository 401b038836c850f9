"""Writes the parts of a directory of shards from raw fragments: all the shards, and then a manifest for each part."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.frames import results
from riprap.prep_spark.layout import ShardPlan, plan_shards
from riprap.prep_spark.shards import Assembly, ShardForm, Source, write_manifest, write_shard

if TYPE_CHECKING:
    from pyspark import SparkContext


class Dealing(NamedTuple):
    """The dealing out of rows: the fraction that is held back, what draws it, and the rows of a shard."""

    holdout: float
    seed: int
    shard_rows: int


def write_parts(
    context: SparkContext,
    sources: Sequence[Source],
    columns: int,
    dealing: Dealing,
    form: ShardForm | None,
    target: str,
    fields: dict[str, Any],
) -> dict[str, Any]:
    """Write `target`, or its train and test with a holdout; returns the counts: rows {part: rows}, shards.

    The sources hold rows of `columns` columns, at least one in all; `fields` go into each manifest. PrepError when a
    part would have no row, or a number does not fit the form.
    """
    kept = sum(source.rows for source in sources)
    plans = plan_shards(kept, dealing.holdout, dealing.seed, dealing.shard_rows)
    parts = ("all",) if dealing.holdout == 0 else ("train", "test")
    if set(parts) != {plan.part for plan in plans}:
        raise PrepError(
            f"{kept:,} rows are too few to hold back a fraction of {dealing.holdout}",
            "give more rows or another --holdout",
        )
    assembly = Assembly(tuple(sources), columns, target, dealing.holdout, dealing.seed, form)
    for part in parts:
        os.makedirs(assembly.part_directory(part))
    shared = context.broadcast(assembly)
    made = results(context.parallelize(plans, len(plans)).map(lambda plan: _written(plan, shared.value)).collect())
    rows = {}
    for part in parts:
        shards = [shard for of, shard in made if of == part]
        write_manifest(assembly.part_directory(part), shards, fields | {"split": part})
        rows[part] = sum(shard["rows"] for shard in shards)
    return {"rows": rows, "shards": len(plans)}


def _written(plan: ShardPlan, assembly: Assembly) -> tuple[str, dict[str, Any]] | PrepError:
    """A shard's part and its entry in the manifest, or the refusal of its rows. Runs in Spark's workers."""
    try:
        return plan.part, write_shard(plan, assembly)
    except PrepError as error:
        return error
