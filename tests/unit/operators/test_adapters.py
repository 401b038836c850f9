"""Source, Processor and Sink as DataflowOperators: order, commits, and what is saved of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from riprap.codec.errors import JobFailed
from riprap.operators.adapters.stages import ITEMS, LINEAR, RESULT, ProcessorStage, SinkStage, SourceRows, SourceStage
from riprap.operators.adapters.states import Commits, Models, distance, packed, unpacked
from riprap.operators.base import Context, Processor, Sink, Source
from riprap.operators.dataflow import Items
from riprap.operators.returns import WrongReturn
from riprap.operators.states.base import Backup


class Numbers(Source):
    items = 10

    def schema(self) -> tuple[tuple[str, ...], str | None]:
        return ("x",), None

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop, dtype=float)[:, None]


class Scaled(Processor):
    def __init__(self) -> None:
        self.factor = 1.0

    def process_data(self, items: np.ndarray) -> list[np.ndarray]:
        return [items[:, 0] * self.factor]

    def process_feedback(self, feedback: Any) -> None:
        self.factor = float(feedback[0][0])


class Split(Scaled):
    """The same in two parts."""

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items

    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> list[np.ndarray]:
        return [linear[:, 0] * self.factor]


class Folded(Sink):
    """Its state tells the order of results, and how often each came."""

    def __init__(self, rows: bool = False) -> None:
        self.state, self.rows = 1.0, rows
        self.processor: Processor = Split()

    def aggregate(self, result: Any) -> None:
        self.state = (self.state * 31 + result[0].sum()) % 997

    def commit(self, epoch: int) -> list[np.ndarray]:
        return [np.array([self.state])]

    def model(self) -> dict[str, np.ndarray]:
        return {"state": np.array([self.state])}

    def outputs(self) -> np.ndarray | None:
        return np.array([[self.state]]) if self.rows else None

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"state": np.array([self.state])}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self.state = float(snapshot["state"][0])


class Kept:
    """An emitter that keeps what it gets."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, int, int | None]] = []
        self.rows: list[tuple[Any, int]] = []
        self.fed_back: list[Any] = []

    def send(self, arrays: Any, count: int, to: int | None = None, stage: str | None = None) -> None:
        self.sent.append((arrays, count, to))

    def send_row(self, pieces: tuple[np.ndarray, ...], count: int) -> None:
        self.rows.append((pieces, count))

    def send_by_key(self, keys: Any, columns: Any = (), stage: str | None = None) -> None:
        raise AssertionError("nothing is sent by key")

    def feed_back(self, arrays: Any, count: int = 1, to: int | None = None, stage: str | None = None) -> None:
        self.fed_back.append(arrays)

    def write(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        raise AssertionError("nothing is written")

    def watermark(self, at: int) -> None:
        raise AssertionError("nothing is promised")

    def idle(self) -> None:
        raise AssertionError("nobody is idle")

    event_time: int | None = None
    promised: int | None = None


def result(epoch: int, start: int, *values: float) -> Items:
    return Items(epoch, "processor", 0, len(values), (np.array(values), np.array([[start, RESULT, 1]])))


def test_a_source_stage_hands_each_block_to_the_task_whose_turn_it_is() -> None:
    rows, out = SourceRows(Numbers(), 1), Kept()
    stage = SourceStage(lambda epoch, start: (epoch + start) % 3)
    for start in (0, 4):
        assert stage.process_data(Items(2, "", 0, 2, rows.read(start, start + 2)), 0, out) == 2
    assert [to for _, _, to in out.sent] == [2, 0]
    assert [arrays[1].tolist() for arrays, _, _ in out.sent] == [[0, 2], [4, 2]] and not out.rows


def test_a_source_stage_before_a_coded_one_hands_on_rows_as_they_are() -> None:
    out, arrays = Kept(), (np.ones((2, 1)), np.ones((1, 1)), np.array([0, 2]))
    assert SourceStage(None).process_data(Items(2, "", 0, 3, arrays), 0, out) == 3
    assert out.rows == [(arrays, 3)] and not out.sent


def test_a_source_that_gives_other_rows_than_asked_for_is_told() -> None:
    with pytest.raises(WrongReturn, match="2 columns"):
        SourceRows(Numbers(), 2).read(0, 1)


def test_a_processor_stage_has_an_operator_for_each_pair() -> None:
    stage, out = ProcessorStage(Scaled, 2), Kept()
    stage.process_feedback(Items(1, "sink", 1, 1, (np.array([3.0]),)), out)
    for pair in (0, 1):
        stage.process_data(Items(1, "source", pair, 1, (np.ones((1, 1)), np.array([7, 1]))), 0, out)
    assert [(float(arrays[0][0]), to) for arrays, _, to in out.sent] == [(1.0, 0), (3.0, 1)]
    assert [arrays[1].tolist() for arrays, _, _ in out.sent] == [[[7, RESULT, 1]]] * 2


@pytest.mark.parametrize("order", [(0, 2, 4), (4, 2, 0), (2, 4, 0)])
def test_results_are_aggregated_in_the_order_of_the_stream(order: tuple[int, ...]) -> None:
    stage, out = SinkStage(Folded(), True, True), Kept()
    for start in order:
        stage.process_data(result(1, start, start, start + 1), 0, out)
    stage.process_data(result(2, 6, 6.0), 0, out)
    stage.process_punctuation(1, out)
    reference = SinkStage(Folded(), True, True)
    for start in (0, 2, 4):
        reference.process_data(result(1, start, start, start + 1), 0, Kept())
    reference.process_punctuation(1, Kept())
    assert stage.results() == reference.results()
    assert [float(arrays[0][0]) for arrays in out.fed_back] == [stage.results()["state"][0]]


@pytest.mark.parametrize("form", [RESULT, ITEMS, LINEAR])
def test_results_are_the_same_in_whatever_form_they_come(form: int) -> None:
    """In one block, with others: a decoder recomputes what it decoded, under the model of its window."""
    rows = np.array([[3.0], [4.0]])
    stage, plain = SinkStage(Folded(), True, True), SinkStage(Folded(), True, True)
    for one in (stage, plain):
        one.process_data(result(1, 0, 5.0), 0, Kept())
        one.process_punctuation(1, Kept())
    factor = float(stage.sink.processor.factor)  # type: ignore[attr-defined]
    assert factor != 1.0
    arrays = (rows[:, 0] * factor,) if form == RESULT else (rows,)
    mixed = (np.array([7.0]), *arrays, np.array([[4, RESULT, 1], [2, form, 1]]))
    assert stage.process_data(Items(2, "processor", 0, 3, mixed), 0, Kept()) == 3
    plain.process_data(result(2, 2, *(rows[:, 0] * factor)), 0, Kept())
    plain.process_data(result(2, 4, 7.0), 0, Kept())
    for one in (stage, plain):
        one.process_punctuation(2, Kept())
    assert stage.results() == plain.results()


def test_results_of_several_arrays_are_told_apart() -> None:
    seen: list[list[float]] = []
    stage = SinkStage(Folded(), True, True)
    stage.sink.aggregate = lambda found: seen.append([float(array[0]) for array in found])  # type: ignore[method-assign]
    arrays = [np.array([float(i)]) for i in range(4)]
    forms = np.array([[6, RESULT, 2], [0, RESULT, 0], [3, RESULT, 1], [9, RESULT, 1]])
    stage.process_data(Items(1, "processor", 0, 9, (*arrays, forms)), 0, Kept())
    stage.process_punctuation(1, Kept())
    assert seen == [[], [2.0], [0.0, 1.0], [3.0]]


def test_an_epoch_without_results_changes_nothing_and_feeds_the_last_state_back() -> None:
    stage, out = SinkStage(Folded(rows=True), True, True), Kept()
    stage.process_punctuation(1, out)
    assert stage.outputs() is None and out.fed_back == [()]
    stage.process_data(result(2, 0, 5.0), 0, out)
    stage.process_punctuation(2, out)
    before = stage.results()
    stage.process_punctuation(3, out)
    assert stage.results() == before and stage.outputs() is None
    assert out.fed_back[1] == out.fed_back[2]


def test_a_commit_that_is_not_finite_fails_the_job_with_its_epoch() -> None:
    for must, raises in ((True, True), (False, False)):
        stage = SinkStage(Folded(), True, must)
        stage.process_data(result(4, 0, math.inf), 0, Kept())
        if raises:
            with np.errstate(invalid="ignore"), pytest.raises(JobFailed, match="epoch 4 is not finite"):
                stage.process_punctuation(4, Kept())
        else:
            with np.errstate(invalid="ignore"):
                stage.process_punctuation(4, Kept())


def test_a_new_life_of_a_sink_goes_on_from_its_backup() -> None:
    stage = SinkStage(Folded(), True, True)
    stage.process_data(result(1, 0, 1.0), 0, Kept())
    stage.process_punctuation(1, Kept())
    stage.process_data(result(2, 2, 3.0), 0, Kept())
    backup = stage.state.backup_all()
    other = SinkStage(Folded(), True, True)
    other.state.recover_state(backup)
    assert other.sink.processor.factor == stage.sink.processor.factor != 1.0
    for one in (stage, other):
        one.process_data(result(2, 1, 2.0), 0, Kept())
        one.process_punctuation(2, Kept())
    assert other.results() == stage.results()


def test_a_new_life_of_a_sink_that_trains_tells_what_it_goes_on_from() -> None:
    for trains, fed in ((True, [()]), (False, [])):
        out = Kept()
        SinkStage(Folded(), trains, True).process_recovery(out)
        assert out.fed_back == fed


def test_open_results_and_rows_diverge_without_bound_until_they_are_saved() -> None:
    stage = SinkStage(Folded(rows=True), True, True)
    assert stage.state.state_divergence() == 0.0
    stage.process_data(result(1, 0, 1.0), 0, Kept())
    assert stage.state.state_divergence() == math.inf
    assert stage.state.backup_state().full and stage.state.state_divergence() == 0.0
    stage.process_punctuation(1, Kept())
    assert stage.state.state_divergence() == math.inf, "rows were put out"
    assert stage.state.backup_state().full and not stage.state.backup_state().full


def test_a_model_diverges_by_its_distance_from_the_saved_one() -> None:
    entered: list[Any] = []
    models = Models(2, lambda sink, model: entered.append((sink, model)))
    models.set(0, [np.array([3.0, 4.0])])
    assert models.state_divergence() == 5.0
    backup = models.backup_state()
    assert models.state_divergence() == 0.0 and not models.backup_state().full
    models.set(1, [np.array([1.0])])
    assert models.state_divergence() == 1.0
    other = Models(2, lambda sink, model: entered.append((sink, model)))
    other.recover_state(backup)
    assert entered[-1][0] == 0 and entered[-1][1][0].tolist() == [3.0, 4.0] and other.state_divergence() == 0.0
    assert distance((np.array([math.nan]),), ()) == math.inf


def test_before_the_first_commit_there_is_no_snapshot() -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("nothing was committed")

    state = Commits(never, never, never)
    state.add(1, 0, [np.array([1.0])])
    other = Commits(never, never, never)
    other.recover_state(state.backup_all())
    assert [found[0].tolist() for found in other.take(1)] == [[1.0]]


@pytest.mark.parametrize("arrays", [(np.array([1, 2, 3], np.uint8),), (np.zeros(4),)])
def test_what_is_no_backup_of_such_a_state_is_refused(arrays: tuple[np.ndarray, ...]) -> None:
    with pytest.raises(ValueError, match="no backup of an adapted"):
        Models(1, lambda sink, model: None).recover_state(Backup(True, arrays))
    assert unpacked(packed([1], [np.ones(2)]))[0] == [1]


def test_adapters_take_operators_that_are_opened() -> None:
    sink = Folded()
    sink.open(Context())
    assert SinkStage(sink, False, True).combines == {}
