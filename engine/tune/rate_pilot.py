"""The pilot of `riprap plan --pilot-items`: a short run of the job, for the rates of its links."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from riprap.codec.errors import ConfigError
from riprap.configs.topology import Topology
from riprap.engine.plan.rates_file import RatesFile
from riprap.engine.plan.run_rates import rates_of_run
from riprap.engine.run.preflight import check_job
from riprap.engine.run_directory.directory import TOPOLOGY, make_run_directory
from riprap.engine.run_directory.rates import RATES
from riprap.engine.tune.pilots import Pilots, stream_items


def pilot_rates(file: str, sets: Sequence[str], items: int) -> tuple[RatesFile, int]:
    """The rates of a run on `items` items of the largest source, or on all that there are, and how many they were.

    Its run directory is gone afterwards. ConfigError for a job that cannot be started, has an input that goes on, or
    counts no items of links; JobFailed when the pilot does not complete.
    """
    topology = check_job(file, sets).topology
    if live := [stage for stage in topology.sources if topology.input_of(stage).is_live]:
        raise ConfigError(
            f"--pilot-items: the input of {', '.join(live)} goes on, so that no part of it can be taken",
            "run the job for a while, end it with `riprap drain JOB`, and give its run directory: --from RUNDIR",
        )
    asked = min(items, max(stream_items(topology).values()))
    with TemporaryDirectory(prefix="riprap-plan-") as folder:
        job = make_run_directory(str(Path(folder, "job")), topology.job, topology.to_dict())
        pilots = Pilots(str(job / TOPOLOGY), topology, Path(folder), ())
        pilots.run("pilot", _without_replicas(topology), asked, disturbed=False)
        if not Path(folder, "pilot", RATES).exists():
            raise ConfigError(
                "--pilot-items: this job counts no items of links, for its stages are coded", "use --rates"
            )
        return rates_of_run(Path(folder, "pilot"), topology.shape), asked


def _without_replicas(topology: Topology) -> dict[str, object]:
    """The job's own scheme, so that its links are as they will be; copies would carry nothing else."""
    return {key: value for key, value in topology.fault_tolerance.items() if key != "replicate"}
