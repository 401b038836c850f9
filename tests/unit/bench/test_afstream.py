"""The arithmetic of the experiments of AF-Stream: what is true, when a run has converged, who is killed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.afstream import data
from bench.afstream.convergence import Step, seconds_to, steps, target
from bench.afstream.exp2_thresholds import recoveries
from bench.afstream.exp4_online_join import pairs_of
from bench.afstream.exp5_online_logistic import area
from bench.afstream.jobs import Case, Job, Outcome, loss, losses, percent, system_failures
from bench.afstream.overhead import Pair, Workload, report
from bench.afstream.settings import NONE, approximate
from bench.afstream.tradeoff import FAILURES, Study, cases, label
from riprap.configs.loading import load
from riprap.engine.run.faults import parse_fault

ROOT = Path(__file__).parents[3]


def outcome(norms: list[float], rate: float = 1.0, **summary: Any) -> Outcome:
    """A run whose iterations took a second each."""
    epochs = [{"epoch": e, "committed_at": 100.0 + e, "latency_ms": 1000.0} for e in range(1, len(norms) + 1)]
    results = {"epoch": np.arange(1, len(norms) + 1), "l1_norm": np.array(norms)}
    return Outcome({"items_per_second": rate, "failures": [], **summary}, [results], [epochs[::-1]], [])


def test_a_run_has_converged_when_its_norm_stays_low() -> None:
    base, late = Case([outcome([4, 2, 1])]), Case([outcome([4, 1, 3, 1])])
    assert steps(base.outcomes[0]) == [Step(1, 4), Step(2, 2), Step(3, 1)]
    assert target(base) == pytest.approx(1.05)
    assert seconds_to(base, 1.05) == 3 and seconds_to(late, 1.05) == 4
    assert math.isnan(seconds_to(Case([outcome([4, 2])]), 1.05)), "never"


def test_losses_are_medians_of_the_rounds_ratios_and_need_runs() -> None:
    base, case = (Case([outcome([1], r) for r in rates]) for rates in ((9.0, 10.0, 30.0), (4.5, 8.0, 27.0)))
    assert loss(case, base) == pytest.approx(0.2) and math.isnan(loss(Case([None] * 3), base))
    assert losses(case, base) == "20.0 % (10.0 % to 50.0 %; 3 of 3)" and losses(Case([None] * 3), base) == "-"
    assert percent(0.047) == "4.7 %" and percent(loss(Case([None]), base)) == "-"


def test_a_system_failure_kills_every_worker_at_the_same_moment() -> None:
    killed = [parse_fault(spec) for spec in system_failures({"local": 2, "global": 1}, 4)]
    assert [fault.target for fault in killed] == ["local.0", "local.1", "global.0"] * 4
    assert [fault.when.value for fault in killed[::3]] == [20, 40, 60, 80]


def test_recovery_is_told_apart() -> None:
    failure = {"worker": "count.0", "incarnation": 1, "injected_at": 5.0}
    times = {"detected_ms": 10.0, "restored_ms": 150.0, "caught_up_ms": 400.0}
    run = outcome([1], failures=[failure | times, failure | dict.fromkeys(times)])
    run.events.append({"event": "first_item", "worker": "count.0", "incarnation": 2, "monotonic": 5.2})
    (found,) = recoveries([run])
    assert found == pytest.approx({"detect": 10, "restore": 140, "replay": 250, "first item": 200})


@pytest.mark.parametrize("seed", range(5))
def test_the_area_is_the_share_of_pairs_in_the_right_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    score, clicked = rng.integers(0, 6, 40), rng.random(40) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in score[clicked] for b in score[~clicked]]
    assert area(score, clicked) == pytest.approx(np.mean(pairs))


def test_pairs_are_counted_over_equal_seconds_and_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: str) -> Any:
        packets = np.zeros(len(path), [("time_ns", "<i8"), ("destination", "u1", (16,))])
        packets["time_ns"] = [ord(letter) * 10**9 + place for place, letter in enumerate(path)]
        return type("Stream", (), {"items": len(path), "read": lambda self, start, stop: (packets[start:stop],)})()

    monkeypatch.setattr("bench.afstream.exp4_online_join.open_input", opened)
    assert pairs_of("aabc", "abbd", 1) == 2 * 1 + 1 * 2
    assert pairs_of("aabc", "abbd", 3) == 9 * 4


def test_every_case_is_a_sound_topology(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    job = Job(str(ROOT / "configs/word_count.yaml"), [f"input.path={tmp_path}"])
    stages, infinite = {"split": 2, "count": 2}, float("inf")
    study = Study("x", "x", "lines", job, stages, ((1.0, infinite),), "hopping", lambda one: {}, {}, 1.0)
    made = cases(study)
    assert list(made) == ["none", "mini_batch", "upstream_backup", label(1, infinite), f"{label(1, infinite)}, failing"]
    assert len(made[f"{label(1, infinite)}, failing"].faults) == FAILURES * 4
    for case in made.values():
        load(case.config, case.sets)
    section = load(job.config, job.under(approximate(1.0, infinite)).sets).fault_tolerance
    assert (section["theta"], section["l"], section["gamma"]) == (1.0, infinite, 1000.0)
    assert load(job.config, job.under(NONE).sets).scheme == "none"


def test_what_fault_tolerance_costs_is_the_median_of_ratios_within_pairs() -> None:
    """Rounds differ by far more than the two runs of a round do."""
    backups = {"records": 120, "record_bytes": 60_000}
    pairs = []
    for rate, lost in ((100.0, 0.01), (10.0, 0.02), (50.0, 0.03)):
        without = outcome([1], rate, items=1000, seconds=2.0, cpu_seconds={"a.0": 1.0, "b.0": 1.0})
        protected = outcome([1], rate * (1 - lost), items=1000, cpu_seconds={"a.0": 1.0, "b.0": 1.0 + lost})
        pairs.append(Pair(without, Outcome(protected.summary | {"backups": backups}, [], [], [])))
    row = report({"some": Workload(Job("any.yaml"), NONE, 0.01, "")}, {"some": pairs}).splitlines()[-1]
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells == ["some", "2", "2.0 %", "1.0 % to 3.0 %", "1.0 %", "1.0 %", "0.5 % to 1.5 %", "2", "1"]


def test_text_is_the_repositorys_book_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "CACHE", tmp_path)
    monkeypatch.delenv("RIPRAP_DATA", raising=False)
    monkeypatch.chdir(ROOT)
    made = data.text(10_000)
    assert made.about == "real: tests/data/books, repeated"
    assert len(list(Path(made.path).iterdir())) == 6 and made.rows == 6 * 1628


def test_a_folder_of_the_users_own_is_named_by_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIPRAP_DATA", str(tmp_path))
    assert data.real("books") is None
    (tmp_path / "books").mkdir()
    assert data.real("books") == tmp_path / "books" and data.shown("books") == "$RIPRAP_DATA/books"
