"""The documentation names only what exists: links, files, subcommands, topologies, and the example as it runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow
import pytest

from riprap.configs.loading import load
from riprap.configs.sections import StageOptions
from riprap.configs.shape import EdgeSection
from riprap.configs.topology import SECTIONS, Topology
from riprap.engine.cli.main import COMMANDS
from riprap.operators.learning.estimators import save_model
from riprap.operators.loading import load_operator
from riprap.operators.shipped import SHIPPED

REPO = Path(__file__).resolve().parents[2]
PAGES = [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    folders = "codec|configs|operators|controller|engine|prep_spark|tests|bench|examples"
    for path in re.findall(rf"`((?:{folders})/[a-z0-9_/.]*)`", page.read_text()):
        assert (REPO / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_subcommands_exist(page: Path) -> None:
    for name in re.findall(r"(?:`|\$ |^)riprap ([a-z]+)\b", page.read_text(), re.M):
        assert name in COMMANDS, name


def test_the_planning_page_names_all_joins() -> None:
    (told,) = re.findall(r"among those shipped, (.*?)\)", (REPO / "docs/planning.md").read_text(), re.S)
    names = [name for family in SHIPPED.values() for name in family]
    joins = {name.partition(":")[2] for name in names if getattr(load_operator(name), "correlated_inputs", False)}
    assert set(re.findall("`(.*?)`", told)) == joins


def test_the_example_of_the_operators_page_is_the_file() -> None:
    shown = re.search(r"```python\n# word_lengths.py: (.*?)\n(.*?)```", (REPO / "docs/operators.md").read_text(), re.S)
    assert shown
    text = (REPO / "examples/word_lengths.py").read_text()
    assert text.endswith(shown[2]), "docs/operators.md and examples/word_lengths.py differ"


def test_the_examples_topology_is_sound() -> None:
    assert load(REPO / "examples/word_lengths.yaml").scheme == "erasure"


def test_the_guide_has_all_keys_of_a_topology() -> None:
    table = (REPO / "docs/guide.md").read_text().partition("All keys:\n\n")[2].partition("\n\n")[0]
    told = set(re.findall(r"[a-z_]+", table))
    sections = (Topology, StageOptions, EdgeSection, *SECTIONS.values())
    assert set().union(*(section.keys() for section in sections)) - told == set()


def test_every_figure_is_shown_somewhere() -> None:
    text = "".join(page.read_text() for page in PAGES)
    figures = [path for form in ("svg", "png") for path in (REPO / "bench/results").glob(f"*.{form}")]
    assert figures and [path.name for path in figures if f"/{path.name})" not in text] == []


ROWS = np.random.default_rng(3).standard_normal((40, 3))
TAKEN = {
    "operators.md": {},
    "dataflow.md": {"hashed": lambda addresses: addresses},
    "states.md": {},
    "time.md": {},
    "results.md": {},
    "guide.md": {"features": ROWS},
    "guarantees.md": {},
    "shards.md": {
        "X": ROWS,
        "y": (ROWS[:, 0] > 0).astype(float),
        "frame": pyarrow.table({"late": [0.0, 1.0], "delay": [1.5, 20.0]}),
        "chunks": lambda: iter([(ROWS, ROWS[:, 0]), (ROWS, ROWS[:, 1])]),
    },
}
"""By page what its examples take as given."""
ELSEWHERE = {
    "python_api.md": "tests/scenarios/test_python_api.py",
    "iteration.md": "tests/scenarios/test_loops.py",
    "first_hour.md": "tests/scenarios/test_first_hour.py",
    "adding_a_scheme.md": "tests/sim/test_adding_a_scheme.py",
}


def python_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if python_of(page)], ids=lambda page: page.name)
def test_the_examples_in_python_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name in ELSEWHERE:
        assert f'docs/{page.name}"' in (REPO / ELSEWHERE[page.name]).read_text()
        return
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(REPO / "examples"))
    (tmp_path / ".data").mkdir()
    (tmp_path / "runs/my-run").mkdir(parents=True)
    model = {"coefficients": np.ones(3), "intercept": np.zeros(1), "classes": np.array([0.0, 1.0])}
    save_model(tmp_path / "runs/my-run/model.npz", model)
    names: dict[str, object] = dict(TAKEN[page.name])
    for example in python_of(page):
        exec(compile(example, str(page), "exec"), names)


WHOLE = re.compile(r"```yaml\n(job: .*?)```", re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if WHOLE.search(page.read_text())], ids=lambda page: page.name)
def test_the_topologies_load(page: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    for text in WHOLE.findall(page.read_text()):
        (tmp_path / "topology.yaml").write_text(text)
        load(tmp_path / "topology.yaml", [f"input.path={tmp_path}"])
