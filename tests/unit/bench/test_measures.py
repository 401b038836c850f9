"""The benches' definitions and the way they measure, on made-up facts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bench import provenance
from bench.measures import bytes_per_item, gaps, stalls_ms, usual_gap_ms, worst_latencies_ms
from bench.rounds import Found, alternate, await_quiet, order, ratio

TENTHS = [number / 10 for number in range(101)]


def without(*holes: tuple[float, float]) -> list[float]:
    """A commit each tenth of a second, but for the holes."""
    return [at for at in TENTHS if not any(begin < at < end for begin, end in holes)]


def test_a_stall_is_the_longest_gap_behind_a_kill_wherever_it_lies() -> None:
    commits = without((2.0, 2.5), (3.0, 4.0), (7.0, 7.3))
    first, second = stalls_ms(commits, [1.95, 6.95])
    assert first == pytest.approx(1000) and second == pytest.approx(300)


def test_a_gap_over_the_next_kill_counts_for_both() -> None:
    assert stalls_ms(without((2.0, 6.0)), [2.05, 5.0]) == pytest.approx([4000, 4000])


def test_no_kill_is_left_out() -> None:
    assert len(stalls_ms(without((1.0, 9.0)), [1.5, 2.5, 3.5, 8.5])) == 4
    with pytest.raises(ValueError, match=r"no commit follows the kill at 10\.5"):
        stalls_ms(TENTHS, [1.0, 10.5])


def test_the_usual_gap_is_that_of_calm_stretches() -> None:
    commits = without((2.0, 2.7), (6.0, 6.7))
    assert usual_gap_ms(commits, [2.05, 6.05]) == pytest.approx(100)
    assert usual_gap_ms(TENTHS, []) == pytest.approx(100)
    assert [gap.ms for gap in gaps([3.0, 1.0, 1.5])] == pytest.approx([500, 1500])


def test_bytes_are_copied_or_by_reference() -> None:
    summary = {"items": 10, "bytes_sent": {"a->b": 50, "b->c": 10}, "bytes_shared": {"a->b": 800}}
    assert bytes_per_item(summary) == (6.0, 80.0) and bytes_per_item(summary, "b->c") == (1.0, 0.0)


def test_cases_alternate_in_changing_orders_and_failures_stay_in_their_rounds() -> None:
    ran: list[str] = []

    def run(case: str) -> float:
        ran.append(case)
        if case == "c" and ran.count("c") == 2:
            raise RuntimeError("no")
        return float(len(ran))

    found = alternate("trial", {"a": "a", "b": "b", "c": "c"}, run, rounds=3)
    assert ran[0] == "a" and len(ran) == 10, "a warm-up, and then three rounds of three"
    rounds = [ran[1 + 3 * number : 4 + 3 * number] for number in range(3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds) and len(set(map(tuple, rounds))) > 1
    assert rounds == [order(["a", "b", "c"], number) for number in range(3)]
    assert found["c"].n_of_n == "2 of 3" and found["c"].failed == ["no"] and found["c"].rounds[1] is None


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    base: Found[float] = Found([1.0, 10.0, 100.0, None])
    case: Found[float] = Found([2.0, 10.0, 300.0, 5.0])
    found = ratio(case, base, lambda one: one)
    assert (found.median, found.low, found.high, found.n_of_n) == (2.0, 1.0, 3.0, "3 of 4")
    assert str(found) == "2 (1 to 3; 3 of 4)"
    assert math.isnan(ratio(Found([None]), base, lambda one: one).median)
    wide: Found[float] = Found([float(number) for number in range(1, 9)])
    assert ratio(wide, Found([1.0] * 8), lambda one: one)[:3] == (4.5, 2.0, 7.0)


def test_a_bench_begins_when_the_machine_is_quiet_or_says_that_it_is_not() -> None:
    loads = iter([2.0, 0.2])
    assert await_quiet(lambda: next(loads), wait_s=0.01) in (0.2, 2.0)
    assert await_quiet(lambda: 1.5, wait_s=0.0) == 1.5


def test_a_result_says_what_has_changed_since(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = {"HEAD:engine": "aaa", "HEAD:codec": "bbb", "HEAD": "123"}
    monkeypatch.setattr(provenance, "_git", lambda *words: trees.get(words[-1], ""))
    measured: dict[str, Any] = provenance.provenance(("engine", "codec"))
    assert provenance.mark(measured) == "measured on commit 123"
    trees["HEAD:engine"] = "ccc"
    assert provenance.mark(measured) == "measured on commit 123; since then engine changed"
    assert "older commit" in provenance.mark(None)
    assert "does not hold" in provenance.mark(measured | {"dirty": True})


def test_the_worst_latency_is_of_what_is_committed_until_the_next_kill() -> None:
    epochs = [(at, 10.0) for at in TENTHS]
    epochs[25], epochs[30], epochs[80] = (2.5, 90.0), (3.0, 70.0), (8.0, 50.0)
    assert worst_latencies_ms(epochs, [2.05, 5.05]) == [90.0, 50.0]
    assert worst_latencies_ms([(1.0, 5.0), (9.0, 7.0)], [2.0, 3.0]) == [7.0, 7.0], "no kill is left out"
    with pytest.raises(ValueError, match="no commit follows"):
        worst_latencies_ms(epochs, [11.0])
