"""What a worker does with views that tell of changes only."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from zmq.utils import z85

from riprap.codec.ids import Incarnation, WorkerId
from riprap.codec.trust.keys import Authority
from riprap.configs.loading import load
from riprap.configs.topology import Topology
from riprap.engine.flow.channels import senders
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.runs import Runs
from riprap.engine.worker.guests import Guests
from riprap.engine.worker.membership import Membership
from riprap.engine.worker.operators import graph_of_stages
from riprap.engine.worker.port import Fenced, WorkerPort

AUTHORITY = Authority(b"s" * 32)
SOURCE, SINK = WorkerId("source", 0), WorkerId("sink", 0)
ROOT = Path(__file__).parents[3]


class Links:
    """Who is up in which incarnation."""

    def __init__(self) -> None:
        self.up: dict[WorkerId, int] = {}
        self.round = 0
        self.known: dict[WorkerId, int] = {}

    def is_up(self, worker: WorkerId) -> bool:
        return worker in self.up

    def incarnation(self, worker: WorkerId) -> int:
        return self.known.get(worker, 0)

    def lower(self, worker: WorkerId) -> None:
        del self.up[worker]

    def raise_(self, worker: WorkerId, life: int) -> None:
        self.up[worker] = self.known[worker] = life


class Task:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def start(self) -> None:
        self.told.append(("start", ""))

    def close(self) -> None:
        self.told.append(("close", ""))

    def on_worker_failed(self, worker: WorkerId) -> None:
        self.told.append(("failed", str(worker)))

    def on_worker_restored(self, worker: WorkerId) -> None:
        self.told.append(("restored", str(worker)))


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    (tmp_path / "manifest.json").write_text("{}")
    return load(ROOT / "configs/svm_higgs.yaml", [f"input.path={tmp_path}"])


def membership(topology: Topology, me: WorkerId, *twins: WorkerId) -> tuple[Membership, Task]:
    ignore = lambda *ignored: None  # noqa: E731
    links, task = Links(), Task()

    def enter(round_: int) -> None:
        links.round = round_
        task.told.append(("enters", str(round_)))

    def begin_anew(round_: int, checkpoint: int) -> Runs:
        enter(round_)
        return cast(Runs, task)

    layout = Layout.of(graph_of_stages(topology), me)
    port = SimpleNamespace(
        layout=layout, links=links, own_incarnation=Incarnation(1), connect=ignore, disconnect=ignore,
        enter=enter, ask_anew=lambda: task.told.append(("asks", "anew")),
    )  # fmt: skip
    guests = Guests(senders(port.layout))

    def on_role(writes: bool, is_other_clock: bool) -> None:
        task.told.append(("writes" if writes else "stands by", "another clock" if is_other_clock else ""))

    parts = (cast(WorkerPort, port), cast(Runs, task), guests, "h", "auto", begin_anew)
    return Membership(*parts, twins, on_role), task


def key_of(name: str, life: int) -> bytes:
    return AUTHORITY.life(name, life).public


def view(revision: int, phase: str = "RUNNING", **workers: tuple[int, str]) -> dict[str, Any]:
    entries = {
        name.replace("_", "."): {
            "incarnation": life,
            "state": state,
            "host": "h",
            "ipc": "ipc://@x",
            "tcp": "",
            "key": key_of(name, life).decode() if state == "up" else "",
        }
        for name, (life, state) in workers.items()
    }
    return {"revision": revision, "phase": phase, "workers": entries}


def test_a_workers_peers_are_those_that_it_is_joined_to(topology: Topology) -> None:
    processors = [str(worker) for worker in topology.tasks("processor")]
    assert len(processors) > 2
    assert set(membership(topology, WorkerId("processor", 1))[0].peers()) == {"source.0", "sink.0"}
    assert sorted(membership(topology, SOURCE)[0].peers()) == sorted([*processors, "sink.0"])
    assert sorted(membership(topology, SINK)[0].peers()) == sorted([*processors, "source.0"])


def test_changes_are_applied_in_their_order(topology: Topology) -> None:
    members, task = membership(topology, SOURCE)
    members.on_view(view(3, "DEPLOYING", sink_0=(1, "up"), processor_0=(1, "starting")))
    members.on_view(view(4, "RUNNING", processor_0=(1, "up")))
    members.on_view(view(2, "RUNNING", sink_0=(1, "down")))  # of a leader that is deposed
    members.on_view(view(6, "RUNNING", sink_0=(3, "up")))  # what it was in between does not matter
    assert task.told == [
        ("restored", "sink.0"), ("restored", "processor.0"), ("start", ""), ("failed", "sink.0"),
        ("restored", "sink.0"), ("start", ""),
    ]  # fmt: skip


def test_of_what_a_view_tells_at_once_those_come_first_that_died_least_often(topology: Topology) -> None:
    members, task = membership(topology, SOURCE)
    lives = {"processor_0": (3, "up"), "processor_1": (1, "up"), "processor_2": (2, "up"), "sink_0": (1, "up")}
    members.on_view(view(1, "DEPLOYING", **lives))
    assert [name for _, name in task.told] == ["processor.1", "sink.0", "processor.2", "processor.0"]


def test_a_further_round_begins_anew_and_then_hears_of_the_peers(topology: Topology) -> None:
    members, task = membership(topology, SOURCE)
    members.on_view(view(1, "RUNNING", sink_0=(1, "up")))
    task.told.clear()
    members.on_view(view(2, "RECOVERING", sink_0=(1, "down")) | {"round": 1})
    members.on_view(view(3, "RECOVERING", sink_0=(2, "up")) | {"round": 1})
    assert task.told == [
        ("close", ""), ("enters", "1"), ("restored", "sink.0"), ("asks", "anew"), ("failed", "sink.0"), ("start", ""),
        ("restored", "sink.0"), ("start", ""),
    ]  # fmt: skip


def test_a_life_that_begins_in_a_later_round_is_in_it_from_the_start(topology: Topology) -> None:
    members, task = membership(topology, SOURCE)
    members.on_view(view(7, "RECOVERING", sink_0=(1, "up")) | {"round": 3})
    assert task.told == [("enters", "3"), ("start", ""), ("restored", "sink.0"), ("start", "")], "the job has begun"


def test_a_worker_that_was_replaced_learns_it(topology: Topology) -> None:
    members, _ = membership(topology, SOURCE)
    with pytest.raises(Fenced):
        members.on_view(view(1, source_0=(2, "up")))


def test_who_may_connect_are_the_lives_that_views_name(topology: Topology) -> None:
    """Those that send to this worker, each under the key that its newest life has been given, while it is up."""
    members, _ = membership(topology, SINK)

    def admitted(name: str, life: int) -> str | None:
        return members.guests.admits(z85.decode(key_of(name, life)))

    members.on_view(view(1, processor_0=(1, "up"), source_0=(1, "starting"), processor_1=(2, "up")))
    assert admitted("processor_0", 1) == "processor.0#1" and admitted("processor_1", 2) == "processor.1#2"
    assert admitted("source_0", 1) is None and admitted("processor_0", 2) is None, "no view has told of them"
    members.on_view(view(2, processor_0=(2, "up"), processor_1=(2, "down"), source_0=(1, "up")))
    assert (admitted("processor_0", 1), admitted("processor_0", 2)) == ("", "processor.0#2")
    assert (admitted("processor_1", 2), admitted("source_0", 1)) == ("", "source.0#1")
    members, _ = membership(topology, WorkerId("processor", 1))
    members.on_view(view(1, processor_0=(1, "up"), sink_0=(1, "up")))
    assert admitted("processor_0", 1) is None and admitted("sink_0", 1) == "sink.0#1", "processors do not talk"


def test_a_copy_of_a_destination_is_told_whether_it_writes_and_has_no_links_to_the_other(topology: Topology) -> None:
    twin = SINK._replace(copy=1)
    members, task = membership(topology, SINK, twin)
    assert str(twin) in members.peers()
    first = view(1, "DEPLOYING", sink_0=(1, "up"), **{"sink_0~1": (1, "up")})
    first["workers"]["sink.0~1"]["writes"] = True
    members.on_view(first)
    members.on_view(view(2, "RUNNING", **{"sink_0~1": (1, "down")}))
    told = view(3, "RUNNING", sink_0=(1, "up"))
    told["workers"]["sink.0"]["writes"] = True
    members.on_view(told)
    assert task.told == [("stands by", ""), ("start", ""), ("writes", ""), ("start", "")]


@pytest.mark.parametrize(
    ("host", "tcp", "clock"),
    [("h", "", ""), ("other", "tcp://10.0.0.2:80", "another clock"), ("other", "tcp://10.0.0.1:80", "")],
)
def test_two_copies_have_one_clock_where_they_share_a_host_or_its_address(
    topology: Topology, host: str, tcp: str, clock: str
) -> None:
    members, task = membership(topology, SINK, SINK._replace(copy=1))
    told = view(1, sink_0=(1, "up"), **{"sink_0~1": (1, "up")})
    told["workers"]["sink.0"] |= {"writes": True, "tcp": "tcp://10.0.0.1:81"}
    told["workers"]["sink.0~1"] |= {"host": host, "tcp": tcp}
    members.on_view(told)
    assert task.told[0] == ("writes", clock)
