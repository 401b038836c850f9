"""The picture of a run has what its files say: series at the right places, failures marked, bytes by edge."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.codec.errors import ConfigError
from riprap.engine.cli.main import main
from riprap.engine.plot.figure import compose, draw
from riprap.engine.plot.series import BINS, read_series

STARTED = 1000.0
"""When the first item was emitted, on the clock of the run."""


def write_run(run_dir: Path, epochs: int = 10) -> Path:
    """Epochs of 100 items, one a second; the fifth took long, for processor.1 was killed."""
    run_dir.mkdir(exist_ok=True)
    lines = (f"{n},100,{600 if n == 5 else 10},{STARTED + n - 0.99}\n" for n in range(1, epochs + 1))
    (run_dir / "epochs.csv").write_text("epoch,items,latency_ms,committed_at\n" + "".join(lines))
    notes = (f"{n},{100 * n},loss,{1 / n}\n{n},{100 * n},accuracy,{1 - 1 / n}\n" for n in (2, 4, 4, 8))
    (run_dir / "metrics.csv").write_text("epoch,items,metric,value\n" + "".join(notes) + "9,900,loss")
    events: list[dict[str, Any]] = [
        {"event": "fault_injected", "target": "processor.1", "incarnation": 1, "monotonic": STARTED + 4.0},
        {"event": "detected", "worker": "processor.1", "incarnation": 1, "monotonic": STARTED + 4.1},
        {"event": "phase", "phase": "RECOVERING", "monotonic": STARTED + 4.1},
        {"event": "phase", "phase": "RUNNING", "monotonic": STARTED + 4.5},
        {"event": "detected", "worker": "sink.0", "incarnation": 1, "monotonic": STARTED + 7.0},
        {"event": "service_restarted", "service": "controller", "wall": 5.0, "monotonic": STARTED + 8.0},
    ]
    (run_dir / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    summary = {
        "job": "trial",
        "scheme": "erasure",
        "bytes_sent": {"a->b": 2e6},
        "bytes_shared": {"a->b": 1e6, "b->c": 3e6},
    }
    (run_dir / "summary.json").write_text(json.dumps(summary))
    return run_dir


def artists(axes: Any, gid: str) -> list[Any]:
    return [artist for artist in axes.get_children() if artist.get_gid() == gid]


def test_metrics_are_drawn_over_items_each_epoch_once(tmp_path: Path) -> None:
    metrics = draw(write_run(tmp_path)).axes[0]
    (loss,), (accuracy,) = artists(metrics, "loss"), artists(metrics, "accuracy")
    assert loss.get_xdata().tolist() == accuracy.get_xdata().tolist() == [200, 400, 800]
    assert loss.get_ydata().tolist() == [0.5, 0.25, 0.125]
    assert [text.get_text() for text in metrics.get_legend().get_texts()] == ["loss", "accuracy"]


@pytest.mark.parametrize("worst", [1.7e308, -1.7e308])
def test_a_loss_that_is_all_but_infinite_is_left_out(tmp_path: Path, worst: float) -> None:
    """As that of a model that diverges: no axis can be made for it, and it would flatten all before it."""
    notes = f"2,200,loss,0.5\n4,400,loss,1e6\n6,600,loss,{worst}\n8,800,loss,inf\n"
    (write_run(tmp_path) / "metrics.csv").write_text("epoch,items,metric,value\n" + notes)
    (loss,) = artists(draw(tmp_path, tmp_path / "plot.png").axes[0], "loss")
    np.testing.assert_array_equal(loss.get_ydata(), [0.5, 1e6, math.nan, math.nan])


@pytest.mark.parametrize("torn", ["9,900,loss,", "9,900,loss,-", "9,900,loss,0.1"])
def test_a_line_that_is_being_written_is_left_out(tmp_path: Path, torn: str) -> None:
    (write_run(tmp_path) / "metrics.csv").write_text(f"epoch,items,metric,value\n8,800,loss,0.125\n{torn}")
    items, values = read_series(tmp_path).metrics["loss"]
    assert (items.tolist(), values.tolist()) == ([800], [0.125])


@pytest.mark.parametrize(("restarted", "wanted"), [(False, [4.0, 7.0, 14.0]), (True, [-86.0])])
def test_failures_of_a_resumed_run_are_of_their_attempts(tmp_path: Path, restarted: bool, wanted: list[float]) -> None:
    """Each attempt counts incarnations anew, and clocks begin anew with the machine."""
    write_run(tmp_path)
    clock = STARTED - 100 if restarted else STARTED
    begin = {"event": "phase", "phase": "DEPLOYING", "before": "SUBMITTED"}
    lost = {"event": "detected", "worker": "processor.1", "incarnation": 1}
    again = [{**begin, "monotonic": clock + 12.0}, {**lost, "monotonic": clock + 14.0}]
    before = (tmp_path / "events.jsonl").read_text().splitlines()[:-1]
    first = json.dumps({**begin, "monotonic": STARTED - 1})
    (tmp_path / "events.jsonl").write_text("\n".join([first, *before, *map(json.dumps, again)]) + "\n")
    assert [mark.at for mark in read_series(tmp_path).failures] == pytest.approx(wanted)


def test_throughput_adds_up_to_the_items_and_latency_keeps_the_longest(tmp_path: Path) -> None:
    _, throughput, latency, _ = draw(write_run(tmp_path, epochs=500)).axes
    values, edges, _ = artists(throughput, "items per second")[0].get_data()
    assert len(values) == BINS and np.dot(values, np.diff(edges)) == pytest.approx(50_000)
    longest, _, _ = artists(latency, "latency")[0].get_data()
    assert longest.max() == 600 and np.sort(longest)[-2] == 10


def test_an_interval_without_a_commit_has_no_latency_and_no_items(tmp_path: Path) -> None:
    write_run(tmp_path)
    with (tmp_path / "epochs.csv").open("a") as stream:
        stream.write(f"11,100,10,{STARTED + 30}\n")
    series = read_series(tmp_path)
    assert series.items_per_second[5] == 0 and math.isnan(series.latency_ms[5])
    assert series.seconds[-1] == pytest.approx(30.0)


def test_failures_are_marked_once_where_they_happened_and_recoveries_shaded(tmp_path: Path) -> None:
    _, throughput, latency, _ = draw(write_run(tmp_path)).axes
    for axes in (throughput, latency):
        lines = [line.get_xdata()[0] for line in artists(axes, "failure")]
        assert lines == pytest.approx([4.0, 7.0, 8.0])
        assert [text.get_text() for text in axes.texts] == ["processor.1", "sink.0", "controller"]
        (span,) = artists(axes, "recovery")
        assert (span.get_x(), span.get_width()) == (pytest.approx(4.1), pytest.approx(0.4))


def test_bytes_are_bars_by_edge(tmp_path: Path) -> None:
    sent = draw(write_run(tmp_path)).axes[3]
    copied, shared = sent.containers
    assert [bar.get_width() for bar in copied] == [2, 0] and [bar.get_width() for bar in shared] == [1, 3]
    assert [bar.get_x() for bar in shared] == [2, 0]
    assert [label.get_text() for label in sent.get_yticklabels()] == ["a->b", "b->c"]


def test_a_run_that_goes_on_is_drawn_as_far_as_it_is(tmp_path: Path) -> None:
    write_run(tmp_path)
    for name in ("summary.json", "metrics.csv", "events.jsonl"):
        (tmp_path / name).unlink()
    metrics, _, _, sent = compose(read_series(tmp_path)).axes
    assert metrics.texts[0].get_text() == "no metrics were noted"
    assert sent.texts[0].get_text() == "known when the run has ended"


def test_each_of_several_sinks_has_its_metrics(tmp_path: Path) -> None:
    write_run(tmp_path)
    for name in ("epochs", "metrics"):
        content = (tmp_path / f"{name}.csv").read_text()
        (tmp_path / f"{name}.csv").unlink()
        for index in (0, 1):
            (tmp_path / f"{name}.{index}.csv").write_text(content)
    series = read_series(tmp_path)
    assert sorted(series.metrics) == ["accuracy (sink 0)", "accuracy (sink 1)", "loss (sink 0)", "loss (sink 1)"]
    assert np.dot(series.items_per_second, np.diff(series.seconds)) == pytest.approx(2000)


def test_what_another_clock_timed_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path)
    with (tmp_path / "epochs.csv").open("a") as stream:
        stream.write("# another clock\n" + "".join(f"{n},100,500,{n}.5\n" for n in range(11, 15)))
    series = read_series(tmp_path)
    assert np.dot(series.items_per_second, np.diff(series.seconds)) == pytest.approx(400)
    assert series.seconds[-1] == pytest.approx(3.5)


@pytest.mark.parametrize(("name", "begins"), [("run.png", b"\x89PNG"), ("run.svg", b"<?xml")])
def test_the_command_writes_a_file(
    tmp_path: Path, name: str, begins: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plot", str(write_run(tmp_path)), "--out", str(tmp_path / name)])
    assert ended.value.code == 0 and (tmp_path / name).read_bytes().startswith(begins)
    assert capsys.readouterr().out == f"wrote {tmp_path / name}\n"


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no epoch is committed there"):
        draw(tmp_path)
    with pytest.raises(ConfigError, match=r"ends in none of .png and .svg"):
        draw(write_run(tmp_path), tmp_path / "run.pdf")
    assert not (tmp_path / "run.pdf").exists()


@pytest.mark.parametrize(
    "torn", ["9,900,loss,", "9,900,loss,1.2e-", "9,900,loss,0.1", "9,\ufffd,loss,0.1\n", "9,900,loss,x\n"]
)
def test_a_note_that_is_torn_or_damaged_is_left_out(tmp_path: Path, torn: str) -> None:
    run = write_run(tmp_path)
    before = read_series(run).metrics["loss"]
    path = run / "metrics.csv"
    path.write_text(path.read_text().removesuffix("9,900,loss") + torn)
    assert [one.tolist() for one in read_series(run).metrics["loss"]] == [one.tolist() for one in before]


def test_a_picture_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run")
    with pytest.raises(SystemExit) as ended:
        main(["plot", str(run), "--out", str(tmp_path / "no" / "run.svg")])
    assert ended.value.code == 2 and "no/run.svg: No such file or directory" in capsys.readouterr().err
