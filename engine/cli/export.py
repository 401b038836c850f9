"""`riprap export`: the trained model of a run as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from riprap.codec.errors import ConfigError, RiprapError


@click.command("export")
@click.argument("run_dir", metavar="RUNDIR", type=click.Path(path_type=Path))
@click.argument("file", metavar="MODEL.onnx", type=click.Path(path_type=Path))
def command(run_dir: Path, file: Path) -> None:
    """Write the model of a completed run as ONNX, for programs that know nothing of Riprap.

    \b
    Example:
      riprap export runs/svm_higgs-20260101-120000 svm.onnx

    The names of the features, the label and the job are in the metadata of the file. Linear models, networks of one
    hidden layer and k-means can be exported. It needs onnx: pip install 'riprap[onnx]'.
    """
    features = export(run_dir, file)
    click.echo(f"wrote {file}; its input `features` has the columns {', '.join(features) or '(names not known)'}")


def export(run_dir: Path, file: str | os.PathLike[str]) -> list[str]:
    """Write `file`, and return the names of the features; none where the input is there no more.

    DataError when the run has no such model, ConfigError without onnx or for a directory that is none.
    """
    from riprap.codec.files import replace
    from riprap.engine.cli.asked_for import writing
    from riprap.engine.run_directory.directory import TOPOLOGY, read_summary
    from riprap.operators.learning.estimators import load_model
    from riprap.operators.learning.onnx_model import to_onnx

    if not (run_dir / TOPOLOGY).is_file():
        raise ConfigError(f"{run_dir} is not a run directory", "name one that `riprap run` made")
    summary = read_summary(run_dir)
    columns, label = _columns(run_dir / TOPOLOGY)
    features = [name for name in columns if name != label]
    said = {
        "job": str(summary.get("job", "")),
        "sha256": str(summary.get("model", {}).get("sha256", "")),
        "label": label,
    }
    model = to_onnx(load_model(run_dir / "model.npz"), features, said).SerializeToString()
    with writing(file):
        replace(file, model)
    return features


def _columns(topology: Path) -> tuple[Sequence[str], str]:
    """The columns of the job's input and its label; none where it is no directory of shards, or gone."""
    from riprap.configs.document import read_document
    from riprap.operators.inputs.shards import open_shards

    try:
        shards = open_shards(read_document(topology).values["input"].get("path") or "")
    except (RiprapError, LookupError, TypeError, AttributeError):  # such a topology no run has written
        return (), ""
    return shards.columns, shards.label
