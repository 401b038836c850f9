"""The core's decisions, one case each: inputs by hand, actions as they come out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from core_driver import SINK, SOURCE, TOPOLOGY, Driver, running

from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller.actions import Purge, Reply, Send
from riprap.controller.completeness import Account
from riprap.controller.core import TAKEOVER_S, Core
from riprap.controller.jobspec import JobSpec
from riprap.controller.last_words import LastWords
from riprap.controller.reports import EXITED, STARTING, UP, AgentReport, WorkerReport
from riprap.controller.steps import Announce, Fence, Respawn, Step, Unrecoverable, restart_lost
from riprap.controller.view import View


def test_nothing_is_started_before_its_incarnation_is_durable() -> None:
    driver = running()
    driver.confirm = False
    driver.hear(sink_0={"state": EXITED, "status": -9})
    assert driver.wanted == {"source.0": 1}
    assert driver.persists[-1].record.tasks[SINK].incarnation == 2
    driver.take(driver.core.persisted("job", driver.persists[-1].record, driver.now))
    assert driver.wanted == {"source.0": 1, "sink.0": 2}


def test_a_write_that_fails_is_tried_again() -> None:
    driver = running()
    driver.confirm = False
    driver.hear(sink_0={"state": EXITED})
    tries = len(driver.persists)
    driver.take(driver.core.persist_failed("job", driver.now))
    driver.pass_time(0.05)
    assert len(driver.persists) == tries, "not at once"
    driver.pass_time(0.1)
    assert len(driver.persists) == tries + 1


def test_a_submit_is_answered_when_it_is_durable_and_twice_is_once() -> None:
    driver = Driver()
    assert [reply.ticket for reply in driver.replies] == ["t"]
    driver.take(driver.core.submit("again", JobSpec.read("job", dict(TOPOLOGY), "/run", "second"), driver.now))
    assert [reply.ticket for reply in driver.replies] == ["t", "again"]
    with pytest.raises(ConfigError, match="is DEPLOYING already"):
        driver.core.submit("other", JobSpec.read("job", TOPOLOGY, "/elsewhere"), driver.now)


def test_of_a_job_that_has_ended_it_is_said_how() -> None:
    driver = running()
    driver.take(driver.core.cancel("c", "job", driver.now))
    assert driver.replies[-1].result["ended"] == "", "it ends now"
    driver.hear(source_0={"state": EXITED}, sink_0={"state": EXITED})
    driver.take(driver.core.cancel("again", "job", driver.now))
    driver.take(driver.core.drain("drain", "job", driver.now))
    assert [reply.result["ended"] for reply in driver.replies[-2:]] == ["CANCELLED", "CANCELLED"]
    with pytest.raises(ConfigError, match=r"source\.0 of job job does not run now, as that is CANCELLED"):
        driver.core.kill("k", "job", "source.0")


def test_an_ended_job_is_run_again_when_it_is_asked_for_anew() -> None:
    driver = running()
    driver.take(driver.core.cancel("c", "job", driver.now))
    driver.hear(source_0={"state": EXITED}, sink_0={"state": EXITED})
    assert driver.status["phase"] == "CANCELLED"
    driver.take(driver.core.submit("late", JobSpec.read("job", TOPOLOGY, "/run", "first"), driver.now))
    assert driver.status["phase"] == "CANCELLED", "the first request, made again"
    driver.take(driver.core.submit("new", JobSpec.read("job", TOPOLOGY, "/run", "second"), driver.now))
    assert driver.status["phase"] == "DEPLOYING"
    assert driver.wanted == {"source.0": 2, "sink.0": 2}


def test_a_job_is_forgotten_when_its_nodes_are_gone_and_only_after_its_end() -> None:
    driver = running()
    with pytest.raises(ConfigError, match="job job is RUNNING"):
        driver.core.forget("f", "job")
    driver.hear(sink_0={"done": True})
    driver.hear(source_0={"state": EXITED}, sink_0={"state": EXITED})
    assert driver.core.forget("f", "job") == [Purge("job")] and driver.core.forget("again", "job") == []
    with pytest.raises(ConfigError, match="is being forgotten"):
        driver.core.submit("s", JobSpec.read("job", TOPOLOGY, "/run", "second"), driver.now)
    driver.core.purge_failed("job")
    assert driver.core.forget("once more", "job") == [Purge("job")]
    assert [reply.ticket for reply in driver.core.purged("job")] == ["once more"]
    with pytest.raises(ConfigError, match="there is no job job"):
        driver.core.status("job")


def test_a_job_that_has_ended_is_forgotten_once_that_is_durable() -> None:
    """Whoever heard of its end elsewhere may ask before: it is no error, and needs no second request."""
    driver = running()
    driver.hear(sink_0={"done": True})
    driver.confirm = False
    driver.hear(source_0={"state": EXITED}, sink_0={"state": EXITED})
    while driver.core.jobs["job"].phase != "COMPLETED":
        driver.take(driver.core.persisted("job", driver.persists[-1].record, driver.now))
    assert driver.core.forget("f", "job") == []
    found = driver.core.persisted("job", driver.persists[-1].record, driver.now)
    assert Purge("job") in found
    assert [reply.ticket for reply in driver.core.purged("job")] == ["f"]


def test_a_new_job_goes_on_behind_the_incarnations_that_agents_still_tell_of() -> None:
    driver = running()
    driver.hear(sink_0={"incarnation": 1, "state": EXITED})
    driver.hear(sink_0={"incarnation": 2, "state": UP})
    driver.hear(source_0={"state": EXITED}, sink_0={"state": EXITED, "done": True})
    driver.pass_time(0.1)
    assert driver.status["phase"] == "COMPLETED"
    driver.core.forget("f", "job")
    driver.core.purged("job")
    driver.take(driver.core.submit("s", JobSpec.read("job", TOPOLOGY, "/run", "second"), driver.now))
    assert driver.wanted == {"source.0": 2, "sink.0": 3}


def test_a_view_shows_each_change_with_a_larger_revision() -> None:
    driver = running()
    driver.hear(sink_0={"state": EXITED, "status": 1})
    driver.hear(sink_0={"incarnation": 2, "state": UP, "ipc": "ipc://new"})
    views = [message["jobs"]["job"]["view"] for message in driver.sent if message["jobs"]]
    revisions = [view["revision"] for view in views]
    assert revisions == sorted(revisions)
    sink = [
        (view["phase"], view["workers"]["sink.0"]["incarnation"], view["workers"]["sink.0"]["state"]) for view in views
    ]
    expected = [("RUNNING", 1, "up"), ("RECOVERING", 2, "starting"), ("RUNNING", 2, "up")]
    assert [entry for entry in dict.fromkeys(sink) if entry[0] != "DEPLOYING"] == expected
    assert views[-1]["workers"]["sink.0"]["ipc"] == "ipc://new"


def test_a_plan_decides_what_is_survivable() -> None:
    def refuse(view: View, lost: Collection[WorkerId]) -> list[Step]:
        assert view.workers[SINK].state == "up", "the view is that of the moment before"
        raise Unrecoverable(SINK, "its model is lost", "use scheme erasure")

    driver = running(plan=refuse)
    driver.hear(sink_0={"state": EXITED})
    assert driver.status["phase"] == "FAILED"
    assert driver.status["error"] == "unrecoverable loss: sink.0: its model is lost"
    assert driver.status["remedy"] == "use scheme erasure"
    assert driver.wanted == {}


def test_a_plan_that_raises_ends_its_job_only() -> None:
    def broken(view: View, lost: Collection[WorkerId]) -> list[Step]:
        raise ZeroDivisionError("oops")

    driver = running(plan=broken)
    driver.hear(sink_0={"state": EXITED})
    assert "ZeroDivisionError" in driver.status["error"]


def test_without_announce_a_replacement_stays_hidden() -> None:
    def quiet(view: View, lost: Collection[WorkerId]) -> list[Step]:
        return [step for worker in lost for step in (Fence(worker), Respawn(worker))]

    driver = running(plan=quiet)
    driver.hear(sink_0={"state": EXITED})
    driver.hear(sink_0={"incarnation": 2, "state": UP})
    assert driver.status["workers"]["sink.0"]["state"] == "starting"


def test_the_default_plan_is_fence_respawn_announce_for_each() -> None:
    view = View(1, "RUNNING")
    assert restart_lost(view, [SOURCE, SINK]) == [
        *(Fence(SINK), Respawn(SINK), Announce(SINK)),
        *(Fence(SOURCE), Respawn(SOURCE), Announce(SOURCE)),
    ]


def test_all_sinks_done_means_stop_then_completed() -> None:
    driver = running()
    driver.hear(sink_0={"done": True})
    assert driver.status["phase"] == "FINISHING"
    assert driver.sent[-1]["jobs"]["job"]["stopping"] is True
    driver.hear(source_0={"state": EXITED, "status": 0}, sink_0={"state": EXITED, "status": 0})
    assert driver.status["phase"] == "COMPLETED"
    assert driver.status["failures"] == [], "an exit that was asked for is no failure"


def test_a_death_at_the_very_end_is_noted_though_nothing_is_done_about_it() -> None:
    driver = running()
    driver.hear(source_0={"state": EXITED, "status": -9}, sink_0={"done": True})
    assert driver.status["phase"] == "FINISHING"
    driver.hear(sink_0={"state": EXITED, "status": -9})
    assert driver.status["phase"] == "COMPLETED"
    noted = [(failure["worker"], failure["reason"], failure["respawned_at"]) for failure in driver.status["failures"]]
    assert noted == [("source.0", "killed by signal", None), ("sink.0", "killed by signal", None)]


DEADLINES = {"cluster": {f"{name}_timeout_s": s for name, s in (("startup", 3), ("recovery", 9), ("finishing", 2))}}


@pytest.mark.parametrize(
    ("history", "wait_s", "error"),
    [
        ([{"source_0": {"state": STARTING}}], 3.1, "start-up deadline: source.0 is not ready 3 s after its start"),
    ],
)
def test_every_wait_has_an_end(history: list[dict[str, Any]], wait_s: float, error: str) -> None:
    driver = Driver(topology={**TOPOLOGY, **DEADLINES})
    for changes in history:
        driver.hear(**changes)
    driver.pass_time(wait_s - 0.4)
    assert driver.status["phase"] != "FAILED"
    driver.pass_time(0.5)
    assert driver.status["phase"] == "FAILED"
    assert error in driver.status["error"]
    assert driver.status["remedy"]


def test_a_complete_job_waits_for_its_workers_ends_but_not_for_ever() -> None:
    driver = running(topology={**TOPOLOGY, **DEADLINES})
    driver.hear(sink_0={"done": True})
    driver.pass_time(1.7)
    assert driver.status["phase"] == "FINISHING"
    driver.pass_time(0.5)
    assert driver.status["phase"] == "COMPLETED" and driver.wanted == {}, "who still runs is killed"


SCHEMAS = {"rows": {"items": 1000}, "blocks": {"items": 1000, "windows": 5}}


@pytest.mark.parametrize(
    ("kind", "said", "amiss"),
    [
        ("rows", {"epoch": 5, "accounted": 1000}, ""),
        ("rows", {"epoch": 5, "accounted": 999}, "999 of 1,000 items are accounted for"),
        ("rows", {"epoch": 5, "accounted": 1001}, "1,001 of 1,000 items are accounted for"),
        ("rows", {}, "0 of 1,000 items are accounted for"),
        ("blocks", {"epoch": 5, "accounted": 1000}, ""),
        ("blocks", {"epoch": 4, "accounted": 1000}, "a destination has closed 4 of 5 windows"),
        ("blocks", {"epoch": 5, "accounted": 800}, "800 of 1,000 items are accounted for"),
    ],
)
def test_a_job_is_complete_when_what_its_sinks_committed_adds_up(kind: str, said: dict[str, int], amiss: str) -> None:
    driver = running(topology={**TOPOLOGY, "schema": SCHEMAS[kind]})
    driver.hear(sink_0={"done": True, **said})
    assert driver.status["phase"] == ("FAILED" if amiss else "FINISHING")
    assert amiss in driver.status["error"]


def test_without_fault_tolerance_a_job_of_blocks_accounts_for_windows_alone() -> None:
    topology = {**TOPOLOGY, "schema": SCHEMAS["blocks"], "fault_tolerance": {"scheme": "none"}}
    driver = running(topology=topology)
    driver.hear(sink_0={"done": True, "epoch": 5, "accounted": 800})
    assert driver.status["phase"] == "FINISHING"


@pytest.mark.parametrize(("items", "phase"), [(1000, "COMPLETED"), (999, "FAILED")])
def test_a_job_whose_sinks_have_left_their_last_words_does_not_fail(items: int, phase: str) -> None:
    words: list[LastWords] = []
    topology = {**TOPOLOGY, **DEADLINES, "schema": SCHEMAS["rows"]}
    driver = running(topology=topology, last_words=lambda run_dir, sink: words[0] if words else None)
    driver.take(driver.core.members({}, driver.now))
    driver.pass_time(1.1)
    words.append(LastWords(SINK, Incarnation(1), Account(5, items), {"metrics": {"loss": 0.5}}))
    driver.pass_time(9.1)
    assert driver.status["phase"] == phase
    assert driver.status["workers"]["sink.0"]["stats"] == ({"metrics": {"loss": 0.5}} if items == 1000 else {})
    assert bool(driver.status["error"]) == (phase == "FAILED")


def test_a_recovery_that_finds_no_agent_ends_and_says_so() -> None:
    driver = running(topology={**TOPOLOGY, **DEADLINES})
    driver.take(driver.core.members({}, driver.now))
    driver.pass_time(1.1)
    assert [f["reason"] for f in driver.status["failures"]] == ["host gone"] * 2
    driver.pass_time(9.1)
    assert "was lost and is not back after 9 s: no agent is there to run it" in driver.status["error"]


def test_an_agent_without_a_session_that_goes_on_reporting_is_not_gone() -> None:
    driver = running(topology={**TOPOLOGY, "cluster": {"heartbeat_timeout_s": 1000}})
    driver.take(driver.core.members({}, driver.now))
    for _ in range(20):
        driver.hear(sink_0={"state": UP})
        driver.pass_time(0.5)
    assert driver.status["failures"] == [] and driver.status["phase"] == "RUNNING"
    driver.take(driver.core.members({"h1": "i1"}, driver.now))
    assert driver.status["failures"] == []
    driver.take(driver.core.members({"h1": "another"}, driver.now))
    assert [f["reason"] for f in driver.status["failures"]] == ["host gone"] * 2, "its name is another's now"


def test_a_new_leader_waits_for_agents_whose_sessions_ended_with_the_old_one() -> None:
    old = running()
    stored = {"job": (old.persists[-1].spec, old.core.jobs["job"].record())}
    core = Core(2, "new", lambda topology: restart_lost, stored, {}, now=100.0)
    core.tick(101.0)
    assert core.status("job")["failures"] == []
    rows = [WorkerReport("job", "source.0", 1, UP), WorkerReport("job", "sink.0", 1, UP)]
    core.report(AgentReport("h1", "i1", 1, rows=rows), 101.5)
    core.tick(102.0)
    assert core.status("job")["failures"] == [] and core.status("job")["phase"] == "RUNNING"


def test_a_job_waits_for_a_first_agent_but_not_for_ever() -> None:
    core = Core(1, "me", lambda topology: restart_lost, {}, {}, now=0.0)
    core.submit("t", JobSpec.read("job", TOPOLOGY, "/run"), 0.0)
    core.tick(29.0)
    assert core.status("job")["phase"] == "SUBMITTED"
    core.tick(31.0)
    assert "no agent has joined within 30 s" in core.jobs["job"].error


def test_a_new_leader_holds_still_until_the_agents_have_reported() -> None:
    old = running()
    stored = {"job": (old.persists[-1].spec, old.core.jobs["job"].record())}
    core = Core(2, "new", lambda topology: restart_lost, stored, {"h1": "i1", "h2": "i2"}, now=100.0)
    rows = [WorkerReport("job", "source.0", 1, UP), WorkerReport("job", "sink.0", 1, UP)]
    report = AgentReport("h1", "i1", 1, revisions={"job": 41}, rows=rows)
    assert core.report(report, 100.1) == []
    assert core.status("job")["phase"] == "RUNNING"
    sends = [action for action in core.report(AgentReport("h2", "i2", 1), 100.2) if isinstance(action, Send)]
    view = next(send.message["jobs"]["job"]["view"] for send in sends if send.instance == "i1")
    assert view["revision"] > 41, "workers must take it for newer than the last of the former leader"
    assert core.status("job")["failures"] == []


def test_a_new_leader_does_not_wait_for_ever() -> None:
    old = running()
    stored = {"job": (old.persists[-1].spec, old.core.jobs["job"].record())}
    core = Core(2, "new", lambda topology: restart_lost, stored, {"h9": "i9"}, now=100.0)
    assert core.tick(100.0 + TAKEOVER_S - 0.1) == []
    assert core.tick(100.0 + TAKEOVER_S + 0.1) != []
    assert {f["reason"] for f in core.status("job")["failures"]} == {"host gone"}


def test_the_replacements_times_are_copied_once_they_are_there() -> None:
    driver = running()
    driver.hear(sink_0={"state": EXITED, "status": -9})
    assert driver.status["failures"][0]["detected_at"] == driver.now
    unset = {"first_item_at": 0.0, "caught_up_at": None}
    driver.hear(sink_0={"incarnation": 2, "state": UP, "started_at": 50.0, "ready_at": 51.0, "stats": unset})
    driver.hear(sink_0={"stats": {"first_item_at": 52.0, "caught_up_at": 0.0}})
    driver.hear(sink_0={"stats": {"first_item_at": 99.0, "caught_up_at": 53.0}})
    (failure,) = driver.status["failures"]
    assert [failure[f"{name}_at"] for name in ("respawned", "restored", "first_item", "caught_up")] == [
        50.0,
        51.0,
        52.0,
        53.0,
    ]


def test_deaths_with_progress_between_them_are_no_storm() -> None:
    driver = running()
    for incarnation in range(1, 40):
        driver.hear(sink_0={"incarnation": incarnation, "state": UP, "items": 5})
        driver.hear(sink_0={"state": EXITED})
    assert driver.status["workers"]["sink.0"]["incarnation"] == 40
    assert driver.status["phase"] == "RECOVERING"


def test_fruitless_deaths_are_a_storm_within_their_window_only() -> None:
    def die(times: int, pause_s: float) -> Driver:
        waits = dict.fromkeys(("heartbeat_timeout_s", "recovery_timeout_s", "stall_timeout_s"), 1000)
        driver = running(topology={**TOPOLOGY, "cluster": waits})
        for incarnation in range(1, times + 1):
            driver.pass_time(pause_s)
            driver.hear(sink_0={"incarnation": incarnation, "state": EXITED})
        return driver

    assert die(10, 0.0).status["phase"] == "RECOVERING"
    assert "died 11 times" in die(11, 0.0).status["error"]
    assert die(20, 7.0).status["phase"] == "RECOVERING"


def test_the_time_of_a_long_call_is_no_stall() -> None:
    driver = running(topology={**TOPOLOGY, "cluster": {"stall_timeout_s": 5, "heartbeat_timeout_s": 1000}})
    driver.hear(source_0={"state": UP, "call": "read"})
    driver.pass_time(100)
    assert driver.status["phase"] == "RUNNING" and driver.status["workers"]["source.0"]["call"] == "read"
    driver.hear(source_0={"call": ""})
    driver.pass_time(4.8)
    assert driver.status["phase"] == "RUNNING"
    driver.pass_time(0.3)
    assert driver.status["phase"] == "FAILED"


def test_a_finishing_job_does_not_wait_for_a_long_call() -> None:
    driver = running()
    driver.hear(source_0={"call": "read"}, sink_0={"done": True})
    driver.pass_time(0.1)
    assert driver.status["phase"] == "FINISHING" and driver.wanted == {"sink.0": 1}
    driver.hear(source_0={"state": EXITED, "status": -9}, sink_0={"state": EXITED})
    assert driver.status["phase"] == "COMPLETED" and driver.status["failures"] == []


def test_the_remedy_for_a_worker_that_never_answers_is_not_its_log() -> None:
    waits = {"heartbeat_timeout_s": 1, "stall_timeout_s": 1000}
    driver = running(topology={**TOPOLOGY, "cluster": waits})
    for second in range(1, 12):
        driver.hear(sink_0={"incarnation": second, "state": UP})
        for tenth in range(11):
            driver.hear(source_0={"beat": 11 * second + tenth})
    assert driver.status["phase"] == "FAILED"
    assert "heartbeat missed" in driver.status["error"] and "(GIL)" in driver.status["remedy"]


def test_a_worker_that_ends_itself_is_given_up_sooner_than_one_that_is_killed() -> None:
    def die(times: int, status: int) -> Driver:
        driver = running()
        for incarnation in range(1, times + 1):
            place = {"crashed_at": "f (m.py:1)"} if status < 0 else {}
            driver.hear(sink_0={"incarnation": incarnation, "state": EXITED, "status": status, **place})
        return driver

    assert die(2, -11).status["phase"] == "RECOVERING"
    assert die(10, -9).status["phase"] == "RECOVERING"
    crashed = die(3, -11).status
    assert "sink.0 died 3 times" in crashed["error"] and "signal SIGSEGV in f (m.py:1)" in crashed["error"]
    assert crashed["remedy"] == "correct that line; /run/logs/sink.0.log says where all threads were"
    assert [failure["ended"] for failure in crashed["failures"]] == ["signal SIGSEGV in f (m.py:1)"] * 3
    assert "exit status 3" in die(3, 3).status["error"]


def test_requests_about_what_is_not_there_are_refused() -> None:
    core = running().core
    for request in (
        lambda: core.status("x"),
        lambda: core.cancel("t", "x", 0.0),
        lambda: core.kill("t", "job", "sink.9"),
    ):
        with pytest.raises(RiprapError) as error:
            request()
        assert error.value.remedy


def test_a_job_that_the_controller_fails_at_is_set_aside_alone() -> None:
    driver = running()
    driver.take(driver.core.submit("o", JobSpec.read("odd", TOPOLOGY, "/odd"), driver.now))
    driver.core.jobs["odd"].failures.append({"worker": "sink.0", "incarnation": 1})  # what a record may hold
    driver.hear(sink_0={"state": UP})
    assert driver.core.phases() == {"job": "RUNNING", "odd": "UNREADABLE"}
    assert "odd" not in driver.sent[-1]["jobs"], "its workers are killed"
    assert driver.core.status("odd")["error"].startswith("set aside: the controller fails at it: KeyError")
    with pytest.raises(ConfigError, match="job odd is set aside"):
        driver.core.cancel("c", "odd", driver.now)
    assert driver.core.forget("f", "odd") == [Purge("odd")] and driver.core.forget("again", "odd") == []
    assert driver.core.purge_failed("odd") == []
    assert driver.core.forget("once more", "odd") == [Purge("odd")]
    assert driver.core.purged("odd") == [Reply("once more", {"job": "odd"})]
    assert driver.core.phases() == {"job": "RUNNING"}


def test_an_old_report_changes_nothing() -> None:
    driver = running()
    late = AgentReport("h1", "i1", 1, rows=[WorkerReport("job", "sink.0", 1, EXITED)])
    assert driver.core.report(late, driver.now) == []
    assert driver.status["phase"] == "RUNNING"


def test_an_agent_is_not_believed_about_workers_of_another() -> None:
    driver = running()
    driver.take(driver.core.members({"h1": "i1", "h2": "i2"}, driver.now))
    stranger = AgentReport("h2", "i2", 1, rows=[WorkerReport("job", "sink.0", 1, EXITED)])
    driver.take(driver.core.report(stranger, driver.now))
    assert driver.status["phase"] == "RUNNING"


def test_an_agent_that_reports_late_to_a_new_leader_gets_a_newer_view() -> None:
    old = running()
    stored = {"job": (old.persists[-1].spec, old.core.jobs["job"].record())}
    core = Core(2, "new", lambda topology: restart_lost, stored, {"h1": "i1"}, now=100.0)
    core.tick(100.0 + TAKEOVER_S + 0.1)
    revision = core.jobs["job"].revision  # as the former leader's last, by accident
    rows = [WorkerReport("job", "source.0", 1, UP), WorkerReport("job", "sink.0", 1)]
    actions = core.report(AgentReport("h1", "i1", 1, term=1, revisions={"job": revision}, rows=rows), 104.0)
    (send,) = [action for action in actions if isinstance(action, Send)]
    assert send.message["jobs"]["job"]["view"]["revision"] > revision


def test_a_job_that_commits_nothing_more_fails_loudly() -> None:
    driver = running(topology={**TOPOLOGY, "cluster": {"stall_timeout_s": 5, "heartbeat_timeout_s": 1000}})
    driver.hear(sink_0={"state": UP, "epoch": 3})
    driver.pass_time(4.9)
    driver.hear(sink_0={"state": UP, "epoch": 4})
    driver.pass_time(4.9)
    assert driver.status["phase"] == "RUNNING"
    driver.pass_time(0.2)
    assert driver.status["phase"] == "FAILED"
    assert "no epoch was committed for 5 s; epochs: source.0 at 0, sink.0 at 4" in driver.status["error"]
