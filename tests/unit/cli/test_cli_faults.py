"""The language of faults: what is written is what is read, and everything else is refused with the grammar."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError
from riprap.configs.topology import Topology
from riprap.controller.faults import Fault, JobProgress, When, is_due
from riprap.engine.run.fault_plan import plan_faults
from riprap.engine.run.faults import GRAMMAR, faults_of_file, parse_fault

counts = st.integers(min_value=0, max_value=10**12)
moments = st.one_of(
    st.builds(When, st.sampled_from(["epoch", "items"]), counts.map(float)),
    st.builds(When, st.just("seconds"), st.integers(0, 10**6).map(lambda ms: ms / 1000)),
    st.builds(When, st.just("%"), st.integers(0, 1000).map(lambda tenths: tenths / 10)),
)
targets = st.one_of(
    st.sampled_from(["agent", "controller", "backup", "zookeeper", "random:processor"]),
    st.sampled_from(["primaries", "stage:processor", "host:h-1.example", "domain:rack=r1", "domain:host=h1"]),
    st.builds("{}.{}".format, st.from_regex(r"[a-z][a-z0-9_]{0,31}", fullmatch=True), st.integers(0, 999_999)),
)
durations = st.integers(1, 3_600_000).map(lambda ms: ms / 1000)
fractions = st.integers(10, 999).map(lambda thousandths: thousandths / 1000)
faults = st.one_of(
    st.builds(Fault, st.just("kill"), targets, moments),
    st.builds(Fault, st.sampled_from(["stop", "cut"]), targets, moments, durations),
    st.builds(Fault, st.just("slow"), targets, moments, durations, fractions),
)


@given(faults)
def test_a_fault_reads_as_it_was_written(fault: Fault) -> None:
    assert parse_fault(str(fault)) == fault


@given(faults, st.data())
def test_a_fault_with_a_piece_missing_is_refused_or_means_something_else(fault: Fault, data: st.DataObject) -> None:
    text = str(fault)
    place = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:place] + text[place + 1 :]
    try:
        assert parse_fault(damaged) != fault or (fault.action == "slow" and "cpu" not in damaged)
    except ConfigError as error:
        assert repr(damaged) in str(error) and error.remedy


@given(st.text(max_size=60))
def test_noise_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fault(text)
    assert GRAMMAR in str(caught.value) and caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kil:processor.2@epoch=3", "did you mean kill?"),
        ("kill:processor.2", "it names no moment"),
        ("kill:processor.2@epoch=3.5", "'epoch=3.5' is not a moment"),
        ("kill:processor.2@epoch=-3", "'epoch=-3' is not a moment"),
        ("kill:processor.2@101%", "more than all items"),
        ("kill:processor@epoch=3", "'processor' is not a target"),
        ("kill:zookeper@epoch=3", "did you mean zookeeper?"),
        ("kill:random:@epoch=3", "is not a target"),
        ("kill:host:@epoch=3", "'host:' is not a target"),
        ("kill:domain:rack@epoch=3", "'domain:rack' is not a target"),
        ("kill:stage:Processor@epoch=3", "is not a target"),
        ("kill:primary@epoch=3", "did you mean primaries?"),
        ("kill:processor.2@epoch=3,for=3s", "what is killed stays dead"),
        ("stop:processor.2@epoch=3", "add for example ,for=3s"),
        ("stop:processor.2@epoch=3,for=3", "for=3 is not a duration"),
        ("stop:processor.2@epoch=3,for=0s", "for=0s is not a duration"),
        ("stop:processor.2@epoch=3,for=2h", "for=2h is not a duration"),
        ("stop:processor.2@epoch=3,for=1s,for=2s", "given twice"),
        ("stop:processor.2@epoch=3,for=1s,cpu=0.5", "stop takes no cpu"),
        ("slow:processor.2@epoch=3,for=1s,cpu=1", "cpu=1 is not a fraction"),
        ("slow:processor.2@epoch=3,for=1s,cpu=nan", "cpu=nan is not a fraction"),
    ],
)
def test_what_is_wrong_with_a_fault_is_named(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fault(text)
    assert words in str(caught.value)


def test_a_slow_down_has_a_fraction_of_its_own() -> None:
    assert parse_fault("slow:processor.2@epoch=3,for=5s").cpu == 0.1


@pytest.mark.parametrize(
    ("when", "before", "after"),
    [
        (When("epoch", 3), JobProgress(epochs=2, items=999), JobProgress(epochs=3)),
        (When("items", 500), JobProgress(items=499, epochs=999), JobProgress(items=500)),
        (When("seconds", 0), JobProgress(epochs=9, items=9, seconds=-1), JobProgress(seconds=0)),
        (When("seconds", 2.5), JobProgress(seconds=2.49), JobProgress(seconds=2.5)),
    ],
)
def test_a_moment_comes_when_it_comes(when: When, before: JobProgress, after: JobProgress) -> None:
    assert not is_due(when, before)
    assert is_due(when, after)


def test_start_up_is_a_moment_too() -> None:
    assert is_due(When("epoch", 0), JobProgress())


def plan(topology: Topology, *texts: str, items: int | None = 1000) -> list[Fault]:
    return plan_faults([parse_fault(text) for text in texts], topology, items)


def test_random_targets_are_drawn_by_the_seed_and_differ(topology: Topology) -> None:
    six = [f"kill:random:processor@epoch={n}" for n in range(6)]
    first, second = plan(topology, *six), plan(topology, *six)
    assert first == second
    assert {fault.target for fault in first} == {f"processor.{n}" for n in range(6)}
    assert [f.target for f in first] != sorted(f.target for f in first)


@given(st.integers(1, 10**9), st.integers(0, 1000))
def test_a_share_of_the_items_is_rounded_up(items: int, tenths: int) -> None:
    when = When("%", tenths / 10)
    from riprap.engine.run.fault_plan import _definite_when

    definite = _definite_when(Fault("kill", "processor.0", when), items)
    assert definite.kind == "items"
    assert items * when.value / 100 - 1e-6 * items <= definite.value <= items


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kill:processor.6@epoch=1", "processor has only 6 tasks"),
        ("kill:procesor.1@epoch=1", "did you mean processor?"),
        ("kill:random:snik@epoch=1", "has no stage snik; it has source, processor, sink"),
        ("kill:stage:procesor@epoch=1", "did you mean processor?"),
        ("kill:stage:snik@epoch=1", "has no stage snik; it has source, processor, sink"),
        ("cut:processor.1@epoch=1,for=1s", "network namespace of its own"),
        ("kill:backup.2@epoch=1", "`riprap run` starts backup for this topology"),
        ("kill:backup.0@epoch=1", "`riprap run` starts backup for this topology"),
        ("kill:processor.1@items=1001", "the stream ends after 1000 items"),
    ],
)
def test_what_this_job_cannot_suffer_is_refused(topology: Topology, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(topology, text)
    assert words in str(caught.value) and caught.value.remedy


def test_a_share_of_an_unknown_length_is_refused(topology: Topology) -> None:
    with pytest.raises(ConfigError, match="does not say how many items"):
        plan(topology, "kill:processor.1@50%", items=None)


def test_a_faults_file_is_a_list_or_a_mapping_with_one() -> None:
    assert faults_of_file(["a", "b"], "f.yaml") == ["a", "b"]
    assert faults_of_file({"faults": ["a"]}, "f.yaml") == ["a"]
    for wrong in (None, {}, {"faults": "a"}, [1], "a"):
        with pytest.raises(ConfigError, match=r"f.yaml: expected a list of faults"):
            faults_of_file(wrong, "f.yaml")


@pytest.mark.parametrize(("servers", "named"), [(0, []), (1, ["backup"]), (3, ["backup", "backup.2", "backup.3"])])
def test_the_backup_servers_that_are_started_can_be_hit(topology: Topology, servers: int, named: list[str]) -> None:
    topology = dataclasses.replace(topology, backup=dataclasses.replace(topology.backup, servers=servers))
    for target in ("backup", "backup.2", "backup.3", "backup.4"):
        if target in named:
            assert plan(topology, f"stop:{target}@epoch=1,for=1s")[0].target == target
        else:
            with pytest.raises(ConfigError, match=r"backup\.servers"):
                plan(topology, f"kill:{target}@epoch=1")


def test_servers_that_the_user_runs_are_not_hit(topology: Topology) -> None:
    topology = dataclasses.replace(topology, backup=dataclasses.replace(topology.backup, servers=["tcp://b:1"]))
    with pytest.raises(ConfigError, match="starts no backup server"):
        plan(topology, "kill:backup@epoch=1")


def test_cut_is_not_offered_and_its_refusal_names_the_way(topology: Topology) -> None:
    assert "cut" not in GRAMMAR
    with pytest.raises(ConfigError) as caught:
        plan(topology, "cut:processor.1@epoch=2,for=1s")
    assert "use stop:processor.1@epoch=2,for=1s" in caught.value.remedy
