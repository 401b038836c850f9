"""MC-trees: the paper's numbers, and counting beside enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import FIG_1, FIG_2, graph, small_topologies

from riprap.controller.planning.fidelity import output_fidelity
from riprap.controller.planning.trees import TooManyTrees, count_trees, tasks_of, trees_of


@pytest.mark.parametrize(("joins", "trees"), [((), 16), (("o3",), 8)])
def test_the_trees_of_figure_1(joins: tuple[str, ...], trees: int) -> None:
    made = graph(*FIG_1, joins=joins)
    assert count_trees(made) == len(trees_of(made)) == trees


def test_the_trees_of_figure_2() -> None:
    assert count_trees(graph(*FIG_2)) == 4 and count_trees(graph(*FIG_2, joins=("o3",))) == 4


@pytest.mark.parametrize("made", small_topologies(24, seed=11), ids=repr)
def test_counting_agrees_with_listing_and_listing_with_of(made: object) -> None:
    one = made.graph  # type: ignore[attr-defined]
    trees = trees_of(one)
    assert count_trees(one) >= len(trees)
    if not any(group.correlated for group in one.operators):
        assert count_trees(one) == len(trees)
    for column in (np.random.default_rng(12).random((one.size, 12)) < 0.7).T:
        whole = sum(value for tree, value in trees.items() if all(column[tasks_of(tree)]))
        assert output_fidelity(one, column) == pytest.approx(whole)


@pytest.mark.parametrize("made", small_topologies(12, seed=13), ids=repr)
def test_a_tree_is_minimal_and_complete(made: object) -> None:
    one = made.graph  # type: ignore[attr-defined]
    trees = list(trees_of(one))
    for tree in trees[:20]:
        assert output_fidelity(one, one.mask(tasks_of(tree))) > 0
        if not any(other != tree and other & ~tree == 0 for other in trees):
            for task in tasks_of(tree):
                assert output_fidelity(one, one.mask(tasks_of(tree & ~(1 << task)))) == 0


def test_too_many_trees_are_refused_before_they_are_listed() -> None:
    stages = {f"o{number}": 20 for number in range(12)}
    made = graph(stages, [(f"o{number}", f"o{number + 1}", "full") for number in range(11)])
    assert count_trees(made) == 20**12
    with pytest.raises(TooManyTrees, match="more than 20,000"):
        trees_of(made)
