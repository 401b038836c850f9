"""The laws of a processor: a pure function of items and feedback, to the last bit."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators import returns
from riprap.operators.base import Processor
from riprap.operators.learning.linearity import check_linear
from riprap.operators.trial.arrays import OFFSETS, aligned, all_received, copies, first_difference, not_finite, received
from riprap.operators.trial.law import Broken, Complaint, Law, NotTried, breach

SHORT = (1, 2, 3, 63, 64, 65)
"""Lengths of blocks, around what kernels take at a time."""
LINEAR_ITEMS = 256

_PURE = "the same bits for the same items and feedback: this makes the model independent of failures"
_PURE_REMEDY = "Let the result depend on the items and on what process_feedback set alone; sum in a fixed order."


@dataclass
class ProcessorCase:
    """Makes the processor, opened; with blocks of items, and the feedback, epoch by epoch (perhaps none)."""

    make: Callable[[], Processor]
    blocks: Sequence[np.ndarray]
    feedbacks: Sequence[Sequence[np.ndarray]] = ()
    keeps_bad_rows: bool = False

    @cached_property
    def processor(self) -> Processor:
        """One that has lived through all feedback."""
        processor = self.make()
        for feedback in self.feedbacks:
            processor.process_feedback(all_received(feedback))
        return processor

    def fresh(self) -> Processor:
        """One that got the newest feedback alone, as a processor that starts again."""
        processor = self.make()
        if self.feedbacks:
            processor.process_feedback(all_received(self.feedbacks[-1]))
        return processor

    def result(self, items: np.ndarray, processor: Processor | None = None) -> list[np.ndarray]:
        """The result of a block; WrongReturn for one that no job could go on with."""
        processor = processor or self.processor
        return list(returns.result(processor, "process_data", processor.process_data(items)))

    @cached_property
    def results(self) -> list[list[np.ndarray]]:
        """The results of all blocks, as they came first; copies."""
        return [copies(self.result(received(block))) for block in self.blocks]

    def compare(self, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], how: str) -> None:
        """Broken where they differ in a bit."""
        if where := first_difference(found, wanted):
            raise breach(self.processor, "process_data", f"returned another result {how}: {where}", _PURE, _PURE_REMEDY)


def returns_arrays(case: ProcessorCase) -> None:
    assert len(case.results) == len(case.blocks)


def returns_finite_numbers(case: ProcessorCase) -> None:
    if case.keeps_bad_rows:
        raise NotTried("input.bad_rows is keep")
    for number, result in enumerate(case.results):
        if found := not_finite(result):
            said = f"returned a result for block {number} in which {found}"
            raise breach(case.processor, "process_data", said, "finite numbers", "Look at that block; avoid overflow.")


def returns_as_many_arrays_for_any_rows(case: ProcessorCase) -> None:
    block, wanted = case.blocks[0], case.results[0]
    for rows in (length for length in SHORT if length <= len(block)):
        result = case.result(received(block[:rows]))
        if [array.dtype for array in result] != [array.dtype for array in wanted]:
            kinds = ", ".join(str(array.dtype) for array in result) or "nothing"
            said = f"returned {kinds} for {rows} of a block's rows"
            raise breach(case.processor, "process_data", said, ", ".join(str(array.dtype) for array in wanted))


def leaves_items_as_they_are(case: ProcessorCase) -> None:
    items = np.array(case.blocks[0])
    case.result(items)
    if first_difference([items], [case.blocks[0]]):
        raise breach(case.processor, "process_data", "changed its items", "items as they were", "Work on items.copy().")


def keeps_no_items(case: ProcessorCase) -> None:
    items = np.array(case.blocks[0])
    alive = weakref.ref(items)
    case.result(items)
    del items
    gc.collect()
    if alive() is not None:
        said = "kept its items, or a view of them"
        expected = "items that can be let go: their memory belongs to others"
        raise breach(case.processor, "process_data", said, expected, "Keep a copy of what is needed.")


def computes_the_same_again(case: ProcessorCase) -> None:
    for number in reversed(range(len(case.blocks))):
        case.compare(case.result(received(case.blocks[number])), case.results[number], "the second time")


def leaves_its_results(case: ProcessorCase) -> None:
    first = case.result(received(case.blocks[0]))
    for block in case.blocks[1:]:
        case.result(received(block))
    case.compare(first, case.results[0], "that changed with the next block")
    for array in first:
        if array.flags.writeable:
            array[...] = 0
    case.compare(case.result(received(case.blocks[0])), case.results[0], "after its first result was overwritten")


def computes_the_same_wherever_items_lie(case: ProcessorCase) -> None:
    for block, wanted in zip(case.blocks, case.results):
        for offset in range(OFFSETS):
            found = case.result(received(block, offset))
            case.compare(found, wanted, f"for items at an address {offset} bytes behind an aligned one")


def goes_on_from_the_newest_feedback(case: ProcessorCase) -> None:
    fresh = case.fresh()
    for block, wanted in zip(case.blocks, case.results):
        if where := first_difference(case.result(received(block), fresh), wanted):
            raise breach(
                case.processor,
                "process_feedback" if case.feedbacks else "process_data",
                f"left a fresh processor with other results than one that lived longer: {where}",
                "a state that the newest feedback gives whole: a processor that starts again gets no more",
                "Let commit return all that processors need, and process_feedback replace their state by it.",
            )


def copies_its_feedback(case: ProcessorCase) -> None:
    if not case.feedbacks:
        raise NotTried("nothing is fed back")
    processor, wanted = case.make(), case.result(received(case.blocks[0]), case.fresh())
    feedback = copies(case.feedbacks[-1])
    processor.process_feedback(feedback)
    for array in feedback:
        array.fill(np.nan if array.dtype.kind == "f" else 1)
    if first_difference(case.result(received(case.blocks[0]), processor), wanted):
        said = "kept the arrays that it was handed"
        expected = "copies: the arrays are valid during the call only"
        raise breach(processor, "process_feedback", said, expected, "Copy what is kept: np.array(feedback[0]).")


def is_linear_where_it_says_so(case: ProcessorCase) -> None:
    if not case.processor.is_hybrid:
        raise NotTried("it defines no process_linear")
    try:
        check_linear(case.processor, case.blocks[0][:LINEAR_ITEMS])
    except ConfigError as error:
        where = returns.defined_at(type(case.processor), "process_linear")
        method = f"{type(case.processor).__name__}.process_linear"
        reason = str(error.args[0]).partition(" is not linear: ")[2]
        raise Broken(Complaint(method, f"is not linear: {reason}", "", where, error.remedy)) from error


def needs_no_items_for_the_rest(case: ProcessorCase) -> None:
    processor = case.processor
    if not processor.is_hybrid:
        raise NotTried("it defines no process_linear")
    for block, wanted in zip(case.blocks, case.results):
        items = aligned(block)
        linear = returns.matrix(processor, "process_linear", processor.process_linear(items), len(items))
        rest = processor.process_nonlinear(linear, None)
        found = returns.result(processor, "process_nonlinear", rest)
        if where := first_difference(found, wanted):
            said = f"returned another result without the items than process_data with them: {where}"
            raise breach(processor, "process_nonlinear", said, "the same: at the sink `items` is None")


LAWS: tuple[Law[ProcessorCase], ...] = (
    Law("process_data returns a list of arrays", returns_arrays, essential=True),
    Law("results are finite", returns_finite_numbers),
    Law("blocks of any length give as many arrays", returns_as_many_arrays_for_any_rows),
    Law("items stay as they are", leaves_items_as_they_are),
    Law("items are not kept", keeps_no_items),
    Law("process_linear is linear", is_linear_where_it_says_so),
    Law("the same items give the same bits", computes_the_same_again, essential=True),
    Law("results stay as they are", leaves_its_results),
    Law("misaligned items give the same bits", computes_the_same_wherever_items_lie),
    Law("a fresh processor goes on from the newest feedback", goes_on_from_the_newest_feedback),
    Law("feedback is copied", copies_its_feedback),
    Law("process_nonlinear needs no items", needs_no_items_for_the_rest),
)
