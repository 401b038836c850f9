"""The definitions of the bench of checkpoints, the same for Flink and Riprap, from made-up facts."""

from pathlib import Path

import pytest

from bench.peers import checkpoints
from bench.peers.checkpoints_flink import cases as of_flink
from bench.peers.checkpoints_jobs import Measured, Stream, first_outputs_ms, keyed, rate_of
from bench.peers.checkpoints_ours import CASES as OURS
from bench.peers.checkpoints_ours import keyed_job
from bench.peers.recovery_flink import INTERVAL, TUNED
from bench.peers.recovery_times import Output
from bench.rounds import Found
from riprap.configs.loading import load


def outputs(first: int, last: int, begin: float) -> list[Output]:
    """A tenth of a second apart."""
    return [Output(number, begin + (number - first) / 10) for number in range(first, last + 1)]


def test_a_kill_is_over_when_every_counter_has_put_out_something_new() -> None:
    soon = [*outputs(1, 10, 0.0), *outputs(9, 20, 2.0)]  # 9 and 10 once more; 11 at 2.2
    late = [*outputs(1, 10, 0.0), *outputs(11, 20, 3.5)]

    assert first_outputs_ms([soon, late], [1.0]) == [pytest.approx(2500)]
    assert first_outputs_ms([soon], [1.0]) == [pytest.approx(1200)]
    assert first_outputs_ms([soon, outputs(1, 10, 0.0)], [1.0]) == [None]


def test_a_rate_counts_what_lies_between_its_moments() -> None:
    assert rate_of(outputs(1, 100, 0.0), 2.0, 5.0) == pytest.approx(10)
    with pytest.raises(RuntimeError, match="1 outputs"):
        rate_of(outputs(1, 1, 2.5), 2.0, 5.0)


def test_outputs_of_a_counter_hold_its_share_of_the_items() -> None:
    words = Stream("words", 1, 50_000, 2, 8.0, 20_000)

    assert (words.items_an_output(50_000), words.counts_an_output(50_000)) == (1000, 4000)
    assert words.counts_an_output(0) == 80_000
    assert keyed(100).counts_an_output(50_000) == 1000


def test_flink_has_no_checkpoints_where_none_are_asked_for() -> None:
    without = {name: settings for name, settings in of_flink(keyed(1)).items() if name.endswith("none")}

    assert INTERVAL not in TUNED
    assert len(without) == 2 and not any(INTERVAL in settings for settings in without.values())
    assert all(INTERVAL in settings for name, settings in of_flink(keyed(1)).items() if name not in without)


def test_each_system_is_compared_with_itself_without_checkpoints() -> None:
    found = {
        name: Found([Measured(rate, 1e-6, 5, 1.0, 2.0, 3e6)])
        for name, rate in {
            "Flink: none": 4e6,
            "Flink: aligned, 1 s": 2e6,
            "Flink: RocksDB, none": 1e6,
            "Flink: RocksDB, aligned, 1 s": 0.9e6,
        }.items()
    }

    assert checkpoints.free_row("Flink: aligned, 1 s", found)[3].startswith("0.5 ")
    assert checkpoints.free_row("Flink: RocksDB, aligned, 1 s", found)[3].startswith("0.9 ")


def test_a_case_that_never_completed_is_in_the_table_with_the_reason() -> None:
    row = checkpoints.free_row(
        "Flink: RocksDB, aligned, 1 s", {"Flink: RocksDB, aligned, 1 s": Found([None], ["slow"])}
    )

    assert row == ["Flink", "RocksDB, aligned, 1 s (slow)", *["-"] * 8]


def test_a_kill_without_new_output_is_in_the_table() -> None:
    row = checkpoints.killed_row("Flink: aligned, 1 s", Found([[100.0, None], [300.0, 200.0]]))

    assert row == ["Flink", "aligned, 1 s", 200.0, 300.0, "3 of 4"]


@pytest.mark.parametrize("rate", [0, 50_000])
def test_our_job_can_be_run_at_full_speed_and_paced(rate: int, tmp_path: Path) -> None:
    lines, job = tmp_path / "lines.txt", tmp_path / "job.yaml"
    lines.write_text("x\n" * 1000)
    job.write_text(keyed_job(keyed(100), OURS["aligned, 1 s"], rate, 1000, lines))
    topology = load(job)
    assert topology.scheme == "barrier" and topology.sinks == ("map",)
    assert (topology.input.rate, topology.micro_batch) == ((rate, 1000) if rate else (None, 100_000))
