"""The section `placement`: its defaults, and every problem of it named with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.loading import load
from riprap.configs.sections import PlacementOptions

Write = Callable[..., Path]


def with_placement(write: Write, text: str) -> Path:
    return write(("seed: 7\n", f"seed: 7\nplacement: {text}\n"))


def test_a_placement_is_read_with_its_defaults(write: Write) -> None:
    assert load(with_placement(write, "{spread: [rack, host]}")).placement == PlacementOptions(
        ("rack", "host"), 1, "fail"
    )
    full = load(with_placement(write, "{spread: [rack], max_skew: 2, when_unsatisfiable: best_effort}")).placement
    assert full == PlacementOptions(("rack",), 2, "best_effort")
    assert load(with_placement(write, "{}")).placement == PlacementOptions(("host",), 1, "fail")
    assert load(write()).placement is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rack", "placement: "),
        ("{sprad: [rack]}", "did you mean spread?"),
        ("{spread: rack}", "placement.spread: is 'rack'"),
        ("{spread: []}", "placement.spread: "),
        ("{spread: [rack 1]}", "the key of a label, for example rack or host"),
        ("{max_skew: 0}", "placement.max_skew: is 0"),
        ("{max_skew: '1'}", "placement.max_skew: is '1'"),
        ("{when_unsatisfiable: DoNotSchedule}", "placement.when_unsatisfiable: is 'DoNotSchedule'"),
    ],
)
def test_what_is_wrong_with_it_is_named_with_its_line(write: Write, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(with_placement(write, text))
    assert words in str(caught.value) and "job.yaml:5" in str(caught.value), caught.value
