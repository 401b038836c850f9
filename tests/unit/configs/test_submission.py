"""A submission is refused with all that is wrong with it, or every process can read it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError
from riprap.configs.explain import FINDINGS_MAX
from riprap.configs.problems import SHOWN_MAX
from riprap.configs.submission import TEXT_MAX, check_submission
from riprap.configs.topology import EDGES_MAX, Topology
from riprap.configs.validation import TOPOLOGY, resolved
from riprap.controller.jobspec import JobSpec
from riprap.engine.schemes.plans import plan_for

MATRIX = {"items": 1000, "columns": ["a", "y"], "label": "y", "verified": ["x"], "classes": [0.0, 1.0], "windows": 4}
WINDOWS = {"items": 1000, "windows": 4, "verified": []}


def submission(scheme: dict[str, Any], schema: dict[str, Any], sections: dict[str, Any]) -> dict[str, Any]:
    """As `riprap submit` makes it of a file."""
    file = {"job": "trial", "micro_batch": 100, "input": {"path": "/data"}, "fault_tolerance": scheme, **sections}
    values = resolved(TOPOLOGY.validate_python(file)).to_dict()
    values["backup"]["servers"] = ["ipc://@backup-1"]
    more = {"run": "0123456789ab", "attempt": 2, "restorable": True, "resume": "riprap submit --resume trial"}
    faults = [{"action": "kill", "target": "sink.0", "when": {"kind": "epoch", "value": 3}, "for_s": 0.0, "cpu": 0.0}]
    values |= {"schema": schema, **more, "before": [[3], [7]], "faults": faults, "profile": False}
    return dict(msgpack.unpackb(msgpack.packb(values)))


def role_stages(middle: str, parallelism: int) -> dict[str, Any]:
    return {
        "stages": {
            "source": {"operator": "m:Source"},
            "processor": {"operator": "m:Processor", "parallelism": parallelism, "options": {"rate": [1, {"a": None}]}},
            "sink": {"operator": "m:Sink", "cpus": [0, 1]},
        },
        "edges": [
            {"from": "source", "to": "processor", "partitioning": middle},
            {"from": "processor", "to": "sink", "partitioning": "merge"},
            {"from": "sink", "to": "processor", "feedback": True, "consistency": "ssp", "staleness": 2},
        ],
    }


GRAPH = {
    "stages": {
        "left": {"operator": "m:Left", "input": {"path": "/left", "limit": 10}},
        "right": {"operator": "m:Right", "threads": 3},
        "join": {"operator": "m:Join", "parallelism": 2},
    },
    "edges": [
        {"from": "left", "to": "join", "partitioning": "full"},
        {"from": "right", "to": "join", "partitioning": "split"},
    ],
    "output": {"path": "/out/{window}.csv", "format": "csv"},
}
SOUND = [
    submission({"scheme": "erasure", "k": 3}, MATRIX | {"moments": "2:AAAA"}, role_stages("stripe", 5)),
    submission({"scheme": "replication", "copies": 2}, MATRIX, role_stages("split", 4)),
    submission({"scheme": "approximate", "theta": float("inf")}, WINDOWS, GRAPH),
    submission({"scheme": "none"}, WINDOWS, GRAPH),
    submission({"scheme": "partially_active", "adapt": True, "replicate": ["left"]}, WINDOWS, GRAPH),
    submission({"scheme": "partially_active", "checkpoint_s": 60}, WINDOWS, GRAPH),
]
Place = tuple[Any, ...]


def changed(number: int, place: Place, *value: Any) -> dict[str, Any]:
    """A sound submission with one value in place of another, or, without a value, dropped."""
    values = deepcopy(SOUND[number])
    node: Any = values
    for part in place[:-1]:
        node = node[part]
    if value:
        node[place[-1]] = value[0]
    else:
        del node[place[-1]]
    return values


@pytest.mark.parametrize("sound", SOUND)
def test_what_the_loader_makes_passes(sound: dict[str, Any]) -> None:
    check_submission("trial", sound)
    for bare in ("resume", "before", "faults", "profile"):
        check_submission("trial", {name: value for name, value in sound.items() if name != bare})
    check_submission("trial", sound | {"backup": sound["backup"] | {"servers": []}})


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (changed(0, ("stages", "sink", "parallelism"), 0), r"stages\.sink\.parallelism: is 0; expected at least 1"),
        (changed(0, ("stages", "sink", "parallelism"), "2"), "take off the quotes"),
        (changed(0, ("stages", "sink", "operator"), "os.system"), "an import path MODULE:CLASS"),
        (changed(0, ("stages", "sink", "speed"), 3), "unknown key"),
        (changed(0, ("stages", "Sink"), {"operator": "m:S"}), "lower-case letters"),
        (changed(0, ("edges", 0, "to"), "sunk"), "is 'sunk'; expected one of source, processor, sink"),
        (changed(1, ("edges", 2), {"from": "sink", "to": "processor", "partitioning": "split"}), "closes a cycle"),
        (changed(0, ("edges", 1)), "no data edge touches it"),
        (changed(0, ("edges",)), "edges: missing"),
        (changed(0, ("fault_tolerance", "scheme"), "magic"), "is 'magic'; expected one of none, erasure"),
        (changed(0, ("fault_tolerance", "k"), 9), r"at least k \+ r = 11 tasks"),
        (changed(0, ("fault_tolerance", "k"), None), "fault_tolerance.k: is None; expected 3"),
        (changed(0, ("fault_tolerance", "r")), "fault_tolerance.r: missing; expected 2"),
        (changed(0, ("schema", "windows"), -4), "schema.windows: is -4"),
        (changed(2, ("fault_tolerance",), {"scheme": "replication", "copies": 2}), "a scheme of that kind"),
        (changed(3, ("schema",), MATRIX), "2 stages are sources"),
        (changed(0, ("input",)), "input: missing"),
        (changed(0, ("input", "repeat")), "input.repeat: missing"),
        (changed(0, ("input", "path"), "shards"), "is 'shards'; expected an absolute path"),
        (changed(2, ("stages", "left", "input", "path"), "/a\0b"), "a path without a zero byte"),
        (changed(2, ("output", "path"), "out"), "an absolute path"),
        (changed(0, ("links", "block_bytes"), 1 << 40), "at most 67108864"),
        (changed(0, ("cluster", "startup_timeout_s"), float("nan")), "a finite number|less than or equal"),
        (changed(0, ("backup", "servers"), 1), "the addresses of the backup servers"),
        (changed(0, ("backup", "servers"), ["file:///etc"]), "backup.servers"),
        (changed(4, ("fault_tolerance", "plan"), "/none.json"), "fault_tolerance.plan: is '/none.json'; expected null"),
        (changed(0, ("sinks",), ["processor.0"]), "sinks.0: is 'processor.0'; expected 'sink.0'"),
        (changed(0, ("sinks",)), "sinks: missing"),
        (changed(0, ("schema",)), "what the sources said"),
        (changed(0, ("schema",), {"columns": []}), "schema.items: missing"),
        (changed(0, ("schema", "moments"), "../x"), "schema.moments: is '../x'; expected text of the form"),
        (changed(0, ("run",), "a/../b"), "run: is 'a/../b'"),
        (changed(0, ("attempt",), 0), "attempt: is 0"),
        (changed(0, ("restorable",)), "restorable: missing"),
        (changed(0, ("toy",), {}), "toy: unknown key"),
        (changed(4, ("wanted",), ["join.0~1"]), r"wanted\.0: is 'join\.0~1'; expected 'left\.0~1'"),
        (changed(4, ("copies",), []), "copies"),
        (changed(0, ("wanted",), ["source.0~1"]), "wanted"),
        (changed(0, ("job",), "other"), "is 'other'; expected 'trial', under which it is submitted"),
        (changed(0, ("edges",), [{}] * (EDGES_MAX + 1)), "1025 of them; expected at most 1024"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as error:
        check_submission("trial", wrong)
    assert error.value.remedy


def test_no_file_that_a_client_names_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Any] = []
    monkeypatch.setattr(Path, "stat", lambda path, **options: looked_at.append(path))
    monkeypatch.setattr(Path, "open", lambda path, *options: looked_at.append(path))
    for sound in SOUND:
        check_submission("trial", sound | {"backup": sound["backup"] | {"storage": "/store"}, "start_from": "/saved"})
    with pytest.raises(ConfigError):
        check_submission("trial", changed(4, ("fault_tolerance", "plan"), "/plan.json"))
    assert not looked_at


def test_all_problems_are_listed_and_the_answer_stays_short() -> None:
    wrong = deepcopy(SOUND[0])
    wrong["stages"]["sink"]["parallelism"] = 0
    wrong["links"]["transport"] = "pigeons"
    wrong["attempt"] = -1
    del wrong["seed"], wrong["schema"]["label"]
    with pytest.raises(ConfigError) as error:
        check_submission("trial", wrong)
    for name in ("stages.sink.parallelism", "links.transport", "attempt", "schema.label"):
        assert f"submission: {name}: " in str(error.value)
    assert "correct the 4 problems above in the submission" in error.value.remedy
    with pytest.raises(ConfigError) as error:
        check_submission("trial", wrong | {f"{'x' * 10_000}{number}": 1 for number in range(90)})
    assert len(error.value.args[0]) <= TEXT_MAX
    with pytest.raises(ConfigError, match=f"and {FINDINGS_MAX - SHOWN_MAX} more"):
        check_submission("trial", SOUND[0] | {f"more{number}": 1 for number in range(FINDINGS_MAX + 1)})


def test_values_that_are_nested_without_end_are_refused() -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(ConfigError, match="at most 50 levels"):
        check_submission("trial", changed(0, ("stages", "sink", "options"), {"a": deep}))


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where every node stands but the root."""
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from places(one, (*at, name))


ABSURD: list[Any] = [
    *(None, -1, 0, 1, 1 << 62, 0.5, float("nan"), float("inf"), True, "", "x", "sink", "sink.0", "\0", "a:b", b"\0"),
    *([], [[]], ["x"], {}, {"x": 1}, {1: 2}, {"path": None}, "stripe", "none", "/", "tcp://a", ["tcp://a:1"]),
]

NAMES = ["x", "Sink", 7, b"path", "sinks", "windows", "columns"]


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_a_mutant_is_refused_or_can_be_read_by_all(data: st.DataObject) -> None:
    values = deepcopy(data.draw(st.sampled_from(SOUND)))
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(data, values)
    try:
        check_submission("trial", values)
        spec = JobSpec.read("trial", values, "/run")
    except ConfigError as refusal:
        assert refusal.args[0] and refusal.remedy
        return
    topology = Topology.from_dict(values)
    assert set(topology.workers()) == set(spec.workers)
    assert {str(worker) for worker in spec.sinks} == set(values["sinks"])
    plan_for(values)


def mutate(data: st.DataObject, values: dict[str, Any]) -> None:
    """Drop, replace or rename a node, or put another node of the same submission there."""
    every = list(places(values))
    *path, last = data.draw(st.sampled_from(every))
    node: Any = values
    for part in path:
        node = node[part]
    action = data.draw(st.sampled_from(["drop", "replace", "rename", "swap"]))
    if action == "replace":
        node[last] = deepcopy(data.draw(st.sampled_from(ABSURD)))
    elif action == "swap":
        node[last] = deepcopy(at(values, data.draw(st.sampled_from(every))))
    else:
        value = node.pop(last)
        if action == "rename" and isinstance(node, dict):
            node[data.draw(st.sampled_from([*NAMES, f"{last}_"]))] = value


def at(values: Any, place: Place) -> Any:
    for part in place:
        values = values[part]
    return values
