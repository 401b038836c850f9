"""Import paths of operators: what is found, and what the user is told when it is not."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.operators.learning import kmeans, logistic_regression
from riprap.operators.loading import load_operator, make_operator


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's directory, with modules of their own, forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_good.py").write_text(
        textwrap.dedent("""
        from riprap.operators.base import Processor
        not_a_class = 3
        class NotAnOperator: pass
        class Count(Processor):
            def __init__(self, *, step, limit=3):
                self.step = 1 / step
        """)
    )
    (tmp_path / "own_raises.py").write_text("x = 1\nraise RuntimeError('no luck')\n")
    former = "import riprap\nclass Count(riprap.DataflowOperator):\n    def start(self, place): ...\n"
    (tmp_path / "own_former.py").write_text(former)
    (tmp_path / "own_typo.py").write_text("def f(:\n")
    (tmp_path / "own_needs.py").write_text("import a_module_that_is_not_there\n")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def test_the_packages_own_and_the_users_classes_are_found(own: Path) -> None:
    assert load_operator("logistic_regression:Gradient") is logistic_regression.Gradient
    assert load_operator("own_good:Count").__name__ == "Count"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("own_good", "not an operator's import path"),
        ("own_good:", "not an operator's import path"),
        ("nowhere:Count", "there is no module nowhere"),
        ("nowhere:Count", "there is no module nowhere"),
        ("own_good:Cuont", "own_good has no Cuont\n  remedy: It has Count."),
        ("own_good:NotAnOperator", "not a Source, Processor, Sink or DataflowOperator"),
        ("own_good:not_a_class", "not a Source, Processor, Sink or DataflowOperator"),
        ("own_former:Count", "Count defines start(place), which is open(context) now"),
        ("own_raises:X", "RuntimeError: no luck\n  {own}/own_raises.py:2: raise RuntimeError('no luck')"),
        ("own_typo:X", "own_typo.py:1: def f(:"),
        ("own_needs:X", "own_needs.py:1: import a_module_that_is_not_there\n  remedy: Install a_module_that_is_not_th"),
    ],
)
def test_what_is_wrong_with_a_path_is_said(own: Path, path: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_operator(path)
    assert message.format(own=own) in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        (
            "kmeans:Assignment",
            {"n": 3},
            "option n unknown option, expected one of: k: whole number = 10; spread: number = 1.0",
        ),
        ("svm:Gradient", {"k": 3}, "expected no options\n  remedy: leave it out"),
        ("kmeans:Assignment", {"k": -1}, "option k is -1, expected a whole number from 1 (centres)"),
        ("own_good:Count", {}, "option step missing"),
        ("own_good:Count", {"step": 0}, "division by zero\n  {own}/own_good.py:7: self.step = 1 / step"),
    ],
)
def test_what_is_wrong_with_options_is_said(own: Path, path: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_operator(path, options)
    assert message.format(own=own) in str(caught.value)


def test_options_reach_the_constructor() -> None:
    operator = make_operator("kmeans:Assignment", {"k": 3})
    assert isinstance(operator, kmeans.Assignment)
    with pytest.raises(ConfigError):
        make_operator("kmeans:Assignment", {"k": 3.5})
