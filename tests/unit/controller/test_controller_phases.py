"""The table of phases: what is listed is allowed, all else raises, and every job can end."""

from __future__ import annotations

import pytest

from riprap.controller.phases import (
    ACTIVE,
    MOVES,
    STOPPING,
    TERMINAL,
    EndReason,
    FailureReason,
    IllegalMove,
    Phase,
    check_move,
)


@pytest.mark.parametrize("old", Phase)
@pytest.mark.parametrize("new", Phase)
def test_a_move_is_legal_exactly_if_listed(old: Phase, new: Phase) -> None:
    if new in MOVES[old]:
        assert check_move(old, new) is new
    else:
        with pytest.raises(IllegalMove, match=f"from {old} to {new}"):
            check_move(old, new)


def test_the_kinds_of_phases_divide_them() -> None:
    assert {Phase.SUBMITTED} | ACTIVE | STOPPING | TERMINAL == set(Phase)
    assert not ACTIVE & STOPPING and not STOPPING & TERMINAL and not ACTIVE & TERMINAL
    assert all(not MOVES[phase] for phase in TERMINAL)


def test_an_end_can_be_reached_from_everywhere() -> None:
    reached = set(TERMINAL)
    for _ in Phase:
        reached |= {phase for phase, to in MOVES.items() if to & reached}
    assert reached == set(Phase)


def test_reasons_are_told_apart_by_their_words() -> None:
    words = [*map(str, FailureReason), *map(str, EndReason)]
    assert len(set(words)) == len(words)
