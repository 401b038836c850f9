"""Submissions written by hand with the clients' key: refused with their reasons, while the controller goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from cli_harness import Cli, await_that, paced, write_topology

from riprap.codec.errors import ConfigError, RiprapError
from riprap.controller import paths
from riprap.controller.client import Client
from riprap.controller.session import disconnect, open_client
from riprap.engine.run_directory.directory import read_events

SHARED_ENSEMBLE = True
JOB = f"written{os.getpid()}"  # whatever else runs here
Change = Callable[[dict[str, Any]], Any]

WRONG: list[tuple[str, Change]] = [
    ("stages: missing", lambda t: t.pop("stages")),
    ("stages.sink.operator: is 'os.system'", lambda t: t["stages"]["sink"].update(operator="os.system")),
    ("stages.sink.parallelism: is '1'", lambda t: t["stages"]["sink"].update(parallelism="1")),
    ("stages.sink.options: is 7", lambda t: t["stages"]["sink"].update(options=7)),
    ("edges.0.to: is 'nobody'", lambda t: t["edges"][0].update(to="nobody")),
    ("no data edge touches it", lambda t: t["edges"].pop(0)),
    ("fault_tolerance.scheme: is 'magic'", lambda t: t["fault_tolerance"].update(scheme="magic")),
    ("fault_tolerance.k: missing", lambda t: t["fault_tolerance"].pop("k")),
    ("links.block_bytes: is 1", lambda t: t["links"].update(block_bytes=1)),
    ("input.path: is 'here'", lambda t: t["input"].update(path="here")),
    ("cluster.restarts_max: is None", lambda t: t["cluster"].update(restarts_max=None)),
    ("backup.servers: no list", lambda t: t["backup"].update(servers="ipc://@mine")),
    ("schema.columns: is 3", lambda t: t["schema"].update(columns=3)),
    ("run: is '../x'", lambda t: t.update(run="../x")),
    ("sinks: is None", lambda t: t.update(sinks=None)),
    ("under which it is submitted", lambda t: t.update(job="another")),
    ("not a fault", lambda t: t.update(faults=[{"action": "kill"}])),
]


def test_wrong_topologies_are_refused_one_by_one_and_the_run_goes_on(cli: Cli) -> None:
    write_topology(cli.directory / "job.yaml", sets=[("job: trial", f"job: {JOB}")])
    out = cli.directory / "out"
    process = cli.start("run", "job.yaml", "--out", "out", "--json", "--set", "input.repeat=60", *paced(150_000))
    csv = out / "epochs.csv"
    await_that(lambda: csv.exists() and csv.read_bytes().count(b"\n") > 5, 120, lambda: "nothing was committed")
    zookeeper = str(next(event for event in read_events(out) if event["event"] == "cluster_started")["zookeeper"])
    sound = submitted(zookeeper)
    with Client(zookeeper) as client:
        for complaint, change in WRONG:
            refusal = refused(client, sound, change)
            assert complaint in str(refusal), (complaint, refusal)
        both = refused(client, sound, lambda t: (t.pop("job"), t["links"].update(transport="pigeons")))
        assert "submission: job: missing" in str(both) and "links.transport: is 'pigeons'" in str(both)
        assert client.jobs().keys() == {JOB}
    said, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert json.loads(said)["completed"] and json.loads(said)["failures"] == []
    assert "Traceback" not in (out / "logs" / "controller.log").read_text()


def submitted(zookeeper: str) -> dict[str, Any]:
    """The topology of the job that runs, as it was submitted."""
    ours = open_client(zookeeper)
    spec = json.loads(ours.get(paths.job_spec(JOB))[0])
    disconnect(ours)
    return dict(spec["topology"])


def refused(client: Client, sound: dict[str, Any], change: Change) -> RiprapError:
    topology = deepcopy(sound) | {"job": "wrong"}
    change(topology)
    with pytest.raises(ConfigError) as error:
        client.submit("wrong", topology, str(Path("/tmp/wrong")))
    assert error.value.remedy
    return error.value
