"""The keys of a cluster change while its job runs: nothing is lost, and the former ones open nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_harness import Cli, await_that
from rotation_harness import SETS, Rotating, check_opens_nothing
from shared_cluster import SharedCluster, undisturbed_model
from test_cluster_jobs import is_first

from riprap.codec.trust.keys import FOLDER_VARIABLE


@pytest.fixture(scope="module")
def undisturbed(cluster: SharedCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The model of the whole job, by name."""
    return undisturbed_model(cluster, tmp_path_factory.mktemp("undisturbed"), *SETS)


@pytest.fixture
def rotating(cli: Cli) -> Iterator[Rotating]:
    """Two hosts with a job; nothing of them may be left."""
    made = Rotating(cli)
    made.submit()
    try:
        yield made
    finally:
        made.close()
    cli.await_no_process()


def keep_aside(rotating: Rotating, name: str) -> Path:
    """A folder with the present secret, as somebody has it who has left."""
    folder = rotating.cli.directory / name
    folder.mkdir(mode=0o700)
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_bytes((rotating.folder / "secret").read_bytes())
    return folder


def agents(rotating: Rotating) -> set[int]:
    return set(filter(is_first, rotating.cli.pids_of("agent")))


def test_a_job_loses_nothing_while_the_keys_change_twice(
    rotating: Rotating, undisturbed: dict[str, np.ndarray]
) -> None:
    before, former = (rotating.incarnations(), agents(rotating)), []
    for number in (1, 2):
        former.append(keep_aside(rotating, f"former {number}"))
        said = rotating.run("token", "--rotate")
        assert said.returncode == 0 and "agents that have the new keys: other, " in said.stdout, said.stderr
        assert (rotating.incarnations(), agents(rotating)) == before, (
            "nothing but controllers and backup servers was restarted"
        )
        rotating.await_more_epochs()
    assert rotating.keys(rotating.other_folder).secret == rotating.keys().secret
    for folder in former:
        refused = rotating.run("jobs", host=folder)
        assert refused.returncode == 2 and "belongs to others" in refused.stderr, refused.stderr
        check_opens_nothing(rotating, rotating.keys(folder))
    for worker in ("processor.1", "sink.0", "source.0"):
        rotating.done("kill", "trial", worker)
        await_that(
            lambda worker=worker: is_new(rotating, worker, before[0][worker]), 120, lambda: str(rotating.status())
        )
    os.kill(rotating.leader()["pid"], signal.SIGKILL)
    rotating.await_more_epochs()
    summary = rotating.finish()
    assert summary["completed"] and (summary["lost"]["items"], summary["lost"]["states"]) == (0, 0)
    rotating.check_whole(undisturbed)


def is_new(rotating: Rotating, worker: str, before: tuple[int, int]) -> bool:
    life = rotating.status()["workers"][worker]
    return bool(life["state"] == "up" and life["pid"] != before[0] and life["incarnation"] > before[1])


@pytest.mark.long
def test_a_rotation_that_is_killed_anywhere_is_given_again(
    rotating: Rotating, undisturbed: dict[str, np.ndarray]
) -> None:
    former = {keep_aside(rotating, "former")}
    for step in ("told", "shared", "taken"):
        before = rotating.keys()
        rotating.kill_after(step)
        assert (rotating.keys().secret != before.secret) == (step == "taken")
        rotating.await_more_epochs()  # and meanwhile everything works
        rotating.done("kill", "trial", "processor.2")
        former.add(keep_aside(rotating, f"after {step}"))
        rotating.done("token", "--rotate")
        for folder in former:
            check_opens_nothing(rotating, rotating.keys(folder))
    assert rotating.finish()["completed"]
    rotating.check_whole(undisturbed)


def test_an_agent_that_does_not_answer_is_named_and_nothing_changes(rotating: Rotating) -> None:
    before = rotating.keys().secret
    os.kill(rotating.agents[0].pid, signal.SIGSTOP)
    try:
        refused = rotating.run("token", "--rotate")
    finally:
        os.kill(rotating.agents[0].pid, signal.SIGCONT)
    other = rotating.run("token", "--rotate", host=rotating.cli.directory / "keys of somebody else")
    assert other.returncode == 2 and "have other keys than those in" in other.stderr
    assert refused.returncode == 1 and "no agent has confirmed the new keys on other" in refused.stderr, refused.stderr
    assert rotating.keys().secret == before and not (rotating.folder / "next").exists()
    await_that(lambda: "other" in rotating.hosts(), 120, lambda: "the other agent has not come back")
    rotating.done("token", "--rotate")
    assert before != rotating.keys().secret == rotating.keys(rotating.other_folder).secret
    assert rotating.finish()["completed"], rotating.status()


@pytest.mark.long
def test_a_host_that_was_away_joins_anew(rotating: Rotating) -> None:
    away, reader = (rotating.cli.directory / f"keys of a {who} that was away" for who in ("host", "reader"))
    rotating.done("join", rotating.done("token", "--reader").strip(), host=reader)
    assert "trial" in rotating.done("jobs", "--zookeeper", rotating.zookeeper, host=reader)
    rotating.done("join", rotating.done("token").strip(), host=away)
    rotating.done("token", "--rotate")
    words = ("agent", "--zookeeper", rotating.zookeeper, "--host", "away")
    refused = rotating.run(*words, host=away)
    assert refused.returncode == 2 and "riprap join" in refused.stderr
    refused = rotating.run("jobs", "--zookeeper", rotating.zookeeper, host=reader)
    assert refused.returncode == 2 and "riprap token --reader" in refused.stderr, refused.stderr
    rotating.done("join", rotating.done("token", "--reader").strip(), host=reader)
    assert "trial" in rotating.done("jobs", "--zookeeper", rotating.zookeeper, host=reader)
    rotating.done("join", rotating.done("token").strip(), host=away)
    assert rotating.keys(away).secret == rotating.keys().secret
    assert "trial" in rotating.done("jobs", "--zookeeper", rotating.zookeeper, host=away)
    assert rotating.finish()["completed"]


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
