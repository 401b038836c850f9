"""Short names of shipped operators, old import paths, and users' modules of the same names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.operators.learning import svm
from riprap.operators.loading import load_operator
from riprap.operators.names import FAMILIES, full_name, newer_name, short_name
from riprap.operators.text import grep

REPO = Path(__file__).resolve().parents[3]
OWN = """\
from riprap import Processor


class Gradient(Processor):
    def process_data(self, items):
        return []
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's, empty; what was imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(REPO))])
    for name in [name for name in sys.modules if name.partition(".")[0] in ("operators", "svm")]:
        monkeypatch.delitem(sys.modules, name)  # what another test has imported from its directory
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if not name.startswith("riprap"):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("path", "full"),
    [
        ("svm:Gradient", "riprap.operators.learning.svm:Gradient"),
        ("grep:Grep", "riprap.operators.text.grep:Grep"),
        ("operators.svm:Gradient", "riprap.operators.learning.svm:Gradient"),
        ("operators.dataflow.grep:Grep", "riprap.operators.text.grep:Grep"),
        ("riprap.operators.svm:Gradient", "riprap.operators.learning.svm:Gradient"),
        ("riprap.operators.dataflow.grep:Grep", "riprap.operators.text.grep:Grep"),
        ("riprap.operators.learning.svm:Gradient", "riprap.operators.learning.svm:Gradient"),
        ("mine.svm:Gradient", "mine.svm:Gradient"),
        ("dataflow.grep:Grep", "dataflow.grep:Grep"),
        ("nowhere:Gradient", "nowhere:Gradient"),
        ("../svm:Gradient", "../svm:Gradient"),
        ("*:Gradient", "*:Gradient"),
        ("svm", "svm"),
    ],
)
def test_names_in_full(directory: Path, path: str, full: str) -> None:
    assert full_name(path) == full
    assert full_name(full) == full


def test_shipped_operators_are_found_by_all_their_names(directory: Path) -> None:
    for path in ("svm:Gradient", "operators.svm:Gradient", "riprap.operators.learning.svm:Gradient"):
        assert load_operator(path) is svm.Gradient
    assert load_operator("grep:Grep") is grep.Grep


def test_a_users_own_module_comes_first(directory: Path) -> None:
    (directory / "svm.py").write_text(OWN)
    (directory / "operators").mkdir()
    (directory / "operators" / "kmeans.py").write_text(OWN)
    assert load_operator("svm:Gradient").__module__ == "svm"
    assert load_operator("operators.kmeans:Gradient").__module__ == "operators.kmeans"
    assert newer_name("operators.kmeans:Gradient") is None
    with pytest.raises(ConfigError, match="svm has no Model"):
        load_operator("svm:Model")
    assert load_operator("riprap.operators.learning.svm:Model") is svm.Model


def test_in_a_checkout_the_folder_of_operators_is_not_the_users(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (Path(svm.__file__).parents[1] / "setup.py").exists():
        return  # of an installed copy
    monkeypatch.chdir(REPO)
    assert load_operator("operators.svm:Gradient") is svm.Gradient


@pytest.mark.parametrize(
    ("path", "newer"),
    [
        ("operators.svm:Gradient", "svm:Gradient"),
        ("operators.dataflow.grep:Grep", "grep:Grep"),
        ("riprap.operators.svm:Gradient", "svm:Gradient"),
        ("riprap.operators.dataflow.grep:Grep", "grep:Grep"),
        ("svm:Gradient", None),
        ("riprap.operators.learning.svm:Gradient", None),
        ("operators.nowhere:Gradient", None),
    ],
)
def test_old_names_have_a_newer_one(directory: Path, path: str, newer: str | None) -> None:
    assert newer_name(path) == newer


def test_short_names_are_those_of_shipped_operators_alone() -> None:
    assert short_name("riprap.operators.text.grep:Grep") == "grep:Grep"
    assert short_name("mine.grep:Grep") == "mine.grep:Grep"


def test_no_two_shipped_modules_share_a_short_name() -> None:
    home = REPO / "operators"
    names = [path.stem for folder in (".", *FAMILIES) for path in (home / folder).glob("*.py")]
    shared = {name for name in names if names.count(name) > 1}
    assert shared == {"__init__"}
