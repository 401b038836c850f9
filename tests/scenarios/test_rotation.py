"""The keys of a cluster change while its job runs: nothing is lost, and the former ones open nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_harness import Cli, await_that, undisturbed_model
from rotation_harness import SETS, Rotating, check_opens_nothing
from test_cluster_jobs import is_first

from riprap.codec.trust.keys import FOLDER_VARIABLE


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The model of the whole job, by name."""
    return undisturbed_model(tmp_path_factory.mktemp("undisturbed"), *SETS)


@pytest.fixture
def cluster(cli: Cli) -> Iterator[Rotating]:
    """Two hosts with a job; nothing of them may be left."""
    made = Rotating(cli)
    made.submit()
    try:
        yield made
    finally:
        made.close()
    cli.await_no_process()


def keep_aside(cluster: Rotating, name: str) -> Path:
    """A folder with the present secret, as somebody has it who has left."""
    folder = cluster.cli.directory / name
    folder.mkdir(mode=0o700)
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_bytes((cluster.folder / "secret").read_bytes())
    return folder


def agents(cluster: Rotating) -> set[int]:
    return set(filter(is_first, cluster.cli.pids_of("agent")))


def test_a_job_loses_nothing_while_the_keys_change_twice(cluster: Rotating, undisturbed: dict[str, np.ndarray]) -> None:
    before, former = (cluster.incarnations(), agents(cluster)), []
    for number in (1, 2):
        former.append(keep_aside(cluster, f"former {number}"))
        said = cluster.run("token", "--rotate")
        assert said.returncode == 0 and "agents that have the new keys: other, " in said.stdout, said.stderr
        assert (cluster.incarnations(), agents(cluster)) == before, "only controllers and backup servers were restarted"
        cluster.await_more_epochs()
    assert cluster.keys(cluster.other_folder).secret == cluster.keys().secret
    for folder in former:
        refused = cluster.run("jobs", host=folder)
        assert refused.returncode == 2 and "belongs to others" in refused.stderr, refused.stderr
        check_opens_nothing(cluster, cluster.keys(folder))
    for worker in ("processor.1", "sink.0", "source.0"):
        cluster.done("kill", "trial", worker)
        await_that(lambda worker=worker: is_new(cluster, worker, before[0][worker]), 120, lambda: str(cluster.status()))
    os.kill(cluster.leader()["pid"], signal.SIGKILL)
    cluster.await_more_epochs()
    summary = cluster.finish()
    assert summary["completed"] and (summary["lost"]["items"], summary["lost"]["states"]) == (0, 0)
    cluster.check_whole(undisturbed)


def is_new(cluster: Rotating, worker: str, before: tuple[int, int]) -> bool:
    found = cluster.status()["workers"][worker]
    return bool(found["state"] == "up" and found["pid"] != before[0] and found["incarnation"] > before[1])


@pytest.mark.long
def test_a_rotation_that_is_killed_anywhere_is_given_again(
    cluster: Rotating, undisturbed: dict[str, np.ndarray]
) -> None:
    former = {keep_aside(cluster, "former")}
    for step in ("told", "shared", "taken"):
        before = cluster.keys()
        cluster.kill_after(step)
        assert (cluster.keys().secret != before.secret) == (step == "taken")
        cluster.await_more_epochs()  # and meanwhile everything works
        cluster.done("kill", "trial", "processor.2")
        former.add(keep_aside(cluster, f"after {step}"))
        cluster.done("token", "--rotate")
        for folder in former:
            check_opens_nothing(cluster, cluster.keys(folder))
    assert cluster.finish()["completed"]
    cluster.check_whole(undisturbed)


def test_an_agent_that_does_not_answer_is_named_and_nothing_changes(cluster: Rotating) -> None:
    before = cluster.keys().secret
    os.kill(cluster.agents[0].pid, signal.SIGSTOP)
    try:
        refused = cluster.run("token", "--rotate")
    finally:
        os.kill(cluster.agents[0].pid, signal.SIGCONT)
    other = cluster.run("token", "--rotate", host=cluster.cli.directory / "keys of somebody else")
    assert other.returncode == 2 and "have other keys than those in" in other.stderr
    assert refused.returncode == 1 and "no agent has confirmed the new keys on other" in refused.stderr, refused.stderr
    assert cluster.keys().secret == before and not (cluster.folder / "next").exists()
    await_that(lambda: "other" in cluster.hosts(), 120, lambda: "the other agent has not come back")
    cluster.done("token", "--rotate")
    assert before != cluster.keys().secret == cluster.keys(cluster.other_folder).secret
    assert cluster.finish()["completed"], cluster.status()


@pytest.mark.long
def test_a_host_that_was_away_joins_anew(cluster: Rotating) -> None:
    away, reader = (cluster.cli.directory / f"keys of a {who} that was away" for who in ("host", "reader"))
    cluster.done("join", cluster.done("token", "--reader").strip(), host=reader)
    assert "trial" in cluster.done("jobs", "--zookeeper", cluster.zookeeper, host=reader)
    cluster.done("join", cluster.done("token").strip(), host=away)
    cluster.done("token", "--rotate")
    words = ("agent", "--zookeeper", cluster.zookeeper, "--host", "away")
    refused = cluster.run(*words, host=away)
    assert refused.returncode == 2 and "riprap join" in refused.stderr
    refused = cluster.run("jobs", "--zookeeper", cluster.zookeeper, host=reader)
    assert refused.returncode == 2 and "riprap token --reader" in refused.stderr, refused.stderr
    cluster.done("join", cluster.done("token", "--reader").strip(), host=reader)
    assert "trial" in cluster.done("jobs", "--zookeeper", cluster.zookeeper, host=reader)
    cluster.done("join", cluster.done("token").strip(), host=away)
    assert cluster.keys(away).secret == cluster.keys().secret
    assert "trial" in cluster.done("jobs", "--zookeeper", cluster.zookeeper, host=away)
    assert cluster.finish()["completed"]


def test_services_of_another_host_that_stood_by_follow(cli: Cli, undisturbed: dict[str, np.ndarray]) -> None:
    """Its controllers have the former keys when the leader ends, and one of them comes to lead."""
    first = Rotating(cli, agents=0, standby=0)
    there = cli.directory / "runtime of the other host"
    words = ("up", "--foreground", "--zookeeper", first.zookeeper, "--address", "127.0.0.1")
    named = ("unshare", "--uts", "sh", "-c", 'hostname other; exec "$@"', "sh")
    of_other = {FOLDER_VARIABLE: str(first.other_folder), "XDG_RUNTIME_DIR": str(there)}
    second = cli.start(*words, environment=of_other, wrapper=named)
    try:
        await_that(lambda: "other" in first.hosts() or second.poll() is not None, 120, lambda: "it is not up")
        assert second.poll() is None, f"namespaces are needed here: {second.communicate()}"
        log = there / "riprap" / "controller.log"
        await_that(lambda: "ready to lead" in log.read_text(), 60, log.read_text)
        first.submit()
        first.done("token", "--rotate")
        await_that(lambda: keys_of(there) == first.keys().id, 60, log.read_text)
        check_opens_nothing(first, first.former())
        first.await_more_epochs()
        assert first.finish()["completed"]
        first.check_whole(undisturbed)
    finally:
        second.terminate()
        second.communicate(timeout=120)
        first.close()
    cli.await_no_process()


def keys_of(runtime: Path) -> str:
    """The keys under which a host's services run."""
    return str(json.loads((runtime / "riprap" / "up.json").read_text())["keys"])


def test_where_there_is_nothing_to_rotate_it_is_said(cli: Cli) -> None:
    cli.environment[FOLDER_VARIABLE] = str(cli.directory / "keys")
    nothing = cli.run("token", "--rotate")
    assert nothing.returncode == 2 and "no cluster runs on this host" in nothing.stderr
    off = cli.run("token", "--rotate", environment={FOLDER_VARIABLE: "off"})
    assert off.returncode == 2 and "security is off" in off.stderr
    both = cli.run("token", "--rotate", "--revoke")
    assert both.returncode == 2 and "goes with no other option" in both.stderr
