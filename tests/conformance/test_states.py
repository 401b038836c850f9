"""What every fault-tolerant state promises (AF 3.3, 3.4.1), tried on random updates beside a naive copy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from state_cases import CASES, Case, Item, N

from riprap.operators.states import Backup, State

all_cases = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.divergence}")
built_in = pytest.mark.parametrize(
    "case", [case for case in CASES if not case.own], ids=lambda case: f"{case.name}-{case.divergence}"
)
keys = st.integers(0, N - 1)
whole = st.integers(-8, 8).map(float)
items = st.lists(st.tuples(keys, whole), max_size=100)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), items), st.tuples(st.just("assign"), items),
        *(st.tuples(st.just(name), st.just([])) for name in ("backup", "backup_all", "clear", "recover")),
    ),
    max_size=12,
)  # fmt: skip
thetas = st.one_of(st.just(math.inf), st.integers(0, 40).map(float), st.floats(0, 40))


def for_keys(case: Case, wanted: list[Item]) -> list[Item]:
    """A number has one entry only."""
    return [(0, amount) for _, amount in wanted] if case.name == "number" else wanted


class Pair:
    """A state, the naive one, and the backups that a server would hold."""

    def __init__(self, case: Case, theta: float) -> None:
        self.case, self.state, self.naive = case, case.make(), case.naive()
        self.state.theta = theta
        self.stored: list[Backup] = []
        self.at_backup: list[Item] = []

    def compare(self) -> None:
        assert dict(self.case.contents(self.state)) == self.naive.values
        assert self.state.state_divergence() == self.naive.kept() >= self.naive.exact()
        assert self.state.exceeded == (self.naive.kept() > self.state.theta)

    def update(self, wanted: list[Item], assign: bool) -> None:
        """In as many calls as the threshold demands, each of which must stop where the naive loop does."""
        wanted = for_keys(self.case, wanted)
        while wanted:
            expected = self.stop(wanted, assign)
            assert self.case.update(self.state, wanted, assign) == expected
            self.compare()
            wanted = wanted[expected:]
            if self.state.exceeded:
                self.backup(self.state.backup_state())

    def stop(self, wanted: list[Item], assign: bool) -> int:
        for i, item in enumerate(wanted):
            assert self.naive.kept() <= self.state.theta
            self.naive.apply(item, assign)
            if self.naive.kept() > self.state.theta:
                return i + 1
        return len(wanted)

    def backup(self, backup: Backup) -> None:
        if backup.full:
            self.stored.clear()
        else:
            assert self.stored, "the first is full"
            assert len(backup.arrays[-1]) - (self.case.name == "set-bytes") == len(self.naive.changed)
        self.stored.append(backup)
        self.naive.backed_up()
        self.at_backup = self.case.contents(self.state)
        self.compare()
        restored = recovered(self.case, self.stored)
        assert self.case.contents(restored) == self.at_backup, "the same entries in the same order"

    def clear(self) -> None:
        if self.case.own:
            return
        self.state.clear()
        self.naive.clear()
        self.compare()
        backup = self.state.backup_state()
        assert backup.full
        self.backup(backup)

    def recover(self) -> None:
        """Lose what came after the last backup."""
        if not self.stored:
            return
        for backup in self.stored:
            self.state.recover_state(backup)
        self.naive.values = dict(self.at_backup)
        self.naive.backed_up()
        self.compare()


def recovered(case: Case, stored: list[Backup]) -> State:
    state = case.make()
    for backup in stored:
        state.recover_state(backup)
        assert state.state_divergence() == 0
    return state


@all_cases
@given(sequence=steps, theta=thetas)
def test_a_state_does_what_the_naive_one_does(case: Case, sequence: list[tuple[str, list[Item]]], theta: float) -> None:
    pair = Pair(case, theta)
    for name, wanted in sequence:
        if name in ("add", "assign"):
            pair.update(wanted, name == "assign")
        elif name in ("backup", "backup_all"):
            pair.backup(pair.state.backup_state() if name == "backup" else pair.state.backup_all())
        elif name == "clear":
            pair.clear()
        else:
            pair.recover()
    pair.backup(pair.state.backup_state())


maxima = pytest.mark.parametrize(
    "case", [case for case in CASES if case.divergence == "maximum"], ids=lambda case: case.name
)
lines = st.sampled_from([0.0, 0.5, 1.0, 3.0, 8.0, 50.0, math.inf])


class Served:
    """A state that spares what hardly changed, and what a server would make of its backups."""

    def __init__(self, case: Case) -> None:
        self.case, self.state, self.stored = case, case.make(), list[Backup]()
        self.touched: set[int] = set()
        self.beyond: set[int] = set()
        """Keys that may be in the next partial backup: their difference has exceeded the line since the last one."""

    def saved(self) -> dict[int, float]:
        return dict(self.case.contents(recovered(self.case, self.stored)))

    def differences(self) -> dict[int, float]:
        now, saved = dict(self.case.contents(self.state)), self.saved() if self.stored else {}
        return {key: abs(now.get(key, 0.0) - saved.get(key, 0.0)) for key in now.keys() | saved.keys()}

    def check(self) -> None:
        assert max(self.differences().values(), default=0.0) <= self.state.state_divergence()

    def update(self, wanted: list[Item], assign: bool) -> None:
        """One by one, so that each entry that crosses the line is seen."""
        for item in wanted:
            assert self.case.update(self.state, [item], assign) == 1
            self.touched.add(item[0])
            self.note()
            if self.state.exceeded:
                self.back_up(self.state.backup_state())

    def note(self) -> None:
        self.beyond |= {key for key, distance in self.differences().items() if distance > self.state.spared}

    def draw(self, line: float, theta: float) -> None:
        """With a line of its own each entry is looked at anew."""
        before, self.state.theta = self.state.spared, theta
        self.state.save_above = line
        if self.state.spared != before:
            self.beyond.clear()
            self.note()

    def back_up(self, backup: Backup) -> None:
        if backup.full:
            self.stored.clear()
        elif self.state.spared:
            assert self.keys_in(backup) == self.beyond
        else:
            assert self.beyond <= self.keys_in(backup) <= self.beyond | self.touched
        self.stored.append(backup)
        self.beyond.clear()
        self.touched.clear()
        self.check()
        assert self.state.state_divergence() <= self.state.spared and not self.state.exceeded
        assert not any(distance > self.state.spared for distance in self.differences().values())

    def keys_in(self, partial: Backup) -> set[int]:
        """What a partial backup holds, found out by a state that has it alone."""
        bare = self.case.make()
        bare.recover_state(self.case.make().backup_all())
        bare.recover_state(Backup(False, (*partial.arrays[:-1], np.ones_like(partial.arrays[-1]))))
        return {key for key, value in self.case.contents(bare) if value}


@maxima
@settings(max_examples=80, deadline=None)
@given(sequence=steps, drawn=st.lists(st.tuples(lines, thetas), min_size=1, max_size=4))
def test_what_is_restored_differs_by_the_divergence_at_most(
    case: Case, sequence: list[tuple[str, list[Item]]], drawn: list[tuple[float, float]]
) -> None:
    served = Served(case)
    for number, (name, wanted) in enumerate(sequence):
        served.draw(*drawn[number % len(drawn)])
        if name in ("add", "assign"):
            served.update(wanted[:20], name == "assign")
        elif name == "backup":
            served.back_up(served.state.backup_state())
        elif name == "backup_all":
            served.back_up(served.state.backup_all())
            assert served.state.state_divergence() == 0 == max(served.differences().values(), default=0.0)
        elif name == "clear":
            served.state.clear()
            served.stored.clear()
            served.beyond.clear()
        elif served.stored:
            for backup in served.stored:
                served.state.recover_state(backup)
            assert served.state.state_divergence() == 0 == max(served.differences().values(), default=0.0)
            served.beyond.clear()
            served.touched.clear()
        if served.stored or name in ("add", "assign"):
            served.check()


@maxima
def test_entries_within_the_line_stay_out_until_they_add_up(case: Case) -> None:
    state = case.make()
    state.theta, state.save_above = 100.0, 10.0
    case.update(state, [(key, 1.0) for key in range(N)], False)
    stored = [state.backup_state()]
    case.update(state, [(3, 10.0), (5, 11.0), (5, -9.0), (7, 4.0)], False)
    stored.append(state.backup_state())
    assert not stored[1].full and state.state_divergence() == 10.0
    assert {**dict.fromkeys(range(N), 1.0), 5: 3.0} == dict(case.contents(recovered(case, stored)))
    case.update(state, [(3, 1.0), (7, 6.0)], False)
    assert state.state_divergence() == 11.0
    stored.append(state.backup_state())
    assert {**dict.fromkeys(range(N), 1.0), 5: 3.0, 3: 12.0} == dict(case.contents(recovered(case, stored)))
    assert len(stored[2].arrays[-1]) == 1


@maxima
@pytest.mark.parametrize(("line", "theta"), [(0.0, 100.0), (100.0, 100.0), (math.inf, math.inf), (200.0, 50.0)])
def test_nothing_is_spared_without_a_line_below_theta(case: Case, line: float, theta: float) -> None:
    state = case.make()
    state.theta, state.save_above = theta, line
    state.backup_state()
    case.update(state, [(2, 1.0), (4, 7.0)], False)
    backup = state.backup_state()
    assert state.spared == 0 == state.state_divergence()
    assert len(backup.arrays[-1]) == 2 or backup.full


@maxima
def test_a_state_with_spared_changes_takes_no_partial_backup(case: Case) -> None:
    full, partial = two_backups(case)
    state = recovered(case, [full])
    state.theta, state.save_above = 100.0, 10.0
    case.update(state, [(0, 1.0)], False)
    with pytest.raises(ValueError, match="partial"):
        state.recover_state(partial)
    state.recover_state(full)
    state.recover_state(partial)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.divergence != "maximum"], ids=lambda case: f"{case.name}-{case.divergence}"
)
def test_other_divergences_spare_nothing(case: Case) -> None:
    state = case.make()
    state.theta, state.save_above = 100.0, 10.0
    stored = [state.backup_state()]
    case.update(state, for_keys(case, [(1, 2.0), (4, 3.0)]), False)
    stored.append(state.backup_state())
    assert state.state_divergence() == 0
    stored = stored[1:] if stored[1].full else stored
    assert case.contents(recovered(case, stored)) == case.contents(state)


@all_cases
def test_a_backup_has_arrays_of_its_own(case: Case) -> None:
    state = case.make()
    updates = for_keys(case, [(key, float(key + 1)) for key in range(N)])
    case.update(state, updates, True)
    backup = state.backup_all()
    before = [array.tobytes() for array in backup.arrays]
    case.update(state, [(key, amount + 5) for key, amount in updates], True)
    assert [array.tobytes() for array in backup.arrays] == before
    assert all(array.base is None or array.base.flags.owndata for array in backup.arrays)


@all_cases
def test_nothing_is_exceeded_without_a_threshold(case: Case) -> None:
    state = case.make()
    updates = for_keys(case, [(key % N, 1e12) for key in range(500)])
    assert case.update(state, updates, False) == 500
    assert not state.exceeded


@pytest.mark.parametrize("divergence", ["manhattan", "euclidean", "maximum"])
@pytest.mark.parametrize("name", ["vector", "map-int64-float64"])
@settings(max_examples=40, deadline=None)
@given(updates=st.lists(st.tuples(keys, st.floats(-1e6, 1e6)), min_size=1, max_size=200))
def test_rounding_does_not_add_up(name: str, divergence: str, updates: list[Item]) -> None:
    case = next(case for case in CASES if (case.name, case.divergence) == (name, divergence))
    state, naive = case.make(), case.naive()
    for _ in range(3):
        case.update(state, updates, False)
        for item in updates:
            naive.apply(item, False)
    assert state.state_divergence() == pytest.approx(naive.kept(), rel=1e-14, abs=1e-300)


def malformations(backup: Backup) -> list[Backup]:
    """Backups that are none, made of a sound one."""
    full, arrays = backup
    bad = [arrays[:-1], (*arrays, arrays[-1]), (), tuple(array.reshape(1, -1) for array in arrays)]
    for i, array in enumerate(arrays):
        for other in (
            array[:-1],
            np.append(array, array[:1]),
            array.astype("f4"),
            array.astype("O"),
            None,
            array.tolist(),
        ):
            bad.append((*arrays[:i], other, *arrays[i + 1 :]))
    return [Backup(full, wrong) for wrong in bad]


def two_backups(case: Case) -> tuple[Backup, Backup]:
    """A full one, and one of a few changes (of new keys, for a set)."""
    state = case.make()
    case.update(state, for_keys(case, [(key, float(key + 1)) for key in range(N - 2)]), True)
    full = state.backup_state()
    case.update(state, for_keys(case, [(key, 99.0) for key in (N - 1, 1, N - 2)]), True)
    return full, state.backup_state()


@built_in
def test_malformed_backups_are_refused(case: Case) -> None:
    full, partial = two_backups(case)
    assert full.full and partial.full == (case.name == "number")
    for which, good in ((0, full), (1, partial)):
        for wrong in malformations(good):
            if case.name == "set-int64" and len(wrong.arrays) == 1 and well_formed_keys(wrong, full, which):
                continue
            state = recovered(case, [full][:which])
            before = case.contents(state)
            with pytest.raises(ValueError):
                state.recover_state(wrong)
            assert case.contents(state) == before


def well_formed_keys(wrong: Backup, full: Backup, which: int) -> bool:
    """A set of numbers is sound with any keys, in a full backup without one twice."""
    (array,) = wrong.arrays
    if not isinstance(array, np.ndarray) or array.dtype != np.int64 or array.ndim != 1:
        return False
    return which == 1 or len(set(array.tolist())) == len(array)


@built_in
def test_a_partial_backup_needs_the_one_before(case: Case) -> None:
    full, partial = two_backups(case)
    if partial.full:
        return
    with pytest.raises(ValueError, match="partial"):
        case.make().recover_state(partial)
    state = recovered(case, [full])
    case.update(state, [(N - 1, 1.0)], False)
    with pytest.raises(ValueError, match="partial"):
        state.recover_state(partial)


any_array = st.one_of(
    *(
        arrays.arrays(dtype, st.integers(0, 14), elements=elements)
        for dtype, elements in (
            (np.int64, st.integers(-2, 14)), (np.int64, st.integers(-(2**63), 2**63 - 1)),
            (np.float64, st.floats(allow_nan=True)), (np.uint8, st.integers(0, 255)),
        )
    )
)  # fmt: skip


@built_in
@settings(max_examples=40, deadline=None)
@given(full=st.booleans(), found=st.lists(any_array, max_size=4))
def test_any_backup_is_taken_in_or_refused(case: Case, full: bool, found: list[np.ndarray]) -> None:
    state = recovered(case, [two_backups(case)[0]])
    before = case.contents(state)
    try:
        state.recover_state(Backup(full, tuple(found)))
    except ValueError:
        assert case.contents(state) == before
    else:
        state.recover_state(state.backup_all())
        assert state.state_divergence() == 0


@all_cases
def test_the_divergence_counts_from_the_empty_state_and_then_from_the_backup(case: Case) -> None:
    state = case.make()
    one = 1.0 if case.divergence == "cardinality" else 3.0
    case.update(state, [(0, 3.0)], False)
    assert state.state_divergence() == one
    state.backup_state()
    assert state.state_divergence() == 0.0
    case.update(state, [(0 if case.name == "number" else 1, 3.0)], False)
    assert state.state_divergence() == one
