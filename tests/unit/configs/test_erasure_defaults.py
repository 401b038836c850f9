"""`scheme: erasure` alone: k and r follow from the tasks of the striped stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.loading import load

Write = Callable[..., Path]
GIVEN = "  code: gf256\n  k: 4\n  r: 2\n"


@pytest.mark.parametrize(
    ("tasks", "k", "r"), [(2, 1, 1), (3, 2, 1), (4, 2, 2), (5, 3, 2), (6, 4, 2), (18, 16, 2), (40, 16, 2)]
)
def test_by_the_number_of_tasks(write: Write, tasks: int, k: int, r: int) -> None:
    chosen = load(write((GIVEN, ""), ("parallelism: 6", f"parallelism: {tasks}"))).fault_tolerance
    assert (chosen["k"], chosen["r"]) == (k, r)


@pytest.mark.parametrize(
    ("given", "k", "r"),
    [
        ("k: 4", 4, 2),
        ("k: 5", 5, 1),
        ("k: 3", 3, 2),
        ("r: 1", 5, 1),
        ("r: 3", 3, 3),
        ("r: 0", 6, 0),
        ("code: xor", 5, 1),
    ],
)
def test_what_is_given_stays(write: Write, given: str, k: int, r: int) -> None:
    chosen = load(write((GIVEN, f"  {given}\n"))).fault_tolerance
    assert (chosen["k"], chosen["r"]) == (k, r)


def test_a_k_that_leaves_no_task_for_parity_is_refused(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"at least k \+ r = 7 tasks"):
        load(write((GIVEN, "  k: 6\n")))


def test_one_task_is_refused(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"is 1; expected at least k \+ r = 2 tasks"):
        load(write((GIVEN, ""), ("parallelism: 6", "parallelism: 1")))


def test_another_scheme_needs_one_set(write: Write) -> None:
    path = write(("scheme: erasure\n" + GIVEN, "scheme: none\n"))
    assert load(path, ["fault_tolerance.scheme=erasure"]).fault_tolerance["k"] == 4
