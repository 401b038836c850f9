"""The control plane on real processes that are killed, stopped and cut off; workers are toys."""

from __future__ import annotations

from cluster_harness import Cluster, await_death, topology


def test_a_job_runs_and_completes(cluster: Cluster) -> None:
    cluster.start_both()
    status = cluster.run(topology())
    pids = [worker["pid"] for worker in status["workers"].values()]
    assert [worker["incarnation"] for worker in status["workers"].values()] == [1] * 5
    status = cluster.finish()
    assert status["phase"] == "COMPLETED"
    assert status["failures"] == []
    assert status["workers"]["sink.0"]["stats"]["finished"] is True
    await_death(*pids)
    assert [event["phase"] for event in cluster.events("phase")] == ["DEPLOYING", "RUNNING", "FINISHING", "COMPLETED"]


def test_a_killed_worker_is_replaced(cluster: Cluster) -> None:
    cluster.start_both()
    before = cluster.run(topology())["workers"]["processor.1"]
    cluster.kill(before["pid"])
    status = cluster.until(
        "its second incarnation's items",
        lambda s: s["workers"]["processor.1"]["incarnation"] == 2 and s["workers"]["processor.1"]["items"] > 0,
    )
    (failure,) = status["failures"]
    assert (failure["worker"], failure["incarnation"], failure["reason"]) == ("processor.1", 1, "killed by signal")
    assert failure["detected_at"] < failure["respawned_at"] < failure["restored_at"] < failure["first_item_at"]
    assert status["past"]["processor.1#1"]["items"] >= before["items"]
    assert status["workers"]["processor.1"]["restarts"] == 1
    assert all(w["incarnation"] == 1 for name, w in status["workers"].items() if name != "processor.1")
    assert cluster.finish()["phase"] == "COMPLETED"
