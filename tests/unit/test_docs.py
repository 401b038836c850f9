"""The documentation names only what exists: links, files, subcommands, topologies, and the example as it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from configs.topology import load
from engine.cli.main import COMMANDS

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


def test_the_example_of_the_operators_page_is_the_file() -> None:
    shown = re.search(r"```python\n# word_lengths.py: (.*?)\n(.*?)```", (REPO / "docs/operators.md").read_text(), re.S)
    assert shown
    text = (REPO / "examples/word_lengths.py").read_text()
    assert text.endswith(shown[2]), "docs/operators.md and examples/word_lengths.py differ"


def test_the_examples_topology_is_sound() -> None:
    assert load(REPO / "examples/word_lengths.yaml").scheme == "erasure"


def test_every_figure_is_shown_somewhere() -> None:
    text = "".join(page.read_text() for page in PAGES)
    figures = [path for form in ("svg", "png") for path in (REPO / "bench/results").glob(f"*.{form}")]
    assert figures and [path.name for path in figures if f"/{path.name})" not in text] == []
