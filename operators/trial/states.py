"""The laws of a state, and of the operator around it: a backup holds all, and a restored one goes on as before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riprap.operators import returns
from riprap.operators.dataflow import DataflowOperator, Items
from riprap.operators.returns import backup as checked
from riprap.operators.states.base import Backup, State
from riprap.operators.trial.arrays import first_difference, stored
from riprap.operators.trial.dataflow import OperatorCase, results_of
from riprap.operators.trial.graph import Call, call, process
from riprap.operators.trial.law import Law, NotTried, breach

STOPS, STOPS_MAX = 4, 64
"""Times, about, that theta makes the operator stop within a block; and at most."""
TOLERANCE = 1e-6
"""Sums may be rounded differently where a block is processed in parts."""

_KEEP = "Let all that later output depends on be in the state, or follow from it."


@dataclass
class Halfway:
    """An operator in the middle of its calls, and the calls that follow."""

    operator: DataflowOperator
    rest: Sequence[Call]

    @property
    def state(self) -> State:
        """The state of the operator."""
        assert self.operator.state is not None
        return self.operator.state


def whole(state: State) -> Backup:
    """All of a state."""
    return checked(state, "backup_all", state.backup_all(), Backup)


def changes(state: State) -> Backup:
    """The changes since the last backup."""
    return checked(state, "backup_state", state.backup_state(), Backup)


def recover(operator: DataflowOperator, backups: Sequence[Backup]) -> None:
    """Hand a fresh operator its backups, as they come back from a backup server."""
    if operator.state is not None:
        for saved in backups:
            operator.state.recover_state(saved._replace(arrays=tuple(map(stored, saved.arrays))))
    operator.recovered(0.0, 0)


def backs_up_all(case: OperatorCase) -> None:
    """Divergence is a number, and 0 once all is saved."""
    for stop in _moments(case):
        state = _after(case, stop).state
        returns.number(state, "state_divergence", state.state_divergence())
        saved = whole(state)
        if not saved.full:
            raise breach(state, "backup_all", "returned a partial backup", "Backup(True, ...)")
        if left := returns.number(state, "state_divergence", state.state_divergence()):
            raise breach(state, "state_divergence", f"returned {left:g} behind backup_all", "0: all is saved")


def recovers_what_was_backed_up(case: OperatorCase) -> None:
    for stop in _moments(case):
        half, again = _after(case, stop), case.make()
        recover(again, [whole(half.state)])
        assert again.state is not None
        _compare(half.state, again.state, "from backup_all")


def recovers_parts(case: OperatorCase) -> None:
    """A state is recovered from all of it, then the changes, in their order."""
    first, second = _moments(case)[0], _moments(case)[-1]
    half, again = _after(case, first), case.make()
    backups = [whole(half.state)]
    for _ in case.replay(half.operator, case.calls[first:second]):
        pass
    last = changes(half.state)
    recover(again, [last] if last.full else [*backups, last])
    assert again.state is not None
    _compare(half.state, again.state, "from backup_state")


def backups_are_copies(case: OperatorCase) -> None:
    half = _after(case, _moments(case)[0])
    saved = whole(half.state)
    kept = [np.array(array) for array in saved.arrays]
    for _ in case.replay(half.operator, half.rest):
        pass
    if where := first_difference(saved.arrays, kept):
        said = f"returned arrays that changed later: {where}"
        raise breach(
            half.state, "backup_all", said, "copies: they are saved while the state goes on", "Copy each array."
        )


def goes_on_where_theta_stops_it(case: OperatorCase) -> None:
    """Process each block once more, with a theta that stops the operator now and then, and a backup there."""
    operator, out = case.make(), case.outbox()
    state = _state(operator)
    undisturbed = case.make()
    for entry, _ in case.replay(undisturbed, case.calls):
        if entry.kind != "data":
            call(operator, entry.kind, entry.given, out)
            whole(_state(undisturbed))
            continue
        assert isinstance(entry.given, Items)
        items = returns.prepared(operator, operator.prepare(entry.given), entry.given)
        state.theta = _share(_state(undisturbed), items.count)
        process(operator, items, 0, out, _Stops(operator))
        whole(_state(undisturbed))
    found, wanted = results_of(operator), results_of(case.operator)
    for name, array in found.items():
        if not _close(np.asarray(array), np.asarray(wanted[name])):
            said = f"led to other {name!r} in results where theta stopped it within blocks"
            remedy = "Begin with item `first`, and return the number of the first that the state does not include."
            raise breach(operator, "process_data", said, "the same as without a stop", remedy)


class _Stops:
    """Makes the backup that is due where an operator has stopped; where it stops too often, theta is lifted."""

    def __init__(self, operator: DataflowOperator) -> None:
        self._operator, self._state, self._count = operator, _state(operator), 0

    def __call__(self, left: int) -> None:
        if not self._state.exceeded:
            expected = "items.count, as the state is within its theta"
            raise breach(self._operator, "process_data", f"returned {left}, before the end of the block", expected)
        changes(self._state)
        self._count += 1
        if self._count >= STOPS_MAX:
            self._state.theta = np.inf


def _share(state: State, items: int) -> float:
    """The part of theta that a block's items would use up STOPS times: of a state that was saved before the block."""
    divergence = state.state_divergence()
    return (divergence if np.isfinite(divergence) else float(items)) / STOPS


def goes_on_from_a_backup(case: OperatorCase) -> None:
    """To the same output where the scheme is exact; to the same results under all that save states."""
    if not case.is_saved:
        raise NotTried("the scheme saves no states")
    for stop in case.windows[:-1]:
        half, again = _after(case, stop), case.make()
        recover(again, [whole(half.state)] if half.operator.state is not None else [])
        how = f"after a restart behind window {case.windows.index(stop) + 1}"
        case.compare(again, half.rest, how, _KEEP, output=case.is_exact)


def _moments(case: OperatorCase) -> list[int]:
    """Calls behind which states are looked at: within the first window, at its end, and at the end of the last."""
    _state(case.operator)
    ends = case.windows or [len(case.calls)]
    return sorted({max(ends[0] // 2, 1), ends[0], ends[-1]})


def _after(case: OperatorCase, stop: int) -> Halfway:
    """A fresh operator that got the first `stop` calls."""
    operator = case.make()
    for _ in case.replay(operator, case.calls[:stop]):
        pass
    return Halfway(operator, case.calls[stop:])


def _state(operator: DataflowOperator) -> State:
    if operator.state is None:
        raise NotTried("it has no state")
    return operator.state


def _compare(state: State, again: State, how: str) -> None:
    if left := again.state_divergence():
        raise breach(state, "recover_state", f"left a divergence of {left:g}", "0: it is what was saved")
    if where := first_difference(whole(again).arrays, whole(state).arrays):
        said = f"made another state {how}: {where}"
        raise breach(state, "recover_state", said, "the state that was backed up, to the bit")


def _close(found: np.ndarray, wanted: np.ndarray) -> bool:
    if found.dtype.kind != "f":
        return bool(found.shape == wanted.shape and (found == wanted).all())
    return found.shape == wanted.shape and np.allclose(found, wanted, TOLERANCE, TOLERANCE, equal_nan=True)


LAWS: tuple[Law[OperatorCase], ...] = (
    Law("backup_all saves all of the state", backs_up_all),
    Law("recover_state makes the same state of it", recovers_what_was_backed_up),
    Law("and of what backup_state saved", recovers_parts),
    Law("backups are copies", backups_are_copies),
    Law("theta may stop it anywhere", goes_on_where_theta_stops_it),
    Law("a restored operator goes on as before", goes_on_from_a_backup),
)
