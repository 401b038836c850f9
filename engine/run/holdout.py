"""Judges a trained model on the held-back shards that `riprap prep --holdout` wrote beside the training shards."""

from __future__ import annotations

from pathlib import Path

from riprap.codec.errors import RiprapError
from riprap.configs.topology import Topology
from riprap.operators.inputs.shards import open_shards

ROWS_MAX = 1_000_000
"""Rows judged at most: enough for three digits, and few enough to fit into memory beside everything else."""


def holdout_metrics(model_path: str | None, topology: Topology) -> dict[str, float]:
    """`holdout_NAME: value` for each metric; empty when nothing was held back or the job has no such model."""
    path = Path(topology.input.path or "")
    test = path.parent / "test"
    if path.name != "train" or not (test / "manifest.json").exists() or not model_path:
        return {}
    from riprap.operators.learning.estimators import evaluate, load_model  # the models, which few jobs have

    try:
        shards = open_shards(str(test))
        items = shards.read(0, min(shards.rows, ROWS_MAX))
        found = evaluate(load_model(model_path), items, shards.columns, shards.label)
    except RiprapError:  # the user's own kind of model, which only the user can judge
        return {}
    return {f"holdout_{name}": value for name, value in found.items()}
