"""`--set PATH=VALUE` changes exactly what it names, and says so when there is nothing of that name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError
from riprap.configs.document import parse_scalar
from riprap.configs.loading import load
from riprap.configs.overrides import parse_set

Write = Callable[..., Path]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**63), max_value=2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40),
)


@given(scalars)
def test_scalars_survive_the_trip_through_yaml(value: Any) -> None:
    read = parse_scalar(json.dumps(value))
    assert read == value and type(read) is type(value)


@given(scalars, st.lists(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), min_size=1, max_size=4))
def test_a_set_is_split_at_its_first_equals_sign(value: Any, names: list[str]) -> None:
    assert parse_set(f"{'.'.join(names)}={json.dumps(value)}") == (tuple(names), value)


def test_values_of_the_file_change_and_others_stay(write: Write) -> None:
    topology = load(write(), ["micro_batch=50_000", "edges.1.partitioning=full", "input.limit=9"])
    assert (topology.micro_batch, topology.edges[1].partitioning, topology.input.limit) == (50_000, "full", 9)
    assert (topology.seed, topology.edges[0].partitioning, topology.input.repeat) == (7, "stripe", 1)


def test_sections_and_options_that_the_file_leaves_out_can_be_set(write: Write) -> None:
    topology = load(write(), ["links.window_epochs=9", "stages.sink.options.learning_rate=0.25"])
    assert topology.links.window_epochs == 9
    assert topology.stages["sink"].options == {"learning_rate": 0.25}


def test_another_scheme_needs_one_set_only(write: Write) -> None:
    assert load(write(), ["fault_tolerance.scheme=none"]).fault_tolerance == {"scheme": "none"}
    sets = ["fault_tolerance.copies=3", "fault_tolerance.scheme=replication"]
    assert load(write(), sets).fault_tolerance == {"scheme": "replication", "copies": 3}


def test_options_of_another_scheme_that_were_asked_for_are_still_wrong(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"there is no fault_tolerance.k; expected one of scheme, copies"):
        load(write(), ["fault_tolerance.scheme=replication", "fault_tolerance.k=4"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fault_tolerance.kk=5", "did you mean k?"),
        ("stages.procesor.parallelism=5", "did you mean processor?"),
        ("stages.processor.paralelism=5", "did you mean parallelism?"),
        ("microbatch=5", "did you mean micro_batch?"),
        ("edges.3.to=sink", "expected a number below 3"),
        ("edges.first.to=sink", "expected a number below 3"),
        (f"edges.{'1' * 5000}.to=sink", "expected a number below 3"),
        (f"seed={'1' * 5000}", "is not a YAML value"),
        (f"seed=0x{'f' * 5000}", "a whole number of more than 4200 digits"),
        ("seed.value=3", "seed is a single value"),
        ("micro_batch=lots", "is 'lots'; expected a whole number"),
        ("fault_tolerance.k=5", "at least k + r = 7"),
    ],
)
def test_a_wrong_set_is_named_with_a_suggestion(write: Write, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(), [text])
    assert words in str(caught.value)
    assert "remedy: " in str(caught.value)


def test_the_message_blames_the_command_line_not_the_file(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"^--set fault_tolerance.r=x: fault_tolerance.r: is 'x'"):
        load(write(), ["fault_tolerance.r=x"])


@pytest.mark.parametrize("text", ["", "=", "=5", "k", "a..b=1", ".a=1", "a.=1", "a=[1", 'a="'])
def test_what_is_no_set_at_all_is_refused(write: Write, text: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        load(write(), [text])
