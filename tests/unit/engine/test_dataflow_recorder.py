"""What schemes save comes back: whole states, parts of them, progress and blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from dataflow_parts import DataflowPort, chain, data, entry, layout_of
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.progress import WINDOW, At, Heard, TaskProgress
from riprap.engine.schemes.parts import copies as module
from riprap.engine.schemes.parts.copies import Copies
from riprap.engine.schemes.parts.recorder import (
    Recorder,
    Recovered,
    is_punctuation,
    plain,
    restored,
    take_over,
    type_of,
)
from riprap.operators.states import HashMap
from riprap.operators.states.base import State

LAYOUT = layout_of(chain(("a", 1), ("b", 1), ("c", 1)), "b.0")
LINK, OUT = (0, 0), (1, 0)


class Log(DataflowPort):
    """Keeps records as servers do: all that came, in its order, each with the epoch since which records are needed."""

    def __init__(self) -> None:
        super().__init__(LAYOUT)
        self.log: list[tuple[tuple[str, Epoch, dict[str, Any], tuple[np.ndarray, ...]], int]] = []

    def save(self, kind: str, epoch: Epoch, meta: dict[str, Any], arrays: Sequence[np.ndarray], since: int = 0) -> int:
        if number := super().save(kind, epoch, meta, arrays, since):
            self.log.append(((kind, epoch, meta, tuple(arrays)), since))
        return number

    def lose(self, unseen: int) -> None:
        """The last records have not reached the server that restores the next incarnation: they are cut off."""
        self.log = self.log[: len(self.log) - unseen]


class Shelf:
    """The backup server's documented rule: a state supersedes all items with an epoch up to its own."""

    def __init__(self, port: Log, unseen: int = 0) -> None:
        self.records: list[tuple[str, Epoch, dict[str, Any], tuple[np.ndarray, ...]]] = []
        for record, since in port.log[: len(port.log) - unseen]:
            self.records = [one for one in self.records if one[1] >= since] + [record]

    def restore(self) -> tuple[Block | None, list[Block]]:
        records = [
            (kind, Block(Kind.DATA, epoch, arrays=arrays, meta=meta)) for kind, epoch, meta, arrays in self.records
        ]
        states = [block for kind, block in records if kind == "state"]
        least = states[-1].epoch if states else 0
        items = [block for kind, block in records if kind == "item" and block.epoch > least]
        return (states[-1] if states else None), items


class Bench:
    """A recorder with a state, as a task would use it: entries come, are saved, are processed, in this order."""

    def __init__(self) -> None:
        self.port, self.progress, self.state = Log(), TaskProgress(), HashMap()
        self.recorder = Recorder(self.port, self.progress, self.state)
        self.waiting: list[Any] = []
        self.extras: list[tuple[tuple[int, int], Block]] = []

    def receive(self, save: bool) -> None:
        self.progress.received += 1
        number = self.progress.received
        made = entry(number, data(number, number - 1))
        if save:
            assert self.recorder.save_block(made)
        self.waiting.append(made)

    def process(self) -> None:
        if self.waiting:
            made = self.waiting.pop(0)
            self.state.add(np.array([made.number % 5]), np.array([float(made.number)]))
            self.progress.included = made.number
            self.progress.done.setdefault(LINK, Heard()).note(made.block)
            put_out = data(made.number, made.number - 1, cause=(0, 0, made.number, 0))
            self.extras = [*self.extras[-2:], (OUT, put_out)]  # what was put out before has arrived
            self.progress.sent[OUT] = At(made.number, made.number)

    def restored(self, unseen: int = 0) -> tuple[Recovered, TaskProgress, HashMap]:
        recovered, progress, state = Recovered(*Shelf(self.port, unseen).restore()), TaskProgress(), HashMap()
        take_over(progress, recovered, state)
        return recovered, progress, state

    def restart(self, unseen: int = 0, name: str = "b.0") -> None:
        """A next incarnation, which goes on from what was saved. What it has received is in its state."""
        recovered, self.progress, self.state = self.restored(unseen)
        self.port.lose(unseen)
        self.port.author = name
        self.recorder = Recorder(self.port, self.progress, self.state)
        self.recorder.go_on_from(recovered)
        self.extras, self.waiting = list(recovered.extras), []
        self.progress.received = self.progress.included

    def save(self) -> None:
        """One more block is in the state, and that is saved."""
        self.receive(save=False)
        self.process()
        self.recorder.save_state(self.extras)

    @property
    def kinds(self) -> list[str]:
        """Of all records ever saved."""
        return ["part" if meta["builds_on"] else "whole" for (_, _, meta, _), _ in self.port.log]


def contents(state: HashMap) -> dict[int, float]:
    keys, values = state.items()
    return {int(key): float(value) for key, value in zip(keys, values) if value}


STEPS = st.lists(st.sampled_from(["receive", "unsaved", "process", "state", "progress"]), max_size=60)


@given(STEPS, st.sampled_from([0, 2, 256]))
def test_what_was_saved_last_comes_back(steps: list[str], parts_max: int) -> None:
    bench, expected, before = Bench(), None, module.PARTS_MAX
    module.PARTS_MAX = parts_max  # whole states, a few parts between them, or parts only
    try:
        for step in steps:
            if step in ("receive", "unsaved"):
                bench.receive(step == "receive")
            elif step == "process":
                bench.process()
            elif step == "state":
                bench.recorder.save_state(bench.extras)
                expected = (contents(bench.state), bench.progress.pack(), bench.extras)
            elif expected is not None:
                bench.recorder.save_progress(bench.extras)
                packed = bench.progress.pack() | {name: expected[1][name] for name in ("included", "partial", "done")}
                expected = (expected[0], packed, bench.extras)
    finally:
        module.PARTS_MAX = before
    recovered, progress, state = bench.restored()
    if expected is None:
        assert recovered.progress is None and not contents(state)
        return
    assert contents(state) == expected[0]
    assert {k: v for k, v in progress.pack().items() if k not in ("received", "failures")} == {
        k: v for k, v in expected[1].items() if k not in ("received", "failures")
    }
    assert progress.failures == [0], "the failure is counted"
    assert [(link, block.key) for link, block in recovered.extras] == [(link, b.key) for link, b in expected[2]]


@pytest.fixture
def partial(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has changed is saved, however much it is."""
    monkeypatch.setattr(HashMap, "_mostly_changed", lambda self: False)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, partial: None) -> None:
    """All states count as large, but none is sliced."""
    monkeypatch.setattr(module, "LARGE_BYTES", 0)
    monkeypatch.setattr(module, "ROUND_SHARE", 1e9)
    monkeypatch.setattr(module, "CHANGES_MAX", 1000)


@pytest.mark.usefixtures("large")
def test_a_large_state_builds_on_what_was_restored() -> None:
    """Neither it nor what has not arrived is written once more."""
    bench = Bench()
    for _ in range(3):
        bench.save()
    for _ in range(2):
        bench.restart()
        bench.save()
        bench.save()
    assert bench.kinds == ["whole", *["part"] * 6]
    assert [len(meta["extras"]) for _, _, meta, _ in bench.port.saved] == [1] * 7
    assert [meta["builds_on"] for _, _, meta, _ in bench.port.saved] == [0, 1, 2, 3, 4, 5, 6]
    recovered, progress, state = bench.restored()
    assert contents(state) == contents(bench.state) and progress.included == 7
    assert [block.key.row for _, block in recovered.extras] == [5, 6, 7]


@pytest.mark.usefixtures("partial")
def test_a_small_state_is_saved_whole_first() -> None:
    bench = Bench()
    bench.save()
    bench.save()
    bench.restart()
    bench.save()
    assert bench.kinds == ["whole", "part", "whole"]


@pytest.mark.usefixtures("large")
def test_nothing_builds_on_the_records_of_another_copy() -> None:
    bench = Bench()
    bench.save()
    bench.restart(name="b.0~1")
    bench.save()
    assert bench.kinds == ["whole", "whole"]


@pytest.mark.usefixtures("large")
def test_what_was_taken_from_another_copy_counts_before_all_that_this_one_had_saved() -> None:
    """Also at a server that was started again, which has what was released: it may be more than the other had saved."""
    bench, other = Bench(), Bench()
    other.port.author = "b.0~1"
    for _ in range(5):
        bench.save()
    for _ in range(12):
        other.receive(save=False)
        other.process()
    other.save()
    recovered, bench.progress, bench.state = other.restored()
    bench.recorder = Recorder(bench.port, bench.progress, bench.state)
    bench.recorder.go_on_from(recovered)
    for _ in range(3):
        bench.progress.received = bench.progress.included
        bench.save()
        bench.port.log = [(record, 0) for record, _ in bench.port.log]
        _, progress, state = bench.restored()
        assert (contents(state), progress.included) == (contents(bench.state), bench.progress.included)
    assert bench.kinds == ["whole", *["part"] * 4, "whole", "part", "part"]


@pytest.mark.usefixtures("large")
def test_parts_count_until_a_whole_state_is_due_whoever_saved_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARTS_MAX", 1)
    monkeypatch.setattr(module, "CHANGES_MAX", 4)
    monkeypatch.setattr(Copies, "_is_in_round", False)
    bench = Bench()
    bench.state.add(np.arange(1000), np.ones(1000))
    for _ in range(6):
        bench.save()
        bench.restart()
    assert bench.kinds == ["whole", *["part"] * 4, "whole"]


@pytest.mark.usefixtures("partial")
def test_parts_of_a_whole_state_that_is_damaged_are_left_out() -> None:
    """The server falls back to the one before it."""
    bench = Bench()
    bench.save()
    bench.save()
    bench.recorder._copies.lose()
    bench.save()
    bench.save()
    assert bench.kinds == ["whole", "part", "whole", "part"]
    bench.port.log[2:3] = []
    recovered, progress, _ = bench.restored()
    assert recovered.version == 2 and progress.included == 2
    bench.restart()
    bench.save()
    assert contents(bench.restored()[2]) == contents(bench.state) == {1: 1.0, 2: 2.0, 3: 3.0}


@pytest.mark.usefixtures("large")
def test_nothing_is_mixed_with_what_a_damaged_record_has_cut_off() -> None:
    bench = Bench()
    for _ in range(6):
        bench.save()
    bench.port.log[3:4] = []
    bench.restart()
    assert contents(bench.state) == {1: 1.0, 2: 2.0, 3: 3.0}
    for _ in range(2):
        bench.save()
        assert contents(bench.restored()[2]) == contents(bench.state)
        bench.restart()
    assert bench.kinds[-2:] == ["part", "part"]


@pytest.mark.usefixtures("partial")
def test_records_of_former_versions_come_back() -> None:
    bench = Bench()
    bench.save()
    bench.save()
    for _, _, meta, _ in bench.port.saved:
        del meta["author"], meta["builds_on"], meta["base"]
    assert contents(bench.restored()[2]) == {1: 1.0, 2: 2.0}
    bench.restart()
    bench.save()
    assert contents(bench.restored()[2]) == contents(bench.state)


@pytest.mark.usefixtures("large")
def test_records_that_tell_incarnations_apart_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As some were written; what their base is counts."""
    monkeypatch.setattr(module, "ROUND_SHARE", 0)
    monkeypatch.setattr(module, "SLICES", 3)
    bench = Bench()
    for _ in range(8):
        bench.save()
    for _, _, meta, _ in bench.port.saved:
        meta |= {"author": ["b.0", 1], "builds_on": min(1, meta["builds_on"]), "base": [1, meta["base"]]}
    bench.restart()
    bench.save()
    assert bench.kinds[-1] == "whole" and contents(bench.restored()[2]) == contents(bench.state)


@pytest.mark.usefixtures("large")
def test_a_round_of_slices_takes_the_place_of_a_whole_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is older is needed no more, what has not arrived is written once more, and nothing is ever saved whole."""
    monkeypatch.setattr(module, "ROUND_SHARE", 0)
    monkeypatch.setattr(module, "SLICES", 3)
    bench = Bench()
    for saved in range(1, 15):
        bench.save()
        assert contents(bench.restored()[2]) == contents(bench.state), f"record {saved}"
    assert bench.kinds == ["whole", *["part"] * 13]
    kept = [meta for _, _, meta, _ in Shelf(bench.port).records]
    assert [meta["version"] for meta in kept] == [11, 12, 13, 14], "the last round, and behind it"
    assert [len(meta["extras"]) for meta in kept] == [3, 1, 1, 3]
    assert [block.key.row for _, block in bench.restored()[0].extras] == [12, 13, 14]


@given(
    st.lists(st.one_of(st.just("save"), st.just("whole"), st.integers(0, 4)), max_size=30),
    st.sampled_from([2, 5, 256]), st.sampled_from([0, 1e9]),
)  # fmt: skip
def test_a_successor_goes_on_from_the_newest_that_it_can_see(
    steps: list[str | int], parts_max: int, share: float
) -> None:
    """Numbers are restarts, before which so many of the newest records of the incarnation are lost on their way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PARTS_MAX", parts_max)
        patch.setattr(module, "LARGE_BYTES", 0)
        patch.setattr(module, "ROUND_SHARE", share)
        patch.setattr(module, "SLICES", 2)
        patch.setattr(HashMap, "_mostly_changed", lambda self: False)
        patch.setattr(module, "CHANGES_MAX", 1000)
        bench, own, saved = Bench(), 0, {0: contents(HashMap())}
        for step in steps:
            if step == "save":
                bench.save()
                own += 1
                saved[bench.recorder._version] = contents(bench.state)
            elif step == "whole":
                bench.recorder._copies.lose()
            else:
                unseen, own = min(int(step), own), 0
                there = [meta["version"] for (_, _, meta, _), _ in bench.port.log]
                newest = max([0, *there[: len(there) - unseen]])
                bench.restart(unseen)
                assert contents(bench.state) == saved[newest]


def test_what_has_not_arrived_is_written_once_between_whole_states() -> None:
    bench = Bench()
    for _ in range(4):
        bench.receive(save=False)
        bench.process()
        bench.recorder.save_state(bench.extras)
        bench.recorder.save_progress(bench.extras)
    rows = [[fields[2][2] for fields in meta["extras"]] for _, _, meta, _ in bench.port.saved]
    assert rows == [[1], [], [2], [], [3], [], [4], []]
    assert [block.key.row for _, block in bench.restored()[0].extras] == [2, 3, 4]


@given(STEPS)
def test_every_saved_block_that_the_state_lacks_comes_back_in_order(steps: list[str]) -> None:
    bench, saved, included = Bench(), [], 0
    for step in steps:
        if step in ("receive", "unsaved"):
            bench.receive(step == "receive")
            saved += [bench.progress.received] if step == "receive" else []
        elif step == "process":
            bench.process()
        elif step == "state":
            bench.recorder.save_state(())
            included = bench.progress.included
    recovered, progress, _ = bench.restored()
    wanted = [number for number in saved if number > included]
    found = recovered.unprocessed()
    assert [made.number for made in found] == wanted
    assert all(made.block.key.row == made.number and made.block.items == 1 for made in found)
    assert progress.received >= max(saved, default=0), "numbers are not used twice"
    run = [made.number for made in recovered.latest_run()]
    assert run == wanted[len(wanted) - len(run) :]
    assert not run or all(number in run for number in wanted if number >= run[0])
    first = run[0] if run else 0
    assert first - 1 not in wanted, "the run is the longest one"


def test_a_partial_backup_whose_whole_one_is_lost_is_not_taken() -> None:
    bench = Bench()
    for _ in range(2):
        bench.receive(True)
        bench.process()
        bench.recorder.save_state(())
    state, items = Shelf(bench.port).restore()
    assert state is not None and len(items) >= 1
    recovered = Recovered(None, items)
    assert recovered.progress is None and not recovered.copies


def test_punctuation_and_what_a_closed_window_put_out_is_never_left_out() -> None:
    """AF 3.4.3: of the items, the latest run; of the punctuation, all."""
    bench = Bench()
    end = Block(Kind.PUNCTUATION, Epoch(1), Key(0, 0, 1, 0), meta={"cause": [*WINDOW, 1, 0], "items": 3})
    window = data(2, cause=(*WINDOW, 1, 1))
    for number, block in ((1, end), (2, window), (3, data(3)), (5, data(5))):
        bench.progress.included = number - 1
        bench.recorder.save_block(entry(number, block))
    recovered = Recovered(*Shelf(bench.port).restore())
    assert [made.number for made in recovered.latest_run()] == [1, 2, 5]
    assert is_punctuation(end) and is_punctuation(window) and not is_punctuation(data(3))


def test_what_waited_when_later_blocks_were_saved_belongs_to_the_run() -> None:
    """Numbers may lack for other reasons than that all before them was processed: feedback overtakes, lives end."""
    bench = Bench()
    for number, included in ((1, 0), (3, 1), (4, 1), (7, 3)):
        bench.progress.included = included
        bench.recorder.save_block(entry(number, data(number)))
    recovered = Recovered(*Shelf(bench.port).restore())
    assert [made.number for made in recovered.latest_run()] == [3, 4, 7]


def test_feedback_that_overtook_is_not_processed_twice() -> None:
    bench = Bench()
    back = (3, 0)
    bench.receive(True)
    feedback = data(1, kind=Kind.FEEDBACK)
    bench.recorder.save_block(entry(2, feedback, back))
    bench.progress.done[back] = Heard()
    bench.progress.done[back].note(feedback)
    bench.recorder.save_state(())
    bench.recorder.save_block(entry(3, data(2, kind=Kind.FEEDBACK), back))
    recovered = Recovered(*Shelf(bench.port).restore())
    assert [made.number for made in recovered.unprocessed()] == [1, 3]


def test_the_windows_whose_feedback_has_come_are_those_of_the_newest_record() -> None:
    """What put it out is told that it is safe, as of all that closes a window: it does not come a second time."""
    bench = Bench()
    bench.save()
    bench.progress.epoch, bench.progress.feedback = 2, {(3, 0): 2}
    bench.recorder.save_progress(())
    progress = bench.restored()[1]
    assert (progress.epoch, progress.feedback) == (2, {(3, 0): 2})


def test_feedback_that_no_state_includes_has_not_come_by_the_record_of_an_output() -> None:
    """It is not acknowledged, so it comes again; a task that did not take it in would compute with an old model."""
    bench = Bench()
    bench.progress.feedback = {(3, 0): 1}
    bench.save()
    bench.progress.feedback = {(3, 0): 2}
    bench.recorder.save_output(())
    assert bench.restored()[1].feedback == {(3, 0): 1}


def test_what_the_store_refuses_is_saved_later_in_its_order() -> None:
    bench = Bench()
    bench.port.full = True
    bench.receive(False)
    bench.process()
    bench.recorder.save_state(())
    bench.receive(False)
    bench.process()
    bench.recorder.save_state(())
    assert bench.recorder.full and not bench.port.saved
    bench.port.full = False
    bench.recorder.retry()
    assert not bench.recorder.full and bench.recorder.state_number == 2
    assert contents(bench.restored()[2]) == {1: 1.0, 2: 2.0}


def test_blocks_of_records_come_back_with_their_bytes() -> None:
    bench = Bench()
    rows = np.zeros(2, np.dtype([("a", "<i8"), ("b", "<f8")]))
    rows["a"] = [7, 8]
    bench.recorder.save_block(entry(1, data(1, items=2, arrays=(rows,))))
    (made,) = Recovered(*Shelf(bench.port).restore()).unprocessed()
    assert made.block.arrays[0].tobytes() == rows.tobytes()


def test_structured_arrays_of_a_state_come_back_as_they_were() -> None:
    rows = np.array([(1, 2.5), (2, 3.5)], [("epoch", "<i8"), ("loss", "<f8")])
    part = Block(Kind.FEEDBACK, Epoch(1), arrays=(plain(rows), np.arange(3)), meta={"types": [type_of(rows), []]})
    back = restored(part)
    assert back[0].dtype == rows.dtype and back[0].tolist() == rows.tolist() and back[1].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("copies", "kinds"), [(True, ["whole", "part"]), (False, ["whole", "whole"])])
@pytest.mark.usefixtures("partial")
def test_what_has_changed_is_saved_though_the_state_was_copied(
    copies: bool, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state that can only be copied by a backup has taken that in then: the next record is whole."""
    if not copies:
        monkeypatch.setattr(HashMap, "copy_all", State.copy_all)
    bench = Bench()
    bench.state.add(np.arange(5), np.ones(5))
    bench.recorder.save_state(())
    bench.state.add(np.array([3]), np.array([7.0]))
    copied = bench.recorder.copy_state()
    assert copied is not None and copied.full
    bench.state.add(np.array([4]), np.array([1.0]))
    bench.recorder.save_state(())
    assert bench.kinds == kinds
    restored_state, copy = HashMap(), HashMap()
    copy.recover_state(copied)
    take_over(TaskProgress(), Recovered(*Shelf(bench.port).restore()), restored_state)
    assert restored_state.get(np.arange(5)).tolist() == [1.0, 1.0, 1.0, 8.0, 2.0]
    assert copy.get(np.arange(5)).tolist() == [1.0, 1.0, 1.0, 8.0, 1.0]
