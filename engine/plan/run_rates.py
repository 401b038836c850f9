"""Rates that a job has had: what the links of a run directory carried (`riprap plan --from`)."""

from __future__ import annotations

from pathlib import Path

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import from_json
from riprap.configs.loading import load
from riprap.configs.plan_file import PlannedShape
from riprap.configs.shape import Shape
from riprap.engine.plan.document import identity
from riprap.engine.plan.rates_file import RatesFile, to_rates
from riprap.engine.run_directory.directory import TOPOLOGY
from riprap.engine.run_directory.rates import RATES


def rates_of_run(run_dir: Path, shape: Shape) -> RatesFile:
    """The items that its links carried. ConfigError for what is no run directory, holds no rates, or is of a job with
    other stages or edges than `shape`."""
    if not (run_dir / TOPOLOGY).is_file():
        raise ConfigError(f"--from {run_dir}: not a run directory", f"name one that riprap made; it holds {TOPOLOGY}")
    there = identity(load(run_dir / TOPOLOGY, with_input=False))
    if differences := list(PlannedShape(there).differences(shape, "in the run")):
        raise ConfigError(
            f"--from {run_dir}: its job was another: {'; '.join(differences)}",
            "name a run of this topology, or measure it with --pilot-items N",
        )
    if not (run_dir / RATES).is_file():
        raise ConfigError(
            f"--from {run_dir}: it has no {RATES}: its job has not ended, has failed, has coded edges alone, or is from"
            " before there were any",
            "end the job with `riprap drain JOB`, or measure with --pilot-items N, or give --rates FILE",
        )
    path = str(run_dir / RATES)
    try:
        values = from_json((run_dir / RATES).read_text())  # of any size, as the edges have it: no person wrote it
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "measure with --pilot-items N") from error
    return to_rates(values, shape, path, lambda at: path)
