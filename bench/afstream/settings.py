"""Schemes and thresholds of the experiments, and the figures that the paper gives for them (AFX 6)."""

from __future__ import annotations

#: Scheme, as the paper calls it -> the fault_tolerance section.
NONE = "{scheme: none}"
MINI_BATCH = "{scheme: mini_batch}"
UPSTREAM_BACKUP = "{scheme: upstream_backup}"


def approximate(theta: float, items: float, gamma: float = 1000, window: str = "none") -> str:
    """The fault_tolerance section of approximate fault tolerance; `items` is L. Infinite thresholds are `.inf`."""
    values = {"theta": theta, "l": items, "gamma": gamma}
    shown = {name: ".inf" if value == float("inf") else repr(float(value)) for name, value in values.items()}
    text = ", ".join(f"{name}: {value}" for name, value in shown.items())
    return f"{{scheme: approximate, {text}, window: {window}}}"


#: Exp#1, Table 4: MB/s.
PAPER_TEXT: dict[str, dict[str, float]] = {
    "none": {"grep": 3550, "word_count": 1920},
    "approximate": {"grep": 3480, "word_count": 1880},
    "mini_batch": {"grep": 358.16, "word_count": 380.49},
    "upstream_backup": {"grep": 379.61, "word_count": 373.89},
    "Spark, no checkpoints": {"grep": 178.61, "word_count": 754.02},
    "Spark, checkpoints": {"grep": 93.61, "word_count": 466.07},
}
#: Exp#2, Figure 5(a): loss of throughput against no state backups, by Theta.
PAPER_THETA_LOSS = {1.0: 0.33, 10.0: 0.10}
#: Exp#3 to 5, Figures 6 to 8: (Theta, L) -> (loss of throughput, accuracy after ten system failures); then without any.
PAPER_HEAVY_HITTERS = {(1e5, 1e3): (0.047, 0.928), (1e4, 1e2): (0.15, 0.955)}
PAPER_HEAVY_HITTERS_UNDISTURBED = 0.989
PAPER_JOIN = {(1e5, 1e3): (0.052, 0.113), (1e4, 1e2): (0.12, 0.106)}
PAPER_JOIN_UNDISTURBED = 0.091
PAPER_LOGISTIC = {(10.0, 1e3): (0.003, 0.904), (1.0, 1e2): (0.003, 0.929)}
PAPER_LOGISTIC_UNDISTURBED = 0.943
#: Exp#6, Figure 9: mean loss of throughput by fault tolerance.
PAPER_ITERATION_LOSS = {"kdd12": 0.0114, "higgs": 0.0106}
#: Exp#7: delay of the time to the final L1 norm, by the number of failures.
PAPER_DELAY = {"kdd12": {4: 0.076, 8: 0.133}, "higgs": {4: 0.124, 8: 0.20}}
