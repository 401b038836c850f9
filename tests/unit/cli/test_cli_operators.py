"""`riprap operators`: the list, one operator, the page of documentation, and the user's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from riprap.configs.schemes import SCHEMES
from riprap.engine.cli.operators import command
from riprap.operators.shipped import SHIPPED

PAGE = Path(__file__).parents[3] / "docs/operators_reference.md"
OWN = """\
from typing import Annotated

from riprap import DataflowOperator, Option


class Mine(DataflowOperator):
    \"\"\"Adds numbers up. A second sentence.\"\"\"

    meanings = {"sum": "what they add up to"}
    combines = {"sum": "sum"}

    def __init__(self, step: Annotated[int, Option("How far it goes", unit="metres", low=1)], other=3):
        pass

    def results(self):
        \"\"\"The `sum`.\"\"\"
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=True)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's directory, with a module of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_sums.py").write_text(OWN)
    yield tmp_path
    sys.modules.pop("own_sums", None)


def test_the_page_is_what_the_command_prints() -> None:
    assert PAGE.read_text() == run("--markdown").output, "riprap operators --markdown > docs/operators_reference.md"


def test_the_list_has_every_operator_in_a_line_and_the_schemes() -> None:
    lines = run().output.splitlines()
    names = [name for names in SHIPPED.values() for name in names]
    assert [line.split()[0] for line in lines if line.startswith("  ") and "schemes:" not in line] == names
    assert (
        sum("schemes: none, approximate, barrier, erasure, mini_batch, partially_active" in line for line in lines) == 3
    )


def test_one_operator_with_its_options_units_metrics_results_and_a_stage() -> None:
    told = run("heavy_hitters:GlobalSketch").output
    for words in (
        "threshold: number = 10000000.0  (above 0, bytes)",
        "A flow of more than that in a window is a heavy hitter.",
        "heavy_hitters: heavy hitters found so far",
        "schemes: none, approximate, barrier, mini_batch, optimistic, partially_active, reactive, stop_the_world,",
        "upstream_backup",
        "results: One entry per heavy hitter of a window",
        'globalsketch: {operator: "heavy_hitters:GlobalSketch"}',
    ):
        assert words in told


def test_an_operator_that_needs_order_names_only_schemes_that_repeat_it() -> None:
    assert "schemes: none, barrier, mini_batch, reactive, stop_the_world\n" in run("asynchronous_paths").output


def test_a_module_stands_for_all_of_its_operators() -> None:
    told = run("svm").output
    assert "svm:Gradient  (processor)" in told and "svm:Model  (sink)" in told


def test_the_same_for_scripts() -> None:
    model = json.loads(run("svm:Model", "--json").output)
    assert model["kind"] == "sink" and set(model["schemes"]) == set(SCHEMES) - {"optimistic"}
    rate = model["options"][0]
    assert (rate["option"], rate["type"], rate["default"], rate["range"], rate["required"]) == (
        "learning_rate", "number or null", None, "above 0", False,
    )  # fmt: skip
    assert {metric["name"] for metric in model["metrics"]} == {"loss", "accuracy", "recent_loss", "recent_accuracy"}
    assert len(json.loads(run("--json").output)) == sum(map(len, SHIPPED.values()))


def test_an_operator_of_the_users_own(own: Path) -> None:
    told = run("own_sums:Mine").output
    for words in (
        "own_sums:Mine  (dataflow)\nAdds numbers up.\nA second sentence.",
        "step: whole number  (from 1, metres)\n      How far it goes.",
        "other: any value = 3",
        "sum: what they add up to (of several tasks: the sum)",
        "results: The `sum`.",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("svn", "did you mean svm?"),
        ("svn:Model", "Did you mean svm:Model?"),
        ("svm:Modell", "It has Gradient, Model."),
        ("nothing_like_it", "`riprap operators` lists"),
    ],
)
def test_a_near_miss_is_corrected(own: Path, name: str, words: str) -> None:
    assert words in str(run(name).exception)


def test_help_has_an_example() -> None:
    assert "riprap operators svm:Model" in run("--help").output
