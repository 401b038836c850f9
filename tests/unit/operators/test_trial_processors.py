"""Each law of processors is broken by a mutant that keeps all others, and names its line."""

from __future__ import annotations

import inspect
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trial_parts import CONTEXT, EPOCHS, Counted, NoList, Sums, broken, check_place

from riprap.operators.base import Arrays, Processor
from riprap.operators.trial import processor
from riprap.operators.trial.law import RESTS, Outcome, try_laws
from riprap.operators.trial.subjects import opened_processor


class Overflowing(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        with np.errstate(all="ignore"):
            return [items.sum(axis=0) / np.zeros(3)]


class Moody(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        return super().process_data(items)[: 2 if len(items) > 3 else 1]


class Scaling(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        result = super().process_data(items)
        if items.flags.writeable:  # as a kernel that does not ask would
            items *= 2
        return result


class InPlace(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        items *= 2
        return super().process_data(items)


class Keeping(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        self.last = items[1:]
        return super().process_data(items)


class OneBuffer(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        if not hasattr(self, "buffer"):
            self.buffer = np.zeros(3)
        self.buffer[:] = items.sum(axis=0)
        return [self.buffer]


class ByAddress(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        return [np.array([float(items.ctypes.data % 8 == 3)])]


class Remembering(Sums):
    def process_feedback(self, feedback: Arrays) -> None:
        self.weight += float(feedback[0][0])


class Borrowing(Sums):
    weight: Any = np.ones(1)

    def process_feedback(self, feedback: Arrays) -> None:
        self.weight = feedback[0][:1]


class Bent(Sums):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items + 1.0

    def process_data(self, items: np.ndarray) -> Arrays:
        return self.process_nonlinear(self.process_linear(items), items)

    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> Arrays:
        return [linear.sum(axis=0)]


class Straight(Bent):
    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return np.array(items)


class Needy(Straight):
    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> Arrays:
        return [linear.sum(axis=0) + (0.0 if items is None else 1.0)]


class NoFeedback(Processor):
    def process_data(self, items: np.ndarray) -> Arrays:
        return [items.sum(axis=0)]


PROCESSORS = [
    (NoList, "process_data", "process_data returns a list", "NoList.process_data returned an array of float64"),
    (Overflowing, "process_data", "results are finite", "3 of 3 numbers of array 0 are NaN or infinite"),
    (Moody, "process_data", "blocks of any length", "Moody.process_data returned float64 for 1 of a block's rows"),
    (InPlace, "process_data", "process_data returns a list", "InPlace.process_data raised ValueError"),
    (Scaling, "process_data", "items stay as they are", "Scaling.process_data changed its items"),
    (Keeping, "process_data", "items are not kept", "Keeping.process_data kept its items"),
    (Counted, "process_data", "the same items give", "Counted.process_data returned another result the second time"),
    (OneBuffer, "process_data", "results stay as they are", "that changed with the next block"),
    (ByAddress, "process_data", "misaligned items", "at an address 3 bytes behind an aligned one"),
    (
        Remembering,
        "process_feedback",
        "a fresh processor goes on",
        "Remembering.process_feedback left a fresh processor",
    ),
    (Borrowing, "process_feedback", "feedback is copied", "Borrowing.process_feedback kept the arrays"),
    (Bent, "process_linear", "process_linear is linear", "Bent.process_linear is not linear: f(0) is 1, not 0"),
    (Needy, "process_nonlinear", "process_nonlinear needs no items", "without the items than process_data with them"),
]


def of_processor(kind: type[Processor]) -> list[Outcome]:
    feedbacks = [[np.array([2.0])], [np.array([3.0])]]
    case = processor.ProcessorCase(partial(opened_processor, kind, CONTEXT), EPOCHS[0], feedbacks)
    return list(try_laws("processor", case, processor.LAWS))


@pytest.mark.parametrize(
    ("mutant", "method", "law", "said"), PROCESSORS, ids=lambda value: getattr(value, "__name__", "")
)
def test_each_law_of_processors(mutant: type[Processor], method: str, law: str, said: str) -> None:
    ((text, complaint),) = broken(of_processor(mutant)).items()
    assert text.startswith(law) and said in complaint
    check_place(complaint, mutant, method)


def test_sound_processors_break_no_law_and_what_cannot_be_tried_is_said() -> None:
    assert not broken(of_processor(Sums)) and not broken(of_processor(Straight))
    left_out = {outcome.law: outcome.not_tried for outcome in of_processor(Sums) if outcome.not_tried}
    assert set(left_out.values()) == {"it defines no process_linear"} and len(left_out) == 2


def test_a_method_that_is_missing_is_named_by_its_class() -> None:
    (complaint,) = broken(of_processor(NoFeedback)).values()
    line = inspect.getsourcelines(NoFeedback)[1]
    assert complaint.startswith(f"NoFeedback.process_feedback is not defined ({Path(__file__)}:{line})\n")


def test_what_rests_on_a_complaint_is_not_tried() -> None:
    after = [outcome for outcome in of_processor(NoList) if outcome.not_tried]
    assert len(after) == len(processor.LAWS) - 1
    assert {outcome.not_tried for outcome in after} == {RESTS}


class Exiting(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        sys.exit(3)


def test_an_operator_that_exits_makes_a_complaint() -> None:
    (complaint,) = broken(of_processor(Exiting)).values()
    assert "Exiting.process_data raised sys.exit(3)" in complaint


class Debugged(Sums):
    def process_data(self, items: np.ndarray) -> Arrays:
        from bdb import BdbQuit

        raise BdbQuit


def test_leaving_the_debugger_ends_the_trial() -> None:
    from bdb import BdbQuit

    with pytest.raises(BdbQuit):
        of_processor(Debugged)
