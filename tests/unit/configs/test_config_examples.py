"""Every example under configs/ is sound, and its operators take the options that it gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.document import read_document
from riprap.configs.loading import load
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.loading import load_operator, make_operator


def wants_dataflow(path: Path) -> bool:
    """Whether the operators of an example are DataflowOperators."""
    stages = read_document(path).values["stages"].values()
    return any(issubclass(load_operator(stage["operator"]), DataflowOperator) for stage in stages)


EXAMPLES = sorted((Path(__file__).parents[3] / "configs").glob("*.yaml"))
DATAFLOW = [path for path in EXAMPLES if wants_dataflow(path)]
ROLES = [path for path in EXAMPLES if path not in DATAFLOW]


def test_four_algorithms_on_two_data_sets_and_what_stands_alone() -> None:
    names = {path.stem for path in ROLES}
    algorithms = ("kmeans", "linear_regression", "logistic_regression", "svm")
    pairs = {f"{algorithm}_{data}" for algorithm in algorithms for data in ("higgs", "kdd12")}
    alone = {"logistic_prediction", "kmeans_assignment", "network_prediction", "random_features"}
    assert names == pairs | {f"{name}_higgs" for name in alone} | {"many_models"}


def inputs(path: Path, shards: Path) -> list[str]:
    """Overrides by which all that the example reads is there."""
    stages = [name for name, stage in read_document(path).values["stages"].items() if "input" in stage]
    return [f"input.path={shards}", *(f"stages.{name}.input.path={shards}" for name in stages)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_loads_and_its_operators_can_be_made(path: Path, shards: Path) -> None:
    topology = load(path, inputs(path, shards))
    assert topology.job == path.stem
    for stage in topology.stages.values():
        make_operator(stage.operator, stage.options)


@pytest.mark.parametrize("scheme", ["none", "erasure", "replication"])
@pytest.mark.parametrize("path", ROLES, ids=lambda path: path.stem)
def test_the_scheme_is_one_key(path: Path, shards: Path, scheme: str) -> None:
    topology = load(path, [f"input.path={shards}", f"fault_tolerance.scheme={scheme}"])
    assert topology.scheme == scheme


@pytest.mark.parametrize("scheme", ["none", "approximate", "mini_batch", "upstream_backup"])
@pytest.mark.parametrize("path", DATAFLOW, ids=lambda path: path.stem)
def test_it_is_for_dataflow_operators_too(path: Path, shards: Path, scheme: str) -> None:
    if scheme == "approximate" and "loop: true" in path.read_text():
        with pytest.raises(ConfigError, match=r"loop: approximate may lose blocks"):
            load(path, [*inputs(path, shards), "fault_tolerance={scheme: approximate}"])
        return
    topology = load(path, [*inputs(path, shards), f"fault_tolerance={{scheme: {scheme}}}"])
    assert topology.scheme == scheme


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_says_what_it_is_and_how_to_run_it(path: Path) -> None:
    first, second = path.read_text().splitlines()[:2]
    assert first.startswith("# ")
    assert f"riprap run configs/{path.name}" in second
