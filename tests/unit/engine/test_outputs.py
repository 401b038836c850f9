"""What a sink leaves behind, over several lives: lines announced once, rows cut and written again."""

from __future__ import annotations

import hashlib
import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from fake_port import processor, sink, source

from riprap.codec.errors import DataError
from riprap.codec.files import append_whole, replace
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.port import Boundary
from riprap.engine.run_directory.epochs import EpochTail
from riprap.engine.worker.epochs_file import HEADING, NOTHING_BEFORE, EpochsFile
from riprap.engine.worker.metrics_file import MetricsFile
from riprap.engine.worker.outputs import SinkOutputs
from riprap.engine.worker.standby import outputs_of

sys.path.append(str(Path(__file__).parents[2]))
from full_disk import small_disk


def boundary(epoch: int, items: int = 3, lost: int = 0) -> Boundary:
    return Boundary(Epoch(epoch), items, lost, False)


def rows(epoch: int) -> np.ndarray:
    return np.arange(6.0).reshape(3, 2) + 100 * epoch


def announced(folder: Path) -> list[int]:
    text = (folder / "epochs.csv").read_text()
    assert text.startswith(HEADING) and text.endswith("\n")
    return [int(line.partition(",")[0]) for line in text.splitlines()[1:]]


def test_an_epoch_is_announced_when_it_is_durable_and_not_before(tmp_path: Path) -> None:
    outputs = SinkOutputs(tmp_path, 0, 1)
    for epoch in (1, 2, 3):
        outputs.committed(boundary(epoch), 0.01, None)
    assert not (tmp_path / "epochs.csv").exists()
    outputs.durable(2)
    assert announced(tmp_path) == [1, 2]
    outputs.durable(3)
    assert announced(tmp_path) == [1, 2, 3]


def test_what_a_former_life_saved_but_did_not_announce_is_announced_once(tmp_path: Path) -> None:
    first = SinkOutputs(tmp_path, 0, 1)
    notes = []
    for epoch in range(1, 6):
        first.committed(boundary(epoch), 0.01, None)
        notes.append(first.notes())
        if epoch == 3:
            first.durable(2)
    first.close()
    second = SinkOutputs(tmp_path, 0, 1)
    second.resume(notes[3])  # the state of epoch 4 became durable, and nobody lived to say so
    second.durable(4)
    assert announced(tmp_path) == [1, 2, 3, 4]
    second.committed(boundary(5), 0.01, None)
    second.durable(5)
    assert announced(tmp_path) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("first_to_speak", ["the former life", "the new life"])
def test_what_two_lives_know_to_be_durable_is_announced_once(tmp_path: Path, first_to_speak: str) -> None:
    """Who was cut off from the controller has not ended: it may speak after its successor has opened the file."""
    former = SinkOutputs(tmp_path, 0, 1)
    for epoch in (1, 2, 3):
        former.committed(boundary(epoch), 0.01, None)
    former.durable(1)
    new = SinkOutputs(tmp_path, 0, 1)
    new.resume(former.notes())
    for outputs in (former, new) if first_to_speak == "the former life" else (new, former):
        outputs.durable(3)
    assert announced(tmp_path) == [1, 2, 3] and new.accounted == 9
    new.committed(boundary(4), 0.01, None)
    new.durable(4)
    assert announced(tmp_path) == [1, 2, 3, 4] and new.accounted == 12


def test_below_another_clock_stand_moments_of_that_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of epochs that the former host committed, and had no time to announce."""
    first = SinkOutputs(tmp_path, 0, 1)
    first.add(boundary(1), 0.5, None, 1_000_000.0)
    first.durable(1)
    first.add(boundary(2), 0.5, None, 1_000_001.0)
    first.tentative(boundary(2), 0.5, ["b.0"], None)
    notes = first.notes()
    monkeypatch.setattr("riprap.engine.worker.outputs.CLOCK", notes["clock"] + 1)
    monkeypatch.setattr("riprap.engine.worker.outputs.time", SimpleNamespace(monotonic=lambda: 50.0))
    second = SinkOutputs(tmp_path, 0, 1)
    second.resume(notes)
    second.change_clock()
    second.durable(2)
    second.add(boundary(3), 0.5, None, 51.0)
    second.durable(3)
    found = EpochTail(tmp_path / "epochs.csv").refresh()
    assert [(row.epoch, row.clock[1], row.committed_at) for row in found] == [(1, 0, 1e6), (2, 1, 50.0), (3, 1, 51.0)]
    assert [(row.items, row.latency_ms) for row in found] == [(3, 500.0)] * 3
    assert (tmp_path / "tentative.csv").read_text().splitlines()[1].split(",")[6].strip() == "nan"


@pytest.mark.parametrize("resumed", [False, True])
def test_the_first_item_is_that_of_this_attempt_at_the_job(tmp_path: Path, resumed: bool) -> None:
    """Of all incarnations in it: faults at `seconds=S` count from there."""
    first = SinkOutputs(tmp_path, 0, 1)
    first.add(boundary(1), 0.25, None, 100.0)
    second = SinkOutputs(tmp_path, 0, 1, 2 if resumed else 1)
    second.resume(first.notes())
    assert first_item_at(second) == (0.0 if resumed else 99.75)
    second.add(boundary(2), 0.5, None, 200.0)
    assert first_item_at(second) == (199.5 if resumed else 99.75)
    third = SinkOutputs(tmp_path, 0, 1, 2 if resumed else 1)
    third.resume(second.notes())
    assert first_item_at(third) == first_item_at(second)


@pytest.mark.parametrize("back_to", ["nothing", "another attempt", "no item", "its own first item"])
def test_the_first_item_stays_the_first_when_the_job_is_rolled_back(tmp_path: Path, back_to: str) -> None:
    former = SinkOutputs(tmp_path, 0, 1, 1 if back_to == "another attempt" else 2)
    notes = former.notes()
    if back_to in ("another attempt", "its own first item"):
        former.add(boundary(1), 0.25, None, 100.0)
        notes = former.notes()
    own = SinkOutputs(tmp_path, 0, 1, 2)
    own.resume(notes)
    own.add(boundary(2), 0.5, None, 200.0)
    began = first_item_at(own)
    own.close()
    again = outputs_of(_layout(sink()), tmp_path, 2, own)
    assert isinstance(again, SinkOutputs)
    if back_to != "nothing":
        again.resume(notes)
    again.add(boundary(2), 0.5, None, 300.0)
    assert first_item_at(again) == began == (99.75 if back_to == "its own first item" else 199.5)
    again.close()


def first_item_at(outputs: SinkOutputs) -> float:
    """As the controller and the launcher hear it."""
    task = SimpleNamespace(metrics=dict, lost=0, missed=0, done=False, combines={})
    return float(outputs.stats(cast(Any, task))["first_emit_at"])


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    first = SinkOutputs(tmp_path, 0, 1)
    first.committed(boundary(1), 0.01, None)
    first.durable(1)
    first.close()
    with (tmp_path / "epochs.csv").open("a") as file:
        file.write("2,3,1.0")
    second = SinkOutputs(tmp_path, 0, 1)
    second.committed(boundary(2), 0.01, None)
    second.durable(2)
    assert announced(tmp_path) == [1, 2]


def test_rows_can_be_loaded_at_every_moment(tmp_path: Path) -> None:
    outputs = SinkOutputs(tmp_path, 0, 1)
    for epoch in range(1, 40):
        outputs.committed(boundary(epoch), 0.01, rows(epoch))
        loaded = np.load(tmp_path / "output.npy")
        assert np.array_equal(loaded, np.concatenate([rows(n) for n in range(1, epoch + 1)]))


def test_rows_behind_the_restored_epoch_are_written_again(tmp_path: Path) -> None:
    first = SinkOutputs(tmp_path, 0, 1)
    for epoch in (1, 2, 3, 4):
        first.committed(boundary(epoch), 0.01, rows(epoch))
        if epoch == 2:
            notes = first.notes()
    first.close()
    second = SinkOutputs(tmp_path, 0, 1)
    second.resume(notes)
    assert np.array_equal(np.load(tmp_path / "output.npy"), np.concatenate([rows(1), rows(2)]))
    second.committed(boundary(3), 0.01, rows(30))
    expected = np.concatenate([rows(1), rows(2), rows(30)])
    assert np.array_equal(np.load(tmp_path / "output.npy"), expected)
    assert second._rows.digest() == hashlib.sha256(expected.tobytes()).hexdigest()


def test_a_life_that_begins_anew_keeps_no_row_of_the_former_one(tmp_path: Path) -> None:
    first = SinkOutputs(tmp_path, 0, 1)
    for epoch in (1, 2, 3):
        first.committed(boundary(epoch), 0.01, rows(epoch))
    first.close()
    second = SinkOutputs(tmp_path, 0, 1)
    second.committed(boundary(1), 0.01, rows(1))
    assert np.array_equal(np.load(tmp_path / "output.npy"), rows(1))
    assert second._rows.digest() == hashlib.sha256(rows(1).tobytes()).hexdigest()


def _layout(worker: WorkerId) -> Layout:
    return Layout(worker, 1, (sink(),), (), (), 0)


@pytest.mark.parametrize("worker", [source(), processor(0)])
def test_only_a_sink_touches_the_files_of_a_sink(tmp_path: Path, worker: WorkerId) -> None:
    torn = HEADING + "1,10,0.5,1.0\n2,1"
    (tmp_path / "epochs.csv").write_text(torn)
    assert outputs_of(_layout(worker), tmp_path) is None
    assert (tmp_path / "epochs.csv").read_text() == torn, "the sink may be just writing that line"
    own = outputs_of(_layout(sink()), tmp_path)
    assert own is not None
    own.close()
    assert (tmp_path / "epochs.csv").read_text() == HEADING + "1,10,0.5,1.0\n"


def test_rows_are_written_whole_by_short_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:17], at))
    outputs = SinkOutputs(tmp_path, 0, 1)
    outputs.committed(boundary(1), 0.01, rows(1))
    outputs.committed(boundary(2), 0.01, rows(2))
    assert np.load(tmp_path / "output.npy").tobytes() == np.vstack([rows(1), rows(2)]).tobytes()


def test_rows_that_find_no_room_are_an_error_and_a_next_life_goes_on_before_them(
    tmp_path: Path,
) -> None:
    large = np.full((50_000, 2), 7.0)
    with small_disk(tmp_path / "disk", "1m") as disk:
        first = SinkOutputs(disk.path, 0, 1)
        first.committed(boundary(1), 0.01, rows(1))
        notes = first.notes()
        disk.fill(leave_bytes=100_000)
        with pytest.raises(OSError) as raised:
            first.committed(boundary(2), 0.01, large)
        assert raised.value.filename == str(disk.path / "output.npy")
        assert np.load(disk.path / "output.npy").tobytes() == rows(1).tobytes(), "the header is written last"
        first.close()
        disk.make_room()
        second = SinkOutputs(disk.path, 0, 1)
        second.resume(notes)
        second.committed(boundary(2), 0.01, large)
        second.close()
        assert np.load(disk.path / "output.npy").tobytes() == np.vstack([rows(1), large]).tobytes()


@pytest.mark.parametrize("claimed", [0, 2, 9])
def test_a_header_that_speaks_of_other_rows_than_there_are_keeps_none_of_the_committed_from_a_next_life(
    tmp_path: Path, claimed: int
) -> None:
    first = SinkOutputs(tmp_path, 0, 1)
    first.committed(boundary(1), 0.01, np.vstack([rows(1), rows(2)]))
    notes = first.notes()
    first.close()
    path = tmp_path / "output.npy"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"(6, 2)", b"(%d, 2)" % claimed))
    second = SinkOutputs(tmp_path, 0, 1)
    second.resume(notes)
    second.committed(boundary(2), 0.01, rows(3))
    second.close()
    assert np.load(path).tobytes() == np.vstack([rows(1), rows(2), rows(3)]).tobytes()


def test_committed_rows_that_are_not_there_are_named(tmp_path: Path) -> None:
    first = SinkOutputs(tmp_path, 0, 1)
    first.committed(boundary(1), 0.01, rows(1))
    notes = first.notes()
    first.close()
    with (tmp_path / "output.npy").open("r+b") as file:
        file.truncate(150)
    with pytest.raises(DataError, match="does not hold the 3 rows"):
        SinkOutputs(tmp_path, 0, 1).resume(notes)


def test_a_job_that_computes_no_model_leaves_none(tmp_path: Path) -> None:
    outputs = SinkOutputs(tmp_path, 0, 1)
    outputs.save_model({})
    assert list(tmp_path.iterdir()) == [] and outputs._model == {}


@pytest.mark.parametrize("name", ["file", "allow_pickle"])
def test_an_array_of_a_model_may_have_any_name(tmp_path: Path, name: str) -> None:
    SinkOutputs(tmp_path, 0, 1).save_model({name: np.arange(3), "counts": np.ones(3)})
    with np.load(tmp_path / "model.npz") as model:
        assert model.files == [name, "counts"]


class Measured:
    """A task of which only the metrics are asked."""

    def __init__(self) -> None:
        self.epoch, self.done = Epoch(0), False

    def metrics(self) -> dict[str, float]:
        return {"loss": 1.0 / self.epoch, "hits, all": float(self.epoch)}


def noted(folder: Path) -> list[str]:
    return (folder / "metrics.csv").read_text().splitlines()


def test_metrics_are_noted_with_the_items_of_their_epoch_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("riprap.engine.worker.outputs.time.monotonic", lambda: now)
    outputs, task = SinkOutputs(tmp_path, 0, 1), Measured()
    outputs.note_metrics(task)  # type: ignore[arg-type]
    assert not (tmp_path / "metrics.csv").exists(), "nothing is committed yet"
    for number in range(1, 6):
        outputs.committed(boundary(number, lost=1), 0.01, None)
        outputs.durable(number - 1)
        task.epoch, task.done = Epoch(number), number == 5
        outputs.note_metrics(task)  # type: ignore[arg-type]
        outputs.note_metrics(task)  # type: ignore[arg-type]
        now += 0.06
    assert noted(tmp_path) == [
        "epoch,items,metric,value",
        "1,2,loss,1.0", '1,2,"hits, all",1.0',
        "3,6,loss,0.3333333333333333", '3,6,"hits, all",3.0',
        "5,10,loss,0.2", '5,10,"hits, all",5.0',
    ]  # fmt: skip


def test_a_later_life_appends_its_metrics_behind_the_last_whole_line(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("epoch,items,metric,value\n1,2,loss,1.0\n2,4,lo")
    outputs, task = SinkOutputs(tmp_path, 0, 1), Measured()
    task.epoch = Epoch(1)
    outputs.committed(boundary(1, items=2), 0.01, None)
    outputs.note_metrics(task)  # type: ignore[arg-type]
    outputs.close()
    assert noted(tmp_path) == ["epoch,items,metric,value", *["1,2,loss,1.0"] * 2, '1,2,"hits, all",1.0']


def test_of_a_long_stream_the_newest_epochs_are_kept_and_the_rest_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("riprap.engine.worker.epochs_file.EPOCHS_MAX", 10)
    tail, heard = EpochTail(tmp_path / "epochs.csv"), []
    outputs = SinkOutputs(tmp_path, 0, 1)
    for epoch in range(1, 60):
        outputs.committed(boundary(epoch, items=epoch), 0.01, None)
        outputs.durable(epoch)
        heard += [row.epoch for row in tail.refresh()]
        assert (tail.epoch, tail.items) == (epoch, sum(range(epoch + 1)))
        assert len(tail.rows()) <= 11 and tail.before.epoch + len(tail.rows()) == epoch
        if epoch % 13 == 0:  # a next life knows what the file says
            outputs.close()
            outputs = SinkOutputs(tmp_path, 0, 1)
            assert outputs.accounted == sum(range(epoch + 1))
    assert heard == list(range(1, 60)), "who follows the file hears of each epoch once"
    late = EpochTail(tmp_path / "epochs.csv")
    late.refresh()
    assert (late.epoch, late.items, late.before) == (59, sum(range(60)), tail.before)


def test_a_life_goes_on_in_the_file_that_another_has_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = SinkOutputs(tmp_path, 0, 1), SinkOutputs(tmp_path, 0, 1)
    for epoch in range(1, 13):
        for life in (first, second):
            life.committed(boundary(epoch), 0.01, None)
    first.durable(10)
    second.durable(10)
    monkeypatch.setattr("riprap.engine.worker.epochs_file.EPOCHS_MAX", 10)
    second.durable(11)
    assert (tmp_path / "epochs.csv").read_text().splitlines()[1] == "# before 5 15"
    first.durable(12)
    tail = EpochTail(tmp_path / "epochs.csv")
    tail.refresh()
    assert (tail.epoch, tail.items) == (12, 36)


def test_what_another_announces_while_the_oldest_are_left_out_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "epochs.csv"
    first, second = EpochsFile(path), EpochsFile(path)
    lines = [(epoch, f"{epoch},1,0.5,1.0\n") for epoch in range(1, 14)]
    first.append(lines[:10])
    with ThreadPoolExecutor(1) as pool:
        announced: list[Future[None]] = []

        def replace_slowly(path: Path, content: str) -> None:
            monkeypatch.undo()
            announced.append(pool.submit(second.append, lines[:12]))
            wait(announced, 0.2)
            replace(path, content)

        monkeypatch.setattr("riprap.engine.worker.epochs_file.EPOCHS_MAX", 10)
        monkeypatch.setattr("riprap.engine.worker.epochs_file.replace", replace_slowly)
        first.append(lines[10:11])
        announced[0].result(60)
    first.append(lines[12:])
    tail = EpochTail(path)
    tail.refresh()
    assert (tail.epoch, tail.items) == (13, 13)


def test_another_clock_is_told_though_the_oldest_are_left_out_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "epochs.csv"
    lines = [(epoch, f"{epoch},1,0.5,1.0\n") for epoch in range(1, 12)]
    former, own = EpochsFile(path), EpochsFile(path)
    former.append(lines[:10])
    own.append(lines[:10])
    with ThreadPoolExecutor(1) as pool:
        announced: list[Future[None]] = []

        def append_slowly(fd: int, data: bytes, path: Path) -> None:
            if not announced:
                announced.append(pool.submit(former.append, lines))
                wait(announced, 0.2)
            append_whole(fd, data, path)

        monkeypatch.setattr("riprap.engine.worker.epochs_file.EPOCHS_MAX", 10)
        monkeypatch.setattr("riprap.engine.worker.epochs_file.append_whole", append_slowly)
        own.change_clock()
        announced[0].result(60)
    told = path.read_text().splitlines()
    assert told[1].startswith("# before") and told.index("# another clock") == len(told) - 2


def test_what_another_announces_while_the_file_is_opened_is_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opens it looks for a torn line at its end."""
    path = tmp_path / "epochs.csv"
    lines = [(epoch, f"{epoch},1,0.5,1.0\n") for epoch in (1, 2)]
    former, ftruncate = EpochsFile(path), os.ftruncate
    former.append(lines[:1])
    with ThreadPoolExecutor(1) as pool:
        announced: list[Future[None]] = []

        def truncate_slowly(fd: int, size: int) -> None:
            monkeypatch.undo()
            announced.append(pool.submit(former.append, lines))
            wait(announced, 0.2)
            ftruncate(fd, size)

        monkeypatch.setattr(os, "ftruncate", truncate_slowly)
        EpochsFile(path)
        announced[0].result(60)
    assert path.read_text() == HEADING + "".join(line for _, line in lines)


def test_two_that_announce_the_same_at_once_announce_it_once(tmp_path: Path) -> None:
    """As where one was replaced, by an incarnation or by a copy, and does not know it yet."""
    start = Barrier(2)

    def announce() -> None:
        file = EpochsFile(tmp_path / "epochs.csv")
        start.wait()
        for epoch in range(1, 1000):
            file.append([(epoch, f"{epoch},1,0.5,1.0\n")])

    EpochsFile(tmp_path / "epochs.csv").begin(NOTHING_BEFORE)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(announce) for _ in range(2)]:
            done.result()
    assert announced(tmp_path) == list(range(1, 1000))


def test_metrics_of_a_long_stream_are_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riprap.engine.worker.metrics_file.BYTES_MAX", 400)
    file = MetricsFile(tmp_path / "metrics.csv")
    for epoch in range(1, 200):
        file.append(epoch, 10 * epoch, {"loss": 1 / epoch}, float(epoch))
        assert (tmp_path / "metrics.csv").stat().st_size <= 450
    heading, *lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert heading == "epoch,items,metric,value"
    epochs = [int(line.split(",")[0]) for line in lines]
    assert epochs == list(range(epochs[0], 200))


def test_a_window_that_lacks_something_for_good_is_shown_and_never_amended(tmp_path: Path) -> None:
    """What it should have had is known from the last one that was whole."""
    sink = SinkOutputs(tmp_path, 0, 1)
    sink.committed(boundary(1, 100), 0.1, None)
    for window in (2, 3):
        sink.committed(Boundary(Epoch(window), 50, 0, False, ["b.0"]), 0.1, None)
    sink.committed(boundary(4, 100), 0.1, None)
    sink.durable(4)
    lines = (tmp_path / "tentative.csv").read_text().splitlines()[1:]
    assert [line.split(",")[:5] for line in lines] == [[str(window), "50", "100", "0.5000", "b.0"] for window in (2, 3)]
    assert all(line.endswith(", " + " " * 19) for line in lines) and announced(tmp_path) == [1, 2, 3, 4]
    sink.close()
