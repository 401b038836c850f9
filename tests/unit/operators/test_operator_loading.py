"""Import paths of operators: what is found, and what the user is told when it is not."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from codec.errors import ConfigError
from operators import kmeans, logistic_regression
from operators.loading import load_operator, make_operator


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's directory, with modules of their own, forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_good.py").write_text(
        textwrap.dedent("""
        from operators.base import Processor
        not_a_class = 3
        class NotAnOperator: pass
        class Count(Processor):
            def __init__(self, *, step, limit=3):
                self.step = 1 / step
        """)
    )
    (tmp_path / "own_raises.py").write_text("x = 1\nraise RuntimeError('no luck')\n")
    (tmp_path / "own_typo.py").write_text("def f(:\n")
    (tmp_path / "own_needs.py").write_text("import a_module_that_is_not_there\n")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def test_the_packages_own_and_the_users_classes_are_found(own: Path) -> None:
    assert load_operator("operators.logistic_regression:Gradient") is logistic_regression.Gradient
    assert load_operator("own_good:Count").__name__ == "Count"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("own_good", "not an operator's import path"),
        ("own_good:", "not an operator's import path"),
        ("nowhere:Count", "there is no module nowhere"),
        ("operators.nowhere:Count", "there is no module operators.nowhere"),
        ("own_good:Cuont", "own_good has no Cuont\n  remedy: It has Count."),
        ("own_good:NotAnOperator", "not a Source, Processor, Sink or DataflowOperator"),
        ("own_good:not_a_class", "not a Source, Processor, Sink or DataflowOperator"),
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
        ("operators.kmeans:Assignment", {"n": 3}, "has no option 'n'\n  remedy: Its options are k, spread."),
        ("operators.svm:Gradient", {"k": 3}, "It takes no options"),
        ("operators.kmeans:Assignment", {"k": -1}, "the option k is -1"),
        ("own_good:Count", {}, "needs the option 'step'"),
        ("own_good:Count", {"step": 0}, "division by zero\n  {own}/own_good.py:7: self.step = 1 / step"),
    ],
)
def test_what_is_wrong_with_options_is_said(own: Path, path: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_operator(path, options)
    assert message.format(own=own) in str(caught.value)


def test_options_reach_the_constructor() -> None:
    operator = make_operator("operators.kmeans:Assignment", {"k": 3})
    assert isinstance(operator, kmeans.Assignment)
    with pytest.raises(ConfigError):
        make_operator("operators.kmeans:Assignment", {"k": 3.5})
