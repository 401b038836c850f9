"""Placement: a row shares no host where another is free, a spread keeps its skew, a respawn avoids what just failed."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from core_driver import Driver
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.configs.sections import PlacementOptions
from riprap.controller.actions import Action, Persist
from riprap.controller.core import Core
from riprap.controller.jobspec import JobSpec
from riprap.controller.labels import HostLabels, labelled
from riprap.controller.placement import Deal, Rules, dealt, unsatisfied
from riprap.controller.placement_numbers import spread_numbers
from riprap.controller.reports import EXITED, UP, AgentReport, WorkerReport
from riprap.controller.steps import restart_lost


def hosts_of(*racks: str) -> dict[str, HostLabels]:
    """h1, h2, ... each in the rack given; an empty text is none."""
    named = ((f"h{n + 1}", rack) for n, rack in enumerate(racks))
    return {host: labelled(host, {"rack": rack} if rack else {}) for host, rack in named}


def tasks(stage: str, count: int) -> list[WorkerId]:
    return [WorkerId(stage, index) for index in range(count)]


def shares(placed: dict[WorkerId, str], hosts: dict[str, HostLabels], label: str) -> Counter[str]:
    return Counter(hosts[host][label] for host in placed.values())


def over(*labels: str, skew: int = 1, strict: bool = True) -> Rules:
    return Rules(PlacementOptions(labels, skew, "fail" if strict else "best_effort"))


CODED = Rules(rows={"coded": 6})
PAIRS = Rules(rows={"copied": 2})


@given(st.integers(1, 12), st.integers(1, 12), st.dictionaries(st.integers(0, 11), st.integers(0, 20), max_size=12))
def test_pieces_of_a_row_share_no_host_where_another_is_free(count: int, pieces: int, busy: dict[int, int]) -> None:
    hosts = hosts_of(*[""] * count)
    load = Counter({f"h{n + 1}": tasks for n, tasks in busy.items() if n < count})
    deal = Deal(Rules(rows={"coded": pieces}), hosts, {}, load)
    placed = {worker: deal.place(worker) for worker in tasks("coded", pieces)}
    per_host = Counter(placed.values())
    assert max(per_host.values()) == -(-pieces // count), "however busy a host is with other jobs"
    assert sum(load.values()) == sum(tasks for n, tasks in busy.items() if n < count) + pieces


@given(st.integers(2, 6), st.integers(1, 12), st.lists(st.integers(0, 20), min_size=6, max_size=6))
def test_a_replica_shares_no_host_with_its_primary_where_another_is_free(
    count: int, parallelism: int, busy: list[int]
) -> None:
    hosts = hosts_of(*[""] * count)
    deal = Deal(Rules(), hosts, {}, Counter(dict(zip(hosts, busy, strict=False))))
    primaries = tasks("count", parallelism)
    placed = {worker: deal.place(worker) for worker in [*primaries, *(one._replace(copy=1) for one in primaries)]}
    assert all(placed[worker] != placed[worker._replace(copy=1)] for worker in primaries)
    again = Deal(Rules(), hosts, {worker: host for worker, host in placed.items() if worker.copy}, Counter())
    assert all(again.place(worker, placed[worker]) == placed[worker] for worker in primaries)


@given(st.integers(1, 6), st.integers(2, 3))
def test_a_replica_shares_no_rack_with_its_primary(parallelism: int, racks: int) -> None:
    hosts = hosts_of(*[f"r{n % racks}" for n in range(2 * racks)])
    deal = Deal(over("rack"), hosts, {}, Counter())
    primaries = tasks("count", parallelism)
    placed = {worker: deal.place(worker) for worker in [*primaries, *(one._replace(copy=1) for one in primaries)]}
    racks_of = {worker: hosts[host]["rack"] for worker, host in placed.items()}
    together = [worker for worker in primaries if racks_of[worker] == racks_of[worker._replace(copy=1)]]
    assert not together


@given(st.integers(2, 8), st.integers(1, 8), st.data())
def test_copies_of_a_block_share_no_host_also_after_any_loss(count: int, groups: int, data: st.DataObject) -> None:
    hosts = hosts_of(*[""] * count)
    workers = tasks("copied", 2 * groups)
    placed = dealt(PAIRS, workers, hosts)
    for _ in range(4):
        lost = data.draw(st.sets(st.sampled_from(workers), min_size=1))
        gone = data.draw(st.sampled_from([None, *hosts]))
        left = {host: labels for host, labels in hosts.items() if host != gone or count == 2}
        kept = {worker: host for worker, host in placed.items() if worker not in lost and host in left}
        deal = Deal(PAIRS, left, kept, Counter(kept.values()), [hosts[placed[worker]] for worker in lost])
        for worker in workers:
            if worker not in kept:
                placed[worker] = deal.place(worker, placed[worker])
        assert all(placed[workers[i]] != placed[workers[i + 1]] for i in range(0, len(workers), 2))


racks = st.lists(st.sampled_from(["r1", "r2", "r3"]), min_size=2, max_size=7).filter(lambda found: len(set(found)) > 1)


@given(racks, st.integers(1, 16), st.integers(1, 3))
def test_a_spread_over_one_label_never_differs_by_more_than_the_skew(named: list[str], count: int, skew: int) -> None:
    hosts, rules = hosts_of(*named), over("rack", skew=skew)
    placed = dealt(rules, tasks("count", count), hosts)
    tally = [shares(placed, hosts, "rack")[rack] for rack in set(named)]
    assert max(tally) - min(tally) <= skew
    assert unsatisfied(rules, hosts, placed) == []


def allowed(
    hosts: dict[str, HostLabels], numbers: tuple[int, ...], skew: int, over: tuple[str, ...] = ("rack", "host")
) -> bool:
    """By the definition: for each label the totals of its values differ by the skew at most."""
    for label in over:
        total: Counter[str] = Counter({labels[label]: 0 for labels in hosts.values()})
        for labels, number in zip(hosts.values(), numbers):
            total[labels[label]] += number
        if max(total.values()) - min(total.values()) > skew:
            return False
    return True


@given(st.lists(st.sampled_from(["r1", "r2"]), min_size=2, max_size=4).filter(lambda found: len(set(found)) > 1),
       st.integers(2, 6), st.integers(1, 2))  # fmt: skip
def test_hosts_within_racks_are_spread_whenever_that_is_possible(named: list[str], count: int, skew: int) -> None:
    hosts, rules = hosts_of(*named), over("rack", "host", skew=skew)
    ways = (way for way in itertools.product(range(count + 1), repeat=len(named)) if sum(way) == count)
    possible = any(allowed(hosts, way, skew) for way in ways)
    placed = dealt(rules, tasks("count", count), hosts)
    assert (unsatisfied(rules, hosts, placed) == []) == possible


crossing = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), min_size=2, max_size=5)


@given(crossing, st.integers(2, 5), st.integers(1, 2), st.lists(st.integers(0, 9), min_size=5, max_size=5))
def test_labels_that_cross_are_spread_whenever_that_is_possible_however_busy_hosts_are(
    named: list[tuple[str, str]], count: int, skew: int, busy: list[int]
) -> None:
    hosts = {f"h{n}": labelled(f"h{n}", {"rack": rack, "power": line}) for n, (rack, line) in enumerate(named)}
    rules, several = over("rack", "power", skew=skew), all(len({one[at] for one in named}) > 1 for at in (0, 1))
    ways = (way for way in itertools.product(range(count + 1), repeat=len(named)) if sum(way) == count)
    possible = several and any(allowed(hosts, way, skew, ("rack", "power")) for way in ways)
    for load in ({}, dict(zip(hosts, busy, strict=False))):
        placed = dealt(rules, tasks("count", count), hosts, load)
        assert (unsatisfied(rules, hosts, placed) == []) == possible


def test_a_job_begins_beside_others_as_it_was_found_to_fit() -> None:
    hosts = {f"h{n}": labelled(f"h{n}", {"rack": "aac"[n], "power": "yxy"[n]}) for n in range(3)}
    many = Many({"stages": {"a": {"parallelism": 2}}, "placement": {"spread": ["rack", "power"]}}, hosts)
    many.report()
    assert many.core.status("job")["placement_unsatisfied"] == []
    assert set(many.placed("a").values()) == {"h1", "h2"}


def test_numbers_of_many_tasks_are_searched_for_no_longer_than_a_moment() -> None:
    cells = [(f"r{rack}", f"p{line}") for rack in range(12) for line in range(9)]
    found = spread_numbers(cells, 1000, 1)
    assert found is None or sum(found.values()) == 1000


def test_hosts_without_the_label_get_nothing_while_others_have_it() -> None:
    hosts = hosts_of("r1", "", "r2")
    assert set(dealt(over("rack"), tasks("count", 6), hosts).values()) == {"h1", "h3"}


@pytest.mark.parametrize(
    ("hosts", "rules", "words"),
    [
        (hosts_of("", ""), over("rack"), "4 tasks are to be spread over rack, and none of the hosts h1, h2 has"),
        (hosts_of("r1", "r1"), over("rack"), "there is only rack=r1; needed: two values at least"),
        (hosts_of("r1"), over("host"), "there is only host=h1"),
        (hosts_of("r1", "r1", "r1", "r2"), over("rack", "host"),
         "stage count: 4 tasks are to be spread over host, and the numbers found are h1: 1, h2: 1, h3: 0, h4: 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_spread_is_said_with_stage_label_and_numbers(
    hosts: dict[str, HostLabels], rules: Rules, words: str
) -> None:
    (said,) = unsatisfied(rules, hosts, dealt(rules, tasks("count", 4), hosts))
    assert words in said and "needed" in said
    assert unsatisfied(rules, hosts, dealt(rules, tasks("sink", 1), hosts)) == [], "one task needs no spread"


@given(st.integers(2, 6), st.integers(0, 5))
def test_a_respawn_stays_where_it_was_unless_several_were_just_lost_there(count: int, losses: int) -> None:
    hosts = hosts_of(*[""] * count)
    deal = Deal(Rules(), hosts, {}, Counter({"h2": 3}), [hosts["h1"]] * losses)
    assert (deal.place(WorkerId("count", 0), "h1") == "h1") == (losses < 2)


def test_a_rack_in_which_several_were_lost_is_avoided_as_a_whole() -> None:
    hosts, rules = hosts_of("r1", "r1", "r2"), over("rack", skew=4)
    losses = [hosts["h1"], hosts["h2"]]
    assert Deal(rules, hosts, {}, Counter(), losses).place(WorkerId("count", 0), "h1") == "h3"
    assert Deal(Rules(), hosts, {}, Counter(), losses).place(WorkerId("count", 0), "h1") == "h1", "nobody named racks"


def test_the_spread_that_was_asked_for_comes_before_the_old_host_and_fresh_losses() -> None:
    hosts, moved = hosts_of("r1", "r2"), WorkerId("count", 2)
    kept = {WorkerId("count", 0): "h1", WorkerId("count", 1): "h1"}
    assert Deal(over("rack"), hosts, kept, Counter()).place(moved, "h1") == "h2"
    assert Deal(over("rack"), hosts, kept, Counter(), [hosts["h2"]] * 2).place(moved, "h2") == "h2"
    assert Deal(over("rack", skew=3), hosts, kept, Counter()).place(moved, "h1") == "h1", "the skew allows it"


def test_where_every_domain_has_losses_or_the_others_hold_pieces_the_old_host_is_taken() -> None:
    hosts = hosts_of("", "")
    losses = [*hosts.values()] * 2
    assert Deal(Rules(), hosts, {}, Counter(), losses).place(WorkerId("count", 0), "h2") == "h2"
    held = {WorkerId("coded", 0): "h1", WorkerId("coded", 1): "h1"}
    assert Deal(CODED, hosts, held, Counter(), losses[1::2]).place(WorkerId("coded", 2), "h2") == "h2"


def topology(scheme: str | None, **own: Any) -> dict[str, Any]:
    edges = [
        {"from": "read", "to": "count"},
        {"from": "count", "to": "sink"},
        {"from": "sink", "to": "count", "feedback": True},
    ]
    stages = {"read": {"parallelism": 2}, "count": {"parallelism": 6, **own}, "sink": {"parallelism": 2}}
    return {"stages": stages, "edges": edges, "fault_tolerance": {"scheme": scheme, "copies": 3}}


def test_the_rows_of_a_topology_are_those_of_its_codes_and_copies() -> None:
    assert Rules.of(topology("erasure")).rows == {"count": 6}
    assert Rules.of(topology("replication")).rows == {"count": 3}
    assert Rules.of(topology("upstream_backup")).rows == {}
    own = {"fault_tolerance": {"scheme": "replication", "copies": 2}}
    assert Rules.of(topology("upstream_backup", **own)).rows == {"count": 2}
    spread = {**topology("none"), "placement": {"spread": ["rack"], "max_skew": 2, "when_unsatisfiable": "best_effort"}}
    assert Rules.of(spread) == over("rack", skew=2, strict=False)
    assert Rules.of({**topology("none"), "placement": {"spread": ["rack"]}}).strict
    with pytest.raises(ConfigError, match="placement cannot be read"):
        Rules.of({**topology("none"), "placement": {"sprad": 1}})


class Many:
    """A core with agents of labelled hosts; every worker that it assigns is up at the next report."""

    def __init__(self, job: dict[str, Any], hosts: dict[str, HostLabels]) -> None:
        self.hosts, self.now, self.number = hosts, 0.0, 0
        self.members = {host: f"i-{host}" for host in hosts}
        self.core = Core(1, "me", lambda topology: restart_lost, {}, self.members, 0.0)
        self.persists: list[Persist] = []
        self.events: list[str] = []
        self.dead: set[tuple[WorkerId, int]] = set()
        self.report()
        self.take(self.core.submit("t", JobSpec.read("job", job, "/run"), self.now))

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            self.events += [action.event] if hasattr(action, "event") else []
            if isinstance(action, Persist):
                self.persists.append(action)
                self.take(self.core.persisted("job", action.record, self.now))

    def report(self) -> None:
        """All agents report, and the leader decides once."""
        self.now, self.number = self.now + 0.1, self.number + 1
        job = self.core.jobs.get("job")
        for host in self.members:
            rows = []
            for worker, task in job.tasks.items() if job else ():
                if task.assignment.host == host:
                    incarnation = task.assignment.incarnation
                    state = EXITED if (worker, incarnation) in self.dead else UP
                    rows.append(
                        WorkerReport("job", str(worker), incarnation, state, 7, -9 if state == EXITED else None)
                    )
            given = {key: value for key, value in self.hosts[host].items() if key != "host"}
            self.core.hear(AgentReport(host, self.members[host], self.number, rows=rows, labels=given), self.now)
        self.take(self.core.tick(self.now))

    def kill(self, workers: list[WorkerId]) -> None:
        self.dead |= {(worker, self.core.jobs["job"].tasks[worker].assignment.incarnation) for worker in workers}

    def placed(self, stage: str) -> dict[WorkerId, str]:
        tasks = self.core.jobs["job"].tasks
        return {worker: task.assignment.host for worker, task in tasks.items() if worker.stage == stage}


def test_a_thousand_workers_of_which_half_are_lost_are_back_after_two_passes() -> None:
    hosts = hosts_of(*(["r1", "r2"] * 10))
    job = {"stages": {"count": {"parallelism": 1000}}, "placement": {"spread": ["rack", "host"]}}
    many = Many(job, hosts)
    many.report()
    assert many.core.status("job")["phase"] == "RUNNING"
    victims = [worker for worker, host in many.placed("count").items() if hosts[host]["rack"] == "r1"]
    assert len(victims) == 500
    gone = {host for host, labels in hosts.items() if labels["rack"] == "r1" and host != "h1"}
    many.members = {host: instance for host, instance in many.members.items() if host not in gone}
    before = len(many.persists)
    many.kill(victims)
    many.take(many.core.members(many.members, many.now))
    many.now += 1.1  # the lost agents are silent for as long as it takes to believe it
    many.report()
    many.report()
    assert many.core.status("job")["phase"] == "RUNNING"
    assert len(many.persists) - before <= 4, "each decided for all at once"
    after = many.placed("count")
    assert {hosts[host]["rack"] for host in after.values()} <= {"r1", "r2"} and not gone & set(after.values())
    assert all(task.assignment.incarnation <= 2 for task in many.core.jobs["job"].tasks.values())


def test_a_job_without_placement_goes_where_it_went_before() -> None:
    many = Many({"stages": {"a": {"parallelism": 4}, "b": {"parallelism": 1}}}, hosts_of("", "", ""))
    assert [*many.placed("a").values(), *many.placed("b").values()] == ["h1", "h2", "h3", "h1", "h2"]
    many.report()
    many.kill([WorkerId("a", 0)])
    many.report()
    assert many.placed("a")[WorkerId("a", 0)] == "h1", "where it was, though others have less to do"


def test_losses_that_are_over_count_no_more() -> None:
    many = Many({"stages": {"a": {"parallelism": 6}}}, hosts_of("", ""))
    on_h1 = [worker for worker, host in many.placed("a").items() if host == "h1"]
    for worker in on_h1[:2]:
        many.report()
        many.kill([worker])
        many.report()
        assert many.placed("a")[worker] == "h1", "one at a time"
    many.report()
    many.kill(on_h1[:2])
    many.report()
    assert {many.placed("a")[worker] for worker in on_h1[:2]} == {"h2"}


STRICT = {"stages": {"a": {"parallelism": 4}}, "placement": {"spread": ["rack"]}}


def test_a_job_waits_for_hosts_that_allow_its_spread_and_fails_when_none_come() -> None:
    many = Many(STRICT, hosts_of("r1", "r1"))
    many.report()
    assert many.core.status("job")["phase"] == "SUBMITTED"
    many.hosts = hosts_of("r1", "r1", "r2")
    many.members["h3"] = "i-h3"
    many.take(many.core.members(many.members, many.now))
    many.report()
    assert many.core.status("job")["phase"] in ("DEPLOYING", "RUNNING")
    assert shares(many.placed("a"), many.hosts, "rack") == {"r1": 2, "r2": 2}
    alone = Many(STRICT, hosts_of("r1", "r1"))
    alone.now += 31.0
    alone.report()
    assert "there is only rack=r1" in alone.core.status("job")["error"]


def test_a_spread_that_is_not_reached_is_said_in_an_event_and_in_the_status() -> None:
    gentle = {**STRICT, "placement": {"spread": ["rack"], "when_unsatisfiable": "best_effort"}}
    many = Many(gentle, hosts_of("r1", "r1"))
    many.report()
    status = many.core.status("job")
    assert status["phase"] == "RUNNING" and many.events.count("placement_unsatisfied") == 1
    assert "there is only rack=r1" in status["placement_unsatisfied"][0]
    many.report()
    assert many.events.count("placement_unsatisfied") == 1, "once"


def test_a_job_that_runs_goes_on_when_a_rack_is_gone_though_its_spread_is_strict() -> None:
    many = Many(STRICT, hosts_of("r1", "r2"))
    many.report()
    del many.members["h2"]
    many.take(many.core.members(many.members, many.now))
    many.now += 1.1
    many.report()
    many.report()
    status = many.core.status("job")
    assert status["phase"] == "RUNNING" and set(many.placed("a").values()) == {"h1"}
    assert many.events.count("placement_unsatisfied") == 1


def test_with_one_host_everything_is_there() -> None:
    driver = Driver(topology=topology("erasure"))
    assert {worker["host"] for worker in driver.status["workers"].values()} == {"h1"}
    assert driver.status["placement_unsatisfied"] == []
