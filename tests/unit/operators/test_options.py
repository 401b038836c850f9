"""Options in signatures: what they admit, how they are spelled, and one message for all that are wrong."""

from __future__ import annotations

import math
from typing import Annotated, Any

import pytest

from riprap.codec.errors import ConfigError
from riprap.operators.options import Option, check, options_of, takes_any


class Sample:
    def __init__(
        self,
        *,
        share: Annotated[float, Option("A share", low=0, high=1, below=True)],
        k: Annotated[int, Option("A count", unit="centres", low=1)] = 10,
        slack: Annotated[float | None, Option("How much is lost", unit="bytes", low=0, infinite=True)] = None,
        kind: Annotated[str, Option("Which one", choices=("one", "two"))] = "one",
        flag: Annotated[bool, Option("Or not")] = False,
        free: Any = 3,
    ) -> None:
        check(self, share=share, k=k, slack=slack, kind=kind, flag=flag)


class Narrower(Sample):
    def __init__(self, k: int) -> None:
        super().__init__(share=0.5, k=k)


class Undescribed:
    def __init__(self, a: NoSuchType, *others: int, **rest: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_signatures_read_as_yaml() -> None:
    assert [option.signature for option in options_of(Sample).values()] == [
        "share: number", "k: whole number = 10", "slack: number = null", "kind: text = one",
        "flag: true or false = false", "free: any value = 3",
    ]  # fmt: skip


def test_what_is_expected_names_range_unit_and_choices() -> None:
    assert [option.expected for option in options_of(Sample).values()] == [
        "a number from 0 below 1", "a whole number from 1 (centres)", "a number from 0, or .inf (bytes), or null",
        "one of one, two", "true or false", "any value",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("share", (0, 0.0, 0.99), (1, 1.0, -0.1, math.nan, math.inf, "0.5", True, None, [0.5], 10**400)),
        ("k", (1, 10**9, 2**63), (0, 1.0, True, "1", None, math.inf, 10**400, -(10**400))),
        ("slack", (None, 0, 3.5, math.inf), (-1, -math.inf, math.nan, False, 10**400)),
        ("kind", ("one", "two"), ("three", "", 1, None)),
        ("flag", (True, False), (0, 1, "true", None)),
        ("free", (None, 3, "a", [1]), ()),
    ],
)
def test_what_each_admits(name: str, right: tuple[object, ...], wrong: tuple[object, ...]) -> None:
    option = options_of(Sample)[name]
    assert all(option.admits(value) for value in right)
    assert not any(option.admits(value) for value in wrong)


def test_all_that_is_wrong_comes_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Sample(share=2, k=0, kind="three")
    assert str(caught.value) == (
        "the option share is 2, not a number from 0 below 1; the option k is 0, not a whole number from 1 (centres); "
        "the option kind is 'three', not one of one, two\n  remedy: Correct share and k and kind in the stage."
    )


def test_a_subclass_of_other_options_is_checked_by_those_of_its_base() -> None:
    with pytest.raises(ConfigError, match="the option k is -1"):
        Narrower(-1)


def test_what_nobody_described_is_not_checked() -> None:
    assert [option.signature for option in options_of(Undescribed).values()] == ["a: any value"]
    assert takes_any(Undescribed) and not takes_any(Sample) and options_of(object) == {}


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (Option("the width", low=1, high=2**24), "from 1 to 16777216"),
        (Option("a share", low=0, above=True, high=0.5), "above 0 to 0.5"),
        (Option("a bound", low=1e-9, high=1e300), "from 1e-09 to 1e+300"),
        (Option("any"), ""),
    ],
)
def test_bounds_are_told_in_full(option: Option, words: str) -> None:
    assert option.range == words
