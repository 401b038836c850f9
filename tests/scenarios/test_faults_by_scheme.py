"""Every scheme, with real processes killed or stopped under it: what it promises is what comes out.

`Job` runs one with the faults given to it: on the shared cluster, or with services of its own where they are hit.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_harness import REPO, Cli, await_that, paced, write_shards, write_topology
from shared_cluster import SharedCluster

from riprap.engine.run.losses import sentences
from riprap.engine.spreads.encoder import ROWS_MAX

ITEMS = 1_500_000
LENGTH = ["--set", "input.repeat=30", "--set", "micro_batch=20000", "--set", "stages.processor.parallelism=6"]
ERASURE = "fault_tolerance={scheme: erasure, code: gf256, k: 4, r: 2}"
AUTO = ("--set", "links.transport=auto")
HYBRID = "fault_tolerance={scheme: erasure, code: stable, k: 4, r: 2, attachment: hybrid}"
MODELS = 3
PREDICTING = [
    ('logistic_regression:Gradient", ', f'linear_prediction:LogisticRegression", options: {{models: {MODELS}}}, '),
    ('logistic_regression:Model", options: {learning_rate: 0.5}', 'prediction:Predictions"'),
    ("  - {from: sink, to: processor, feedback: true}\n", ""),
]
"""What makes the topology one that predicts with so many models, drawn from its seed."""
LASTING = paced(600_000)
"""For faults that need time between them, or before the end, on any machine."""
SLOW_GRADIENT = """\
import time

from riprap.operators.learning.linear_prediction import LogisticRegression
from riprap.operators.learning.logistic_regression import Gradient


class SlowGradient(Gradient):
    per_second = 250_000

    def process_data(self, items):
        time.sleep(len(items) / self.per_second)
        return super().process_data(items)


class SlowerGradient(SlowGradient):
    per_second = 80_000


class SlowPrediction(LogisticRegression):
    def process_linear(self, items):
        time.sleep(len(items) / 100_000)
        return super().process_linear(items)
"""
STEADY = ("--set", "stages.processor.operator=slow_gradient:SlowGradient")
"""So that a fault comes before the end of the stream, and finds items under way, on any machine."""
A_MILLION = ("--set", "input.repeat=20", *paced(600_000))
AWAY_ITEMS = 900_000
"""More than are read while ZooKeeper is away."""
ITEM_BYTES = 4 * 8
SMALL_DEV_SHM = 'mount -t tmpfs -o size=128k tmpfs /dev/shm && exec "$@"'
LONG = pytest.mark.long
Job = Callable[..., dict[str, Any]]


def lacks(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """All that was lost, and all that any recovery may lack."""
    return list(sentences(summary["lost"]))


@pytest.fixture(scope="module")
def shared(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """One working directory for the module; at its end no process may be left."""
    directory = tmp_path_factory.mktemp("faults")
    write_shards(directory / "shards", rows=50_000)
    write_topology(directory / "job.yaml")
    write_topology(directory / "predict.yaml", sets=PREDICTING)
    for folder in (directory, cluster.directory):
        (folder / "slow_gradient.py").write_text(SLOW_GRADIENT)
    cli = Cli(directory)
    yield cli
    try:
        cli.await_no_process()
    finally:
        cli.kill_all()


SERVICES = ("controller", "agent", "backup", "zookeeper")


@pytest.fixture(scope="module")
def job(shared: Cli, cluster: SharedCluster) -> Job:
    """Runs the job under a scheme and faults; its summary, with the run directory under `out`."""
    number = iter(range(1000))

    def run(scheme: str, *faults: str, words: tuple[str, ...] = (), file: str = "job.yaml") -> dict[str, Any]:
        out = shared.directory / f"run{next(number)}"
        specs = [word for fault in faults for word in ("--fault", fault)]
        steady = STEADY if faults and file == "job.yaml" else ()
        command = [*LENGTH, "--set", scheme, *steady, *words, *specs]
        if any(service in fault for fault in faults for service in SERVICES):
            summary = run_alone(shared, file, out, *command, "--zookeeper", cluster.chroot(out.name))
        else:
            summary = cluster.job(shared.directory / file, out, *command)
        assert [failure["action"] for failure in summary["failures"]].count("kill") == str(faults).count("kill:")
        return summary | {"out": out}

    return run


def run_alone(shared: Cli, file: str, out: Path, *words: str) -> dict[str, Any]:
    """The summary of a run with services of its own."""
    done = shared.answer("run", file, "--json", "--out", str(out), *words)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def undisturbed(job: Job) -> dict[str, Any]:
    """The erasure job without faults."""
    summary = job(ERASURE)
    assert summary["items"] == ITEMS and lacks(summary) == []
    return summary


def test_what_the_engine_chooses_by_itself_is_as_exact(job: Job, undisturbed: dict[str, Any]) -> None:
    """Steps by a sample of the items, k and r by the tasks: with a sink and a processor killed, the same model."""
    words = ("--set", "stages.sink.options={}")
    calm = job("fault_tolerance={scheme: erasure}", words=words)
    killed = job("fault_tolerance={scheme: erasure}", "kill:sink.0@40%", "kill:processor.1@60%", words=words)
    assert killed["model"]["sha256"] == calm["model"]["sha256"] != undisturbed["model"]["sha256"]
    assert "k: 4\n  r: 2\n" in (calm["out"] / "topology.yaml").read_text()


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(["kill:random:processor@30%"], marks=LONG),
        ["kill:processor.0@40%", "kill:processor.5@40%"],
        ["kill:processor.0@30%", "kill:processor.1@30%", "kill:processor.2@30%"],
        ["stop:processor.3@20%,for=3s"],
    ],
    ids=["one", "two", "three at once", "stopped"],
)
def test_erasure_gives_the_undisturbed_model_to_the_last_bit(
    job: Job, undisturbed: dict[str, Any], faults: list[str]
) -> None:
    summary = job(ERASURE, *faults)
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"]
    assert summary["items"] == ITEMS and lacks(summary) == []
    assert summary["recomputed_items"] == summary["decoded_items"]
    assert summary["decoded_items"] > 0 or len(faults) > 2, "what more than r dead held comes from the source"
    assert summary["epochs"] == undisturbed["epochs"]


def test_a_processor_may_die_again(job: Job, undisturbed: dict[str, Any]) -> None:
    summary = job(ERASURE, "kill:processor.1@20%", "kill:processor.1@80%", words=LASTING)
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"]
    assert summary["items"] == ITEMS and lacks(summary) == []
    assert [failure["incarnation"] for failure in summary["failures"]] == [1, 2]


def test_a_stopped_processor_is_decoded_around_before_anyone_replaces_it(job: Job, undisturbed: dict[str, Any]) -> None:
    """The sink gives it up, most often because it sees the process stand still, and decodes what it holds."""
    words = (*AUTO, *LASTING, "--set", "cluster.heartbeat_timeout_s=25")
    summary = job(ERASURE, "stop:processor.3@40%,for=8s", words=words)
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"] and summary["items"] == ITEMS
    assert [failure["detected_ms"] for failure in summary["failures"]] == [None]
    events = [json.loads(line) for line in (summary["out"] / "events.jsonl").read_text().splitlines()]
    stopped_at = next(number for number, event in enumerate(events) if event["event"] == "fault_injected")
    hedges = [event for event in events[stopped_at:] if event["event"] == "hedge"]
    given_up = {hedge["epoch"] for hedge in hedges if "processor.3" in (*hedge["workers"], *hedge["stopped"])}
    decodes = {event["epoch"] for event in events[stopped_at:] if event["event"] == "decode"}
    assert given_up & decodes, hedges


def test_a_window_may_have_thousands_of_rows(job: Job) -> None:
    """What is safe at the sink is safe by windows, and a source that starts again begins at one."""
    items = ITEMS // 2
    words = ("--set", "input.repeat=15", "--set", f"micro_batch={items // 4}", "--set", "links.block_bytes=4096")
    calm, hit = (job(ERASURE, *faults, words=words) for faults in ((), ("kill:sink.0@50%",)))
    assert hit["model"]["sha256"] == calm["model"]["sha256"] and hit["epochs"] == 4
    assert calm["rows"] > 2 * ROWS_MAX and hit["items"] == items and lacks(hit) == []


def test_all_processors_may_die_at_once(job: Job, undisturbed: dict[str, Any]) -> None:
    """Far beyond r = 2: the job pauses until some are back, and the source sends again what the sink lacks."""
    summary = job(ERASURE, *[f"kill:processor.{n}@50%" for n in range(6)])
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"]
    assert summary["items"] == ITEMS and lacks(summary) == []


def test_a_real_code_agrees_up_to_rounding(job: Job, undisturbed: dict[str, Any]) -> None:
    scheme = "fault_tolerance={scheme: erasure, code: vandermonde, k: 4, r: 2}"
    summary = job(scheme, "kill:processor.2@30%", "kill:processor.4@30%")
    assert summary["decoded_items"] > 0
    found, expected = (np.load(run["out"] / "model.npz") for run in (summary, undisturbed))
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12)


def test_a_code_of_ones_own_decodes(shared: Cli, cluster: SharedCluster, job: Job, undisturbed: dict[str, Any]) -> None:
    for folder in (shared.directory, cluster.directory):
        shutil.copy(REPO / "examples/own_code.py", folder)
    scheme = 'fault_tolerance={scheme: erasure, code: "own_code:SumAndWeightedSum", k: 4, r: 2}'
    summary = job(scheme, "kill:processor.2@30%", "kill:processor.4@30%")
    assert summary["decoded_items"] > 0
    with np.load(summary["out"] / "model.npz") as found, np.load(undisturbed["out"] / "model.npz") as expected:
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12)


def test_a_code_that_decodes_badly_is_warned_of(shared: Cli, cluster: SharedCluster) -> None:
    words = ["--set", "stages.processor.parallelism=11", "--set", "input.repeat=1", "--set", "micro_batch=20000"]
    scheme = "fault_tolerance={scheme: erasure, code: vandermonde, k: 8, r: 3}"
    words += ["--zookeeper", cluster.chroot("badly")]
    done = shared.answer("run", "job.yaml", "--out", "badly", *words, "--set", scheme)
    assert done.returncode == 0, done.stderr
    assert "warning: the code vandermonde with k=8 and r=3 decodes badly" in done.stderr
    events = map(json.loads, (shared.directory / "badly/events.jsonl").read_text().splitlines())
    assert [event["text"][:20] for event in events if event["event"] == "caution"] == ["the code vandermonde"]


@pytest.mark.parametrize("copies", [pytest.param(2, marks=LONG), 3])
def test_replication_gives_the_undisturbed_model_to_the_last_bit(job: Job, copies: int) -> None:
    scheme = f"fault_tolerance={{scheme: replication, copies: {copies}}}"
    calm = job(scheme)
    disturbed = job(scheme, "kill:processor.1@30%", "kill:processor.0@60%", "kill:processor.1@60%", words=LASTING)
    assert disturbed["model"]["sha256"] == calm["model"]["sha256"]
    assert disturbed["items"] == ITEMS and lacks(disturbed) == []
    assert calm["duplicates_dropped"] > 0 and calm["decoded_items"] == 0


@pytest.mark.parametrize("later", [(), ("kill:sink.0@85%",)], ids=["", "and once, though the sink is restored"])
def test_scheme_none_loses_and_says_how_much(job: Job, later: tuple[str, ...]) -> None:
    summary = job("fault_tolerance={scheme: none}", "kill:processor.1@30%", "kill:processor.2@60%", *later)
    assert summary["items"] + summary["lost"]["items"] == ITEMS
    assert summary["lost"]["items"] > 0
    assert summary["epochs"] == ITEMS // 20_000


def test_two_pairs_of_sources_and_sinks_share_the_processors(job: Job) -> None:
    # An odd number of repetitions gives the pairs different halves.
    pairs = ("--set", "stages.source.parallelism=2", "--set", "stages.sink.parallelism=2", "--set", "input.repeat=31")
    calm = job(ERASURE, words=pairs)
    disturbed = job(ERASURE, "kill:processor.4@40%", "kill:processor.5@40%", words=pairs)
    assert disturbed["model"]["sha256"] == calm["model"]["sha256"]
    assert disturbed["items"] == 31 * 50_000
    models = [np.load(disturbed["out"] / f"model.{n}.npz") for n in (0, 1)]
    assert any((models[0][name] != models[1][name]).any() for name in models[0]), "each pair trains on its own share"


def test_deaths_while_the_job_starts_are_survived(job: Job, undisturbed: dict[str, Any]) -> None:
    """The workers learn of each other one by one; who dies then is replaced like any other."""
    summary = job(ERASURE, "kill:processor.0@items=1", "kill:processor.3@seconds=0.01")
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"]


def test_a_job_goes_on_while_its_controller_is_replaced(job: Job, undisturbed: dict[str, Any]) -> None:
    summary = job(ERASURE, "kill:controller@30%", "kill:processor.2@50%", words=("--standby", "1"))
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"]


EVERYBODY = [f"kill:{name}@40%" for name in ("source.0", "sink.0", *(f"processor.{n}" for n in range(6)))]


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(["kill:source.0@40%"], marks=LONG),
        pytest.param(["kill:sink.0@40%"], marks=LONG),
        ["kill:source.0@40%", "kill:sink.0@40%", "kill:processor.1@40%"],
        pytest.param(EVERYBODY, marks=LONG),
        ["kill:backup@20%", "kill:sink.0@50%"],
        ["kill:agent@40%"],
        pytest.param(["stop:sink.0@40%,for=3s"], marks=LONG),
    ],
    ids=["source", "sink", "one of each", "everybody", "backup and sink", "agent", "sink stopped"],
)
def test_any_role_may_die(job: Job, undisturbed: dict[str, Any], faults: list[str]) -> None:
    summary = job(ERASURE, *faults)
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"]
    assert summary["items"] == ITEMS and lacks(summary) == []
    assert _epochs_of(summary) == list(range(1, ITEMS // 20_000 + 1)), "each epoch is announced once, in order"
    assert summary["metrics"] == pytest.approx(undisturbed["metrics"], rel=0, abs=0)


def test_payloads_pass_by_reference_on_one_host(job: Job) -> None:
    summary = job(ERASURE, words=AUTO)
    sent, shared = (summary[name]["source->processor"] / ITEMS for name in ("bytes_sent", "bytes_shared"))
    assert sent < 4 and 1.4 * ITEM_BYTES < sent + shared < 1.6 * ITEM_BYTES, "four data blocks and two of parity"


def test_sockets_alone_give_the_same_model(job: Job, undisturbed: dict[str, Any]) -> None:
    words = ("--set", "links.transport=zeromq")
    summary = job(ERASURE, "kill:processor.0@40%", "kill:processor.5@60%", words=words)
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"]
    assert summary["bytes_shared"] == {} and summary["bytes_sent"]["source->processor"] / ITEMS > ITEM_BYTES


def test_a_small_dev_shm_is_reported_and_survived(
    shared: Cli, cluster: SharedCluster, undisturbed: dict[str, Any]
) -> None:
    """Parity finds no shared memory and goes over sockets; blocks of the mapped input still pass by reference.

    But for those sent before a processor has answered the first offer: on four links at most a window each.
    """
    command = ["run", "job.yaml", "--json", "--out", "small", *LENGTH, "--set", ERASURE, *AUTO]
    command += ["--zookeeper", cluster.chroot("small")]
    done = shared.run(*command, wrapper=["unshare", "--mount", "sh", "-c", SMALL_DEV_SHM, "sh"])
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"]
    unanswered = 4 * ROWS_MAX * 5_000  # items of the rows that leave before a neighbour has answered
    assert ITEMS - unanswered <= summary["bytes_shared"]["source->processor"] / ITEM_BYTES <= ITEMS
    events = (shared.directory / "small/events.jsonl").read_text().splitlines()
    refusals = [event for event in map(json.loads, events) if event["event"] == "no_shared_memory"]
    assert "source.0" in {event["worker"] for event in refusals}
    assert all("No space left" in event["reason"] and "/dev/shm" in event["remedy"] for event in refusals)


@pytest.mark.parametrize("attachment", ["eager", pytest.param("lazy", marks=LONG)])
def test_attachments_differ_in_bytes_only(job: Job, undisturbed: dict[str, Any], attachment: str) -> None:
    scheme = f"fault_tolerance={{scheme: erasure, code: gf256, k: 4, r: 2, attachment: {attachment}}}"
    summary = job(scheme, "kill:processor.0@40%", "kill:processor.5@60%")
    assert summary["model"]["sha256"] == undisturbed["model"]["sha256"]
    moved = sum(summary[name].get("processor->sink", 0) for name in ("bytes_sent", "bytes_shared"))
    asked = 6 * ITEM_BYTES * summary["decoded_items"]  # a row at most for what was missing of it
    assert moved > 12 * ITEMS if attachment == "eager" else moved < 4 * ITEMS + asked


@pytest.fixture(scope="module")
def predictions(job: Job) -> np.ndarray:
    """What the hybrid job predicts undisturbed: a row an item."""
    return np.array(np.load(job(HYBRID, words=A_MILLION, file="predict.yaml")["out"] / "output.npy"))


@pytest.mark.parametrize(
    "faults",
    [
        ["kill:processor.1@30%", "kill:processor.4@30%"],
        ["kill:sink.0@40%", "kill:processor.2@60%"],
        pytest.param(["kill:source.0@40%", "kill:processor.0@60%"], marks=LONG),
        pytest.param(["stop:processor.3@20%,for=3s"], marks=LONG),
    ],
    ids=["two processors", "sink", "source", "stopped"],
)
def test_hybrid_coded_computation_predicts_as_undisturbed_up_to_rounding(
    job: Job, predictions: np.ndarray, faults: list[str]
) -> None:
    words = ("--set", "input.repeat=20", "--set", "stages.processor.operator=slow_gradient:SlowPrediction")
    summary = job(HYBRID, *faults, words=words, file="predict.yaml")
    assert summary["items"] == len(predictions) == 1_000_000
    assert lacks(summary) == []
    np.testing.assert_allclose(np.load(summary["out"] / "output.npy"), predictions, rtol=1e-9, atol=1e-12)
    assert summary["decoded_items"] == summary["recomputed_items"]
    assert summary["decoded_items"] > 0 or len({fault.split(".")[0] for fault in faults}) > 1, "restored meanwhile"


def test_linear_work_sends_its_linear_part_alone(job: Job) -> None:
    """Logistic regression needs both of its parts: a linear one for each model and the label, a prediction for each.

    Parity adds half of the linear part, or less where a processor is done without.
    """
    linear = ("--set", "stages.processor.operator=linear_prediction:LinearRegression")
    widths = {}
    for name, words in {"both": (), "alone": linear}.items():
        summary = job(HYBRID, words=(*A_MILLION, *words), file="predict.yaml")
        moved = sum(summary[kind].get("processor->sink", 0) for kind in ("bytes_sent", "bytes_shared"))
        widths[name] = moved / summary["items"] / 8
    part = MODELS + 1
    assert part + MODELS < widths["both"] < 1.5 * part + MODELS + 0.2
    assert part < widths["alone"] < 1.5 * part + 0.2 < part + MODELS


def test_the_reactive_scheme_restores_what_it_persisted(job: Job) -> None:
    scheme = "fault_tolerance={scheme: reactive}"
    long_epochs = ("--set", "input.repeat=20", "--set", "micro_batch=100000")
    slowly = ("--set", "stages.processor.operator=slow_gradient:SlowerGradient")
    calm = job(scheme, words=long_epochs)
    faults = ("kill:processor.1@20%", "kill:processor.4@20%", "kill:sink.0@40%", "kill:processor.1@60%")
    disturbed = job(scheme, *faults, words=(*long_epochs, *slowly))
    assert disturbed["model"]["sha256"] == calm["model"]["sha256"]
    assert disturbed["items"] == 1_000_000 and lacks(disturbed) == []
    events = [json.loads(line) for line in (disturbed["out"] / "events.jsonl").read_text().splitlines()]
    restored = [e for e in events if e["event"] == "restored" and "items" in e and e["worker"].startswith("processor")]
    assert {e["worker"] for e in restored} == {"processor.1", "processor.4"}
    assert all(e["epoch"] > 0 for e in restored), "its state of the windows before, and what was saved behind it"


def test_a_lost_sink_ends_the_job_loudly_where_nothing_is_kept(shared: Cli, cluster: SharedCluster) -> None:
    words = ["--set", ERASURE, "--set", "backup.servers=0", "--fault", "kill:sink.0@30%"]
    words += ["--zookeeper", cluster.chroot("lost-sink"), *STEADY]
    done = shared.answer("run", "job.yaml", "--out", "lost-sink", *LENGTH, *words)
    assert done.returncode == 1
    assert "sink.0: the sink was lost, and nothing was kept to restore it from" in done.stderr
    assert "remedy: run the job again with backup.servers" in done.stderr


def test_zookeeper_away_for_five_seconds_stops_nothing(shared: Cli) -> None:
    """The server is stopped in mid-stream, and a processor dies while it is away."""
    faults = ["--fault", "stop:zookeeper@10%,for=5s", "--fault", "kill:processor.1@20%"]
    words = [*LENGTH, "--set", f"input.repeat={AWAY_ITEMS // 50_000}", "--set", "micro_batch=2000"]
    words += [*paced(120_000), "--set", ERASURE, *faults]
    process: subprocess.Popen[str] = shared.start("run", "job.yaml", "--json", "--out", "away", *words)
    epochs = shared.directory / "away/epochs.csv"
    events = shared.directory / "away/events.jsonl"
    await_that(
        lambda: '"stop"' in _text(events) or process.poll() is not None, 120, lambda: "zookeeper was not stopped"
    )
    stopped = _text(epochs).count("\n")
    await_that(lambda: _text(epochs).count("\n") > stopped + 100 or process.poll() is not None, 120, lambda: "stalled")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out)["items"] == AWAY_ITEMS


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _epochs_of(summary: dict[str, Any]) -> list[int]:
    lines = (summary["out"] / "epochs.csv").read_text().splitlines()[1:]
    return [int(line.partition(",")[0]) for line in lines]
