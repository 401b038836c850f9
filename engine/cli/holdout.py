"""Judges a trained model on the held-back shards that `riprap prep --holdout` wrote beside the training shards."""

from __future__ import annotations

from pathlib import Path

from operators.shards import open_shards

from configs.topology import Topology
from operators.estimators import evaluate, load_model


def holdout_metrics(model_path: str | None, topology: Topology) -> dict[str, float]:
    """`holdout_NAME: value` for each metric; empty when nothing was held back or the job has no such model."""
    test = Path(topology.input.path).parent / "test"
    if Path(topology.input.path).name != "train" or not (test / "manifest.json").exists() or not model_path:
        return {}
    shards = open_shards(str(test))
    found = evaluate(load_model(model_path), shards.read(0, shards.rows), shards.columns, shards.label)
    return {f"holdout_{name}": value for name, value in found.items()}
