"""Exp#5 (AFX 6.1.2): online logistic regression on clicks; throughput, and the model after ten system failures.

    python -m bench.afstream.exp5_online_logistic [--runs N] [--quick]

The paper's prediction rate is no measure here: one tuple in twenty is a click, and a model that never says "click" is
right for all others. The log loss and the area under the ROC curve tell models apart. The local models stand behind the
source, as the paper's do; the largest Theta is the control that must lose some of what they learned.
"""

from __future__ import annotations

import numpy as np

from bench.afstream import data
from bench.afstream.jobs import Job, Outcome, arguments
from bench.afstream.settings import PAPER_LOGISTIC, PAPER_LOGISTIC_UNDISTURBED
from bench.afstream.tradeoff import Study, measure
from riprap.operators.inputs.job_input import open_input

STAGES = {"read": 2, "train": 2, "average": 1}
WINDOWS = 50
OTHERS = {"mini_batch": 14_770 / 62_699, "upstream_backup": 12_827 / 62_699}
CHUNK = 100_000


def accuracy(outcome: Outcome, test: str) -> dict[str, float]:
    """Log loss and area under the ROC curve of the global model on the test set."""
    score, label = scored(outcome.results[0]["model"], test)
    return {"log loss": log_loss(score, label), "AUC": area(score, label)}


def constant(test: str) -> dict[str, float]:
    """The same of a model that knows nothing but the share of clicks."""
    _, label = scored(np.zeros(1), test)
    share = label.mean()
    return {"log loss": log_loss(np.full(len(label), np.log(share / (1 - share))), label), "AUC": 0.5}


def scored(model: np.ndarray, test: str) -> tuple[np.ndarray, np.ndarray]:
    """The margin of each tuple of the test set, and its label; a model of one weight has no features."""
    stream = open_input(test)
    scores, labels = [], []
    for start in range(0, stream.items, CHUNK):
        records = stream.read(start, min(start + CHUNK, stream.items))[0]
        weights = model[records["indexes"]] if len(model) > 1 else 0.0
        scores.append((weights * records["values"]).sum(axis=1))
        labels.append(records["label"] > 0)
    return np.concatenate(scores), np.concatenate(labels)


def log_loss(score: np.ndarray, label: np.ndarray) -> float:
    """The mean of -log of the probability that was given to the outcome."""
    return float(np.logaddexp(0.0, np.where(label, -score, score)).mean())


def area(score: np.ndarray, label: np.ndarray) -> float:
    """The probability that a click is scored above a tuple without one; ties count half."""
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    clicks = int(label.sum())
    others = len(label) - clicks
    return float((ranks[label].sum() - clicks * (clicks + 1) / 2) / max(clicks * others, 1))


def main() -> None:
    """Measure, print and save."""
    options = arguments(__doc__ or "")
    clicks = data.clicks(100_000 if options.quick else 2_000_000)
    items = 200_000 if options.quick else 2_000_000
    sets = [f"input.path={clicks.path}", f"input.repeat={-(-items // clicks.rows)}", f"input.limit={items}"]
    sets += [f"micro_batch={items // WINDOWS}"]
    sets += [f"stages.{stage}.parallelism={tasks}" for stage, tasks in STAGES.items()]
    study = Study(
        name="afstream_exp5",
        title="AF-Stream Exp#5: online logistic regression",
        unit="tuples",
        job=Job("configs/online_logistic_staged.yaml", sets),
        stages=STAGES,
        pairs=((10, 1e3), (1, 1e2), (1e4, 1e6)),
        window="none",
        accuracy=lambda outcome: accuracy(outcome, clicks.test),
        paper=PAPER_LOGISTIC,
        paper_undisturbed=PAPER_LOGISTIC_UNDISTURBED,
        paper_table=OTHERS,
        paper_measure="prediction rate",
        baselines={"a constant": constant(clicks.test)},
        shown=lambda value: f"{value:.4f}",
    )
    measure(study, options, {"data": f"{clicks.about}, sparse, 2^20 parameters, ASP"})


if __name__ == "__main__":
    main()
