"""Every part of the control plane is killed or stopped once while a job runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from cluster_harness import PROGRAM, Cluster, await_death, await_that, is_alive, topology

from riprap.codec.errors import ConfigError, JobFailed, RiprapError
from riprap.configs.limits import JobLimits
from riprap.controller import zookeeper
from riprap.controller.client import Client
from riprap.controller.session import disconnect, open_client
from riprap.controller.zookeeper import EmbeddedZooKeeper


def pids(status: dict[str, Any]) -> dict[str, int]:
    """Every worker's process."""
    return {name: worker["pid"] for name, worker in status["workers"].items()}


def incarnations(status: dict[str, Any]) -> list[int]:
    """In the topology's order."""
    return [worker["incarnation"] for worker in status["workers"].values()]


def recovered(status: dict[str, Any]) -> bool:
    """Whether all workers are up, all but the first incarnations included, and count items."""
    return status["phase"] == "RUNNING" and all(w["items"] > 0 for w in status["workers"].values())


def test_a_stopped_worker_is_fenced_and_replaced(cluster: Cluster) -> None:
    cluster.start_both()
    hung = cluster.run(topology())["workers"]["processor.2"]["pid"]
    cluster.kill(hung, signal.SIGSTOP)
    status = cluster.until("a new incarnation", lambda s: incarnations(s) == [1, 1, 1, 2, 1] and recovered(s))
    assert not is_alive(hung), "the old process must be gone before its replacement starts"
    assert [f["reason"] for f in status["failures"]] == ["heartbeat missed"]
    assert cluster.finish()["phase"] == "COMPLETED"


def test_three_workers_killed_at_once(cluster: Cluster) -> None:
    cluster.start_both()
    processes = pids(cluster.run(topology()))
    for name in ("processor.0", "processor.1", "source.0"):
        cluster.kill(processes[name])
    status = cluster.until("all to be back", lambda s: incarnations(s) == [2, 2, 2, 1, 1] and recovered(s))
    assert sorted(f["worker"] for f in status["failures"]) == ["processor.0", "processor.1", "source.0"]


def test_a_job_that_cannot_be_read_is_set_aside_and_no_other_notices(cluster: Cluster, chroot: str) -> None:
    leader, _ = cluster.start_both()
    before = pids(cluster.run(topology()))
    bad = open_client(chroot)
    bad.create("/riprap/jobs/bad/spec", b"\x00scribble", makepath=True)
    try:
        for _ in range(2):  # a restart, and a change of leader
            standby = cluster.start("controller")
            leader.kill()
            log = cluster.log_of(standby)
            await_that("the log to name it", lambda log=log: "job bad is set aside" in log.read_text())
            assert cluster.client.jobs() == {"toy": "RUNNING", "bad": "UNREADABLE"}
            leader = standby
        assert "znode /riprap/jobs/bad/spec holds no job" in cluster.client.status("bad")["error"]
        with pytest.raises(ConfigError, match="job bad is set aside"):
            cluster.client.submit("bad", topology(), str(cluster.run_dir))
        status = cluster.status()
        assert (pids(status), status["failures"]) == (before, [])
        bad.set("/riprap/jobs/toy/state", b"scribble")  # while it runs: found at the next decision
        cluster.kill(before["processor.0"])
        await_that("it to be set aside", lambda: cluster.client.jobs()["toy"] == "UNREADABLE")
        await_death(*before.values())
        for name in ("bad", "toy"):
            cluster.client.forget(name)
        assert cluster.client.jobs() == {} and bad.get_children("/riprap/jobs") == []
    finally:
        disconnect(bad)


def test_forty_workers_killed_at_once(cluster: Cluster) -> None:
    _, agent = cluster.start_both()
    processes = pids(cluster.run(topology(processors=38)))
    cluster.kill(agent.pid, signal.SIGSTOP)  # it finds them all dead at one look
    for pid in processes.values():
        cluster.kill(pid)
    cluster.kill(agent.pid, signal.SIGCONT)
    status = cluster.until("all to be back", lambda s: incarnations(s) == [2] * 40 and recovered(s), patience_s=60.0)
    assert {(f["worker"], f["incarnation"]) for f in status["failures"]} == {(worker, 1) for worker in processes}
    for worker in processes:
        log = cluster.run_dir / "logs" / f"{worker}.log"
        assert log.read_text().splitlines() == [f"{worker} #1 starts", f"{worker} #2 starts"]
    assert cluster.finish()["phase"] == "COMPLETED"


def test_kill_through_the_client(cluster: Cluster) -> None:
    cluster.start_both()
    status = cluster.run(topology())
    killed = cluster.client.kill("toy", "sink.0")
    assert killed == {"incarnation": 1, "pid": pids(status)["sink.0"]}
    cluster.until("the sink's second incarnation", lambda s: incarnations(s) == [1, 1, 1, 1, 2] and recovered(s))
    with pytest.raises(ConfigError, match=r"sink\.7 of job toy does not run"):
        cluster.client.kill("toy", "sink.7")


def test_a_dead_agent_takes_its_workers_along_and_another_takes_over(cluster: Cluster) -> None:
    _, agent = cluster.start_both()
    cluster.start("agent", "h2")
    cluster.await_agents("h1", "h2")
    status = cluster.run(topology())
    on_h1 = [name for name, worker in status["workers"].items() if worker["host"] == "h1"]
    assert len(on_h1) in (2, 3), "tasks are dealt out in turn"
    agent.kill()
    await_death(*(pids(status)[name] for name in on_h1))
    status = cluster.until(
        "all to be on h2", lambda s: recovered(s) and all(w["host"] == "h2" for w in s["workers"].values())
    )
    assert {f["worker"] for f in status["failures"]} == set(on_h1)
    assert {f["reason"] for f in status["failures"]} <= {"host gone", "heartbeat missed"}
    assert cluster.finish()["phase"] == "COMPLETED"


def test_a_host_is_killed_through_the_client_with_its_agent(cluster: Cluster) -> None:
    cluster.start_both()
    agent = cluster.start("agent", "h2")
    cluster.await_agents("h1", "h2")
    status = cluster.run(topology())
    on_h2 = [name for name, worker in status["workers"].items() if worker["host"] == "h2"]
    assert cluster.client.kill("toy", "domain:host=h2") == {"workers": on_h2, "hosts": ["h2"]}
    assert agent.wait(60) == -signal.SIGKILL
    await_death(*(pids(status)[name] for name in on_h2))
    cluster.until("all to be on h1", lambda s: recovered(s) and {w["host"] for w in s["workers"].values()} == {"h1"})
    with pytest.raises(ConfigError, match="there is no host h2; there are: h1"):
        cluster.client.kill("toy", "host:h2")
    assert cluster.finish()["phase"] == "COMPLETED"


def test_a_new_agent_of_the_same_host_resumes(cluster: Cluster) -> None:
    _, agent = cluster.start_both()
    cluster.run(topology())
    agent.kill()
    cluster.start("agent", "h1")
    status = cluster.until("second incarnations", lambda s: incarnations(s) == [2] * 5 and recovered(s))
    assert len(status["failures"]) == 5


def test_a_dead_zygote_is_replaced(cluster: Cluster) -> None:
    _, agent = cluster.start_both()
    before = pids(cluster.run(topology()))
    (zygote,) = psutil.Process(agent.pid).children()
    cluster.kill(zygote.pid)
    await_death(*before.values())
    status = cluster.until("second incarnations", lambda s: incarnations(s) == [2] * 5 and recovered(s))
    assert len(status["failures"]) == 5
    assert cluster.finish()["phase"] == "COMPLETED"


def test_a_standby_replaces_a_killed_controller(cluster: Cluster) -> None:
    leader, _ = cluster.start_both()
    before = cluster.run(topology())
    cluster.start("controller")
    leader.kill()
    status = cluster.until("another leader", lambda s: s["controller"] != before["controller"])
    assert pids(status) == pids(before), "workers must not notice"
    assert (status["phase"], status["failures"]) == ("RUNNING", [])
    cluster.kill(pids(before)["processor.0"])
    status = cluster.until(
        "a replacement by the new leader", lambda s: incarnations(s) == [1, 2, 1, 1, 1] and recovered(s)
    )
    assert cluster.finish()["phase"] == "COMPLETED"


def test_a_worker_that_dies_while_no_one_leads_is_replaced(cluster: Cluster) -> None:
    leader, _ = cluster.start_both()
    before = cluster.run(topology())
    cluster.kill(leader.pid)
    cluster.kill(pids(before)["processor.1"])
    cluster.start("controller")
    status = cluster.until("its replacement", lambda s: incarnations(s) == [1, 1, 2, 1, 1] and recovered(s))
    assert [(f["worker"], f["incarnation"]) for f in status["failures"]] == [("processor.1", 1)]


def test_a_controller_that_hangs_is_replaced_and_does_no_harm_later(cluster: Cluster) -> None:
    leader, _ = cluster.start_both()
    before = cluster.run(topology())
    cluster.start("controller")
    cluster.kill(leader.pid, signal.SIGSTOP)
    cluster.until("another leader", lambda s: s["controller"] != before["controller"])
    cluster.kill(pids(before)["processor.0"])
    cluster.until("a replacement by the new leader", lambda s: incarnations(s) == [1, 2, 1, 1, 1] and recovered(s))
    cluster.kill(leader.pid, signal.SIGCONT)
    log = Path(cluster.log_of(leader))
    await_that("the old leader to step down", lambda: "leading no more" in log.read_text())
    status = cluster.status()
    assert incarnations(status) == [1, 2, 1, 1, 1]
    assert cluster.finish()["phase"] == "COMPLETED"


def test_deaths_during_start_up_are_survived(cluster: Cluster) -> None:
    cluster.start_both()
    status = cluster.run(topology(toy={"processor.1": {"exits_at_start": 2}}))
    assert incarnations(status) == [1, 1, 3, 1, 1]
    assert [f["reason"] for f in status["failures"]] == ["exited"] * 2


def test_a_worker_that_dies_again_and_again_fails_the_job(cluster: Cluster) -> None:
    cluster.start_both()
    cluster.submit(topology(toy={"processor.1": {"exits_at_start": 1000}}))
    with pytest.raises(JobFailed, match=r"restart storm: processor\.1 died \d+ times.*exit status 3") as raised:
        cluster.client.wait("toy", timeout_s=120)
    # a death counts as its own doing once its status is known, which may come after the next incarnation was begun
    died = cluster.status()["workers"]["processor.1"]["incarnation"]
    assert f"died {died} times" in str(raised.value) and 3 <= died <= JobLimits().restarts_max + 1


def test_an_operator_error_fails_the_job_at_once(cluster: Cluster) -> None:
    cluster.start_both()
    cluster.submit(topology(toy={"processor.0": {"raises": "ValueError: bad row"}}))
    with pytest.raises(JobFailed, match=r"worker failed: processor\.0: ValueError: bad row") as error:
        cluster.client.wait("toy", timeout_s=120)
    assert error.value.remedy == "mend the operator"
    status = cluster.status()
    assert status["workers"]["processor.0"]["incarnation"] == 1, "it must not be restarted"
    await_death(*(pid for pid in pids(status).values() if pid))


def test_a_worker_that_never_gets_ready_fails_the_job(cluster: Cluster) -> None:
    cluster.start_both()
    cluster.await_agents("h1")
    cluster.submit(topology(cluster={"startup_timeout_s": 0.5}, toy={"sink.0": {"never_ready": True}}))
    with pytest.raises(JobFailed, match=r"start-up deadline: sink\.0 is not ready 0\.5 s after its start"):
        cluster.client.wait("toy", timeout_s=120)


def test_cancel_stops_the_workers(cluster: Cluster) -> None:
    cluster.start_both()
    before = cluster.run(topology())
    cluster.client.cancel("toy")
    status = cluster.client.wait("toy", timeout_s=120)
    assert (status["phase"], status["failures"]) == ("CANCELLED", [])
    await_death(*pids(before).values())


def test_a_controller_that_is_told_to_stop_hands_over_at_once(cluster: Cluster) -> None:
    leader, _ = cluster.start_both()
    before = cluster.run(topology())
    standby = cluster.start("controller")
    await_that("the standby", lambda: "ready to lead" in cluster.log_of(standby).read_text())
    leader.terminate()
    assert leader.wait(120) == 0
    status = cluster.until("the standby to lead", lambda s: s["controller"] != before["controller"])
    assert pids(status) == pids(before)


def test_an_agent_that_is_told_to_stop_leaves_nothing_behind(cluster: Cluster) -> None:
    _, agent = cluster.start_both()
    before = cluster.run(topology())
    family = {child.pid for child in psutil.Process(agent.pid).children(recursive=True)}
    agent.terminate()
    assert agent.wait(120) == 0
    await_death(*family)
    cluster.until("the loss to be seen", lambda s: len(s["failures"]) == len(before["workers"]))
    assert cluster.client.agents() == {}


def test_a_workers_lives_share_one_log(cluster: Cluster) -> None:
    cluster.start_both()
    cluster.kill(pids(cluster.run(topology()))["sink.0"])
    cluster.until("its second incarnation", lambda s: incarnations(s) == [1, 1, 1, 1, 2] and recovered(s))
    log = cluster.run_dir / "logs" / "sink.0.log"
    assert log.read_text().splitlines() == ["sink.0 #1 starts", "sink.0 #2 starts"]
    (exit_event,) = cluster.events("exited")
    assert (exit_event["worker"], exit_event["incarnation"]) == ("sink.0", 1)
    assert exit_event["status"] in (-9, None), "None when the host is too busy to tell at once"


def test_the_same_name_again_after_the_end(cluster: Cluster) -> None:
    cluster.start_both()
    cluster.run(topology())
    cluster.submit(topology())  # the same job: nothing happens
    with pytest.raises(ConfigError, match="job toy is RUNNING already"):
        cluster.submit(topology(processors=2))
    cluster.finish()
    (cluster.run_dir / "finish").unlink()
    status = cluster.run(topology(processors=2))
    assert incarnations(status) == [2, 2, 2, 2], "an older process of that name must be recognisable"
    assert all(worker["restarts"] == 0 for worker in status["workers"].values())


def test_zookeeper_away_for_a_while_stops_nothing(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server, Cluster(server.connect_string, tmp_path) as cluster:
        cluster.start_both()
        before = cluster.run(topology())
        client = cluster.client
        endpoint = before["controller"]
        server.kill()
        killed = pids(before)["processor.0"]
        cluster.kill(killed)
        views = cluster.run_dir / "sink.0.view"
        await_that("the loss to be announced", lambda: b"RECOVERING" in views.read_bytes())
        until_s = cluster.seconds_worked(endpoint, "processor.1") + 5.0
        await_that("5 s of items", lambda: cluster.seconds_worked(endpoint, "processor.1") > until_s)
        status = cluster.status_at(endpoint)
        assert status["workers"]["processor.0"]["pid"] == 0, "no incarnation may start before it is durable"
        server.start()
        status = cluster.until("its replacement", lambda s: incarnations(s) == [1, 2, 1, 1, 1] and recovered(s))
        assert status["controller"] == endpoint
        assert [f["worker"] for f in status["failures"]] == ["processor.0"]
        others = {name: pid for name, pid in pids(status).items() if name != "processor.0"}
        assert others == {name: pid for name, pid in pids(before).items() if name != "processor.0"}
        assert client.agents().keys() == {"h1"}
        assert cluster.finish()["phase"] == "COMPLETED"


def test_nothing_outlives_a_killed_launcher(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "launcher", str(tmp_path / "zookeeper")]
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert launcher.stdout is not None
        zookeeper, *numbers = launcher.stdout.readline().decode().split()
        with Cluster(zookeeper, tmp_path) as cluster:
            status = cluster.run(topology())
            family = {int(number) for number in numbers} | {launcher.pid} | set(pids(status).values())
            family |= {child.pid for child in psutil.Process(launcher.pid).children(recursive=True)}
            assert len(family) >= 4 + 1 + 5, "launcher, ZooKeeper, controller, agent; zygote; workers"
            launcher.kill()
            await_death(*family)
    finally:
        launcher.kill()
        launcher.wait()


def test_requests_without_a_controller_say_so(chroot: str) -> None:
    with Client(chroot, timeout_s=0.3) as client, pytest.raises(RiprapError, match="no controller leads") as error:
        client.jobs()
    assert error.value.remedy


def test_an_agent_waits_for_the_session_of_its_predecessor_however_long_servers_grant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session lasts two ticks at least; ours are of half a second, those of many ensembles of two."""
    monkeypatch.setattr(zookeeper, "CONFIG", zookeeper.CONFIG.replace("tickTime=500", "tickTime=4000"))
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server, Cluster(server.connect_string, tmp_path) as cluster:
        _, first = cluster.start_both()
        cluster.await_agents("h1")
        cluster.kill(first.pid)
        first.wait()
        second = cluster.start("agent", "h1")

        def has_joined() -> bool:
            assert second.poll() is None, cluster.log_of(second).read_text()
            return bool(cluster.client.agents().get("h1", {}).get("pid") == second.pid)

        await_that("the second agent", has_joined)


def test_a_second_agent_of_a_name_is_refused(cluster: Cluster) -> None:
    cluster.start_both()
    cluster.await_agents("h1")
    second = cluster.start("agent", "h1")
    assert second.wait(120) == 2
    assert "another agent is registered as h1" in Path(cluster.log_of(second)).read_text()


@pytest.mark.parametrize(("first", "second"), [(["h1"], ["h2", ""]), (["h1", ""], ["h2"])])
def test_agents_whose_workers_could_not_meet_are_refused_at_once(
    cluster: Cluster, first: list[str], second: list[str]
) -> None:
    cluster.start("controller")
    cluster.start("agent", *first)
    cluster.await_agents("h1")
    late = cluster.start("agent", *second)
    assert late.wait(120) == 2
    alone = "h1" if "" in first else "h2"
    said = Path(cluster.log_of(late)).read_text()
    assert f"cannot reach those of host {alone}, whose agent was given no address" in said
    assert f"of {alone} with --address IP" in said
    assert cluster.client.agents().keys() == {"h1"}
