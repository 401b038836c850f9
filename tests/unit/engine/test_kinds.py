"""The kind of a job: chosen by its operators or its scheme, and what it tells of its input."""

from __future__ import annotations

import numpy as np
import pytest

from riprap.engine.run.job_schema import JobSchema, RowFacts
from riprap.engine.run.kinds import DATAFLOW, KINDS, ROLES, kind_meant
from riprap.engine.run.kinds.kind import JobKind
from riprap.engine.schemes.registry import SCHEMES
from riprap.operators.base import Operator
from riprap.operators.inputs.forward import Forward
from riprap.operators.learning.svm import Gradient, Model


@pytest.mark.parametrize(
    ("scheme", "operators", "wanted"),
    [
        ("erasure", [Forward, Forward], DATAFLOW),
        ("approximate", [Gradient, Model], ROLES),
        ("erasure", [Forward, Forward, Model], ROLES),
        ("approximate", [Forward, Forward, Model], DATAFLOW),
        ("approximate", [Forward, Gradient, Model], ROLES),
        ("approximate", [Forward, Model], DATAFLOW),
        (None, [Gradient, Model, Forward], ROLES),
        (None, [], ROLES),
    ],
    ids=["all", "all, too", "scheme", "most", "most, too", "half", "no scheme", "nothing"],
)
def test_a_job_is_of_the_kind_that_it_is_meant_to_be_of(
    scheme: str | None, operators: list[type[Operator]], wanted: JobKind
) -> None:
    assert kind_meant(scheme, operators) is wanted


def test_each_operator_is_of_one_kind_and_each_scheme_is_for_some() -> None:
    assert all([kind.has(operator) for kind in KINDS].count(True) == 1 for operator in (Forward, Gradient, Model))
    assert {name for kind in KINDS for name in kind.schemes} == set(SCHEMES)


def test_columns_are_told_where_operators_are_opened_with_them() -> None:
    """By this workers and controllers know the kind."""
    known = JobSchema(1000, 4, ("x",), ("a", "y"), "y")
    assert known.fields() == {"items": 1000, "windows": 4, "verified": ["x"]}
    told = JobSchema(1000, 4, ("x",), ("a", "y"), "y", RowFacts((-1.0, 1.0), np.eye(2))).fields()
    assert told["columns"] == ["a", "y"] and told["label"] == "y" and told["classes"] == [-1.0, 1.0]
    assert isinstance(told["moments"], str)
