"""The defaults of the learning operators beside scikit-learn's: `python -m bench.defaults`, two minutes.

Each operator learns from the first 80 % of the rows in micro-batches of 1 % of them, without a single option given, and
is judged on the rest; beside it scikit-learn's best estimator for the same loss, on the same standardised columns.
Writes bench/results/defaults.json.
"""

from __future__ import annotations

import gzip
import importlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.runs import save, table
from riprap.operators.base import Context
from riprap.operators.inputs.shard_source import ShardSource
from riprap.operators.learning.curvature import second_moments
from riprap.operators.learning.estimators import predict
from riprap.prep_spark import synth
from riprap.prep_spark.kdd12 import MAXIMA
from riprap.prep_spark.shards import write_manifest

DATA = Path(__file__).parents[1] / "tests/data"
TRAINED = 0.8
EPOCHS, PASSES = 100, 3
SYNTHESIZED_ROWS = 100_000
A9A_COLUMNS = 124

RIVALS: dict[str, tuple[tuple[str, str, dict[str, Any]], ...]] = {
    "logistic_regression": (
        ("sklearn.linear_model", "LogisticRegression", {"max_iter": 300}),
        ("sklearn.linear_model", "SGDClassifier", {"loss": "log_loss", "random_state": 0}),
    ),
    "svm": (
        ("sklearn.svm", "LinearSVC", {"loss": "hinge", "random_state": 0}),
        ("sklearn.linear_model", "SGDClassifier", {"loss": "hinge", "random_state": 0}),
    ),
    "linear_regression": (("sklearn.linear_model", "LinearRegression", {}),),
}
"""Algorithm -> module, class and options of scikit-learn's estimators for the same loss."""


@dataclass(frozen=True)
class Score:
    """Accuracy of a classifier, R^2 of a regression, on held-back rows: ours as the items are and standardised."""

    data: str
    algorithm: str
    as_they_are: float
    standardised: float
    theirs: float
    rival: str

    @property
    def gap(self) -> float:
        """The shortfall of the worse of ours against theirs."""
        return self.theirs - min(self.as_they_are, self.standardised)


def a9a() -> np.ndarray:
    """Adult: label first, then 123 columns of 0 and 1."""
    with gzip.open(DATA / "a9a/a9a_first20k.libsvm.gz", "rt") as file:
        lines = [line.split() for line in file]
    rows = np.zeros((len(lines), A9A_COLUMNS))
    for row, (label, *features) in zip(rows, lines, strict=True):
        row[0] = float(label)
        row[[int(feature.partition(":")[0]) for feature in features]] = 1.0
    return rows


def higgs() -> np.ndarray:
    """The first rows of HIGGS: label first, then 28 columns."""
    return np.loadtxt(DATA / "higgs/HIGGS_first10k.csv.gz", delimiter=",")


def kdd12() -> np.ndarray:
    """The first rows of KDD Cup 2012, clicked or not and 11 columns, scaled as `riprap prep kdd12` does."""
    return _scaled(DATA / "kdd12/training_first10k.tsv.gz")


def synthesized_higgs() -> np.ndarray:
    """Rows that `riprap prep synth higgs` makes."""
    with tempfile.TemporaryDirectory() as folder:
        synth.higgs(f"{folder}/rows", SYNTHESIZED_ROWS)
        return np.loadtxt(f"{folder}/rows", delimiter=",")


def synthesized_kdd12() -> np.ndarray:
    """Rows that `riprap prep synth kdd12` makes, scaled."""
    with tempfile.TemporaryDirectory() as folder:
        synth.kdd12(f"{folder}/rows", SYNTHESIZED_ROWS)
        return _scaled(Path(folder) / "rows")


REAL: dict[str, Callable[[], np.ndarray]] = {"a9a": a9a, "HIGGS": higgs, "KDD12": kdd12}
SYNTHESIZED: dict[str, Callable[[], np.ndarray]] = {
    "HIGGS, synthesized": synthesized_higgs,
    "KDD12, synthesized": synthesized_kdd12,
}


def scores(data: str, rows: np.ndarray) -> Iterator[Score]:
    """The scores of all algorithms on rows whose first column is the label."""
    cut = int(len(rows) * TRAINED)
    standard = standardised(rows, cut)
    for algorithm in RIVALS:
        as_they_are, standardised_score = (
            judged(train(algorithm, items[:cut]), items[cut:]) for items in (rows, standard)
        )
        theirs, rival = max(_rivals(algorithm, standard[:cut], standard[cut:]))
        yield Score(data, algorithm, as_they_are, standardised_score, theirs, rival)


def standardised(rows: np.ndarray, cut: int) -> np.ndarray:
    """The same with features of mean 0 and deviation 1 over the first `cut` rows."""
    deviations = rows[:cut, 1:].std(axis=0)
    features = (rows[:, 1:] - rows[:cut, 1:].mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
    return np.column_stack([rows[:, 0], features])


def train(algorithm: str, rows: np.ndarray, epochs: int = EPOCHS, passes: int = PASSES) -> dict[str, np.ndarray]:
    """The model that the operators learn by their defaults, `epochs` micro-batches a pass, knowing what a job knows:
    the moments of what its source samples."""
    module = importlib.import_module(f"riprap.operators.learning.{algorithm}")
    columns = tuple(f"c{i}" for i in range(rows.shape[1]))
    context = Context(columns, "c0", moments=second_moments(sampled(rows), range(1, rows.shape[1])))
    processor, sink = module.Gradient(), module.Model()
    processor.open(context)
    sink.processor = processor
    sink.open(context)
    batches = [batch for _ in range(passes) for batch in np.array_split(rows, epochs)]
    for epoch, batch in enumerate(batches, start=1):
        sink.aggregate(processor.process_data(batch))
        processor.process_feedback(sink.commit(epoch))
    model: dict[str, np.ndarray] = sink.model()
    return model


def sampled(rows: np.ndarray) -> list[np.ndarray]:
    """The part of these rows that a job looks at before it starts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part-00000.npy"
        np.save(path, rows)
        entry = {"file": path.name, "rows": len(rows), "bytes": path.stat().st_size, "crc32": "00000000"}
        columns = [f"c{i}" for i in range(rows.shape[1])]
        write_manifest(folder, [entry], {"columns": columns, "label": "c0"})
        source = ShardSource()
        source.open(Context(input={"path": folder, "verify": False, "bad_rows": "fail"}))
        return [items.copy() for _, items in source.sample()]


def judged(model: dict[str, np.ndarray], rows: np.ndarray) -> float:
    """Accuracy where it tells classes, else R^2."""
    predicted = predict(model, rows[:, 1:])
    if "classes" in model:
        return float(np.mean(predicted == rows[:, 0]))
    return 1.0 - float(np.square(rows[:, 0] - predicted).sum() / np.square(rows[:, 0] - rows[:, 0].mean()).sum())


def _rivals(algorithm: str, learn: np.ndarray, judge: np.ndarray) -> Iterator[tuple[float, str]]:
    for module, name, options in RIVALS[algorithm]:
        estimator = getattr(importlib.import_module(module), name)(**options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of iterations that did not converge: it is judged as it is
            estimator.fit(learn[:, 1:], learn[:, 0])
        yield float(estimator.score(judge[:, 1:], judge[:, 0])), name


def _scaled(path: Path) -> np.ndarray:
    rows = np.genfromtxt(path, delimiter="\t", filling_values=0.0)
    rows /= np.array(list(MAXIMA.values()))
    rows[:, 0] = rows[:, 0] > 0
    return rows


def main() -> None:
    """Print and keep the table."""
    found = [score for name, rows in (REAL | SYNTHESIZED).items() for score in scores(name, rows())]
    heading = ("data", "algorithm", "ours", "ours, standardised", "scikit-learn", "its estimator", "short by")
    digits = [
        (
            s.data,
            s.algorithm,
            *(f"{v:.4f}" for v in (s.as_they_are, s.standardised, s.theirs)),
            s.rival,
            f"{s.gap:+.4f}",
        )
        for s in found
    ]
    save(
        "defaults",
        "Learning without a learning rate",
        {"Accuracy on held-back rows (R^2 of linear_regression)": table(heading, digits)},
        {f"{s.data}: {s.algorithm}": [s.as_they_are, s.standardised, s.theirs] for s in found},
        data=f"real excerpts: {', '.join(REAL)}; synthesized, {SYNTHESIZED_ROWS:,} rows: {', '.join(SYNTHESIZED)}",
    )


if __name__ == "__main__":
    main()
