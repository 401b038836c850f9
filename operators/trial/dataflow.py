"""The laws of a DataflowOperator: the same output and results from the same calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riprap.operators import returns
from riprap.operators.dataflow import DataflowOperator, Items
from riprap.operators.trial.arrays import copies, differing_names, first_difference, not_finite
from riprap.operators.trial.graph import Call, Message, Outbox, call
from riprap.operators.trial.law import Law, NotTried, breach
from riprap.operators.trial.sink import check_combines

THREADS = 4

_AGAIN = "the same bits each time: what is sent again after a failure must be what was sent before"


@dataclass
class OperatorCase:
    """Makes the operator, started, and its outbox; with the calls that it got in a run, with what it sent.

    The job's scheme may save states, and promise that a restored operator sends the same (`is_exact`).
    `is_destination`: its results are the job's.
    """

    make: Callable[[], DataflowOperator]
    outbox: Callable[[], Outbox]
    calls: Sequence[Call]
    is_saved: bool = True
    is_exact: bool = True
    is_destination: bool = True
    keeps_bad_rows: bool = False

    @cached_property
    def operator(self) -> DataflowOperator:
        """One that got all calls once more."""
        operator = self.make()
        for _ in self.replay(operator, self.calls):
            pass
        return operator

    def replay(self, operator: DataflowOperator, calls: Sequence[Call]) -> Iterator[tuple[Call, tuple[Message, ...]]]:
        """Call an operator once more, and yield its messages of each call."""
        out = self.outbox()
        for entry in calls:
            yield entry, call(operator, entry.kind, entry.given, out)

    @property
    def blocks(self) -> list[Items]:
        """The data that it got."""
        return [entry.given for entry in self.calls if entry.kind == "data" and isinstance(entry.given, Items)]

    @property
    def windows(self) -> list[int]:
        """The numbers of calls behind which a window was closed."""
        return [number for number, entry in enumerate(self.calls, 1) if entry.kind == "punctuation"]

    def compare(
        self, operator: DataflowOperator, calls: Sequence[Call], how: str, remedy: str, output: bool = True
    ) -> None:
        """Broken where the calls lead to other results in the end than before, or to other output, if that counts."""
        for entry, sent in self.replay(operator, calls):
            if output and (where := sent_differently(sent, entry.sent)):
                raise breach(operator, f"process_{entry.kind}", f"sent something else {how}: {where}", _AGAIN, remedy)
        if where := differing_names(results_of(operator), results_of(self.operator)):
            raise breach(operator, "results", f"returned something else {how}: {where}", "the same bits", remedy)


def results_of(operator: DataflowOperator) -> dict[str, np.ndarray]:
    """Its results; WrongReturn for what no job could go on with."""
    return returns.named_arrays(operator, "results", operator.results())


def sent_differently(found: Sequence[Message], wanted: Sequence[Message]) -> str:
    """The place where two lists of messages differ, in words; empty where they do not."""
    if len(found) != len(wanted):
        return f"{len(found)} messages, not {len(wanted)}"
    for one, other in zip(found, wanted):
        if one[:4] != other[:4]:
            return (
                f"{one.items} items to {one.stage} {list(one.to)}, not {other.items} to {other.stage} {list(other.to)}"
            )
        if where := first_difference(one.arrays, other.arrays):
            return f"to {one.stage}: {where}"
    return ""


def processes_its_input(case: OperatorCase) -> None:
    """The trial has failed already where this does not hold, but for a divergence, which only thresholds ask for."""
    assert case.operator is not None
    if (state := case.operator.state) is not None:
        returns.number(state, "state_divergence", state.state_divergence())


def leaves_items_as_they_are(case: OperatorCase) -> None:
    operator, out = case.make(), case.outbox()
    for given in case.blocks[:1]:
        arrays = tuple(np.array(array) for array in given.arrays)
        call(operator, "data", given._replace(arrays=arrays), out)
        if first_difference(arrays, given.arrays):
            raise breach(operator, "process_data", "changed its items", "items as they were", "Work on copies.")


def sends_the_same_again(case: OperatorCase) -> None:
    remedy = "Let output depend on the items and the state alone; draw random numbers from context.seed."
    case.compare(case.make(), case.calls, "the second time", remedy)


def prepares_without_a_trace(case: OperatorCase) -> None:
    operator = _preparing(case)
    before = dict(vars(operator))
    returned = [_prepared(operator, items) for items in case.blocks]
    first = [copies(arrays) for arrays in returned]
    for items, wanted in zip(reversed(case.blocks), reversed(first)):
        if where := first_difference(_prepared(operator, items), wanted):
            raise breach(operator, "prepare", f"returned something else the second time: {where}", "the same each time")
    if where := "".join(map(first_difference, returned, first)):
        raise breach(operator, "prepare", f"changed what it had returned before: {where}", "arrays of their own")
    changed = [name for name, value in vars(operator).items() if before.get(name, operator) is not value]
    if changed or vars(operator).keys() != before.keys():
        names = ", ".join(changed) or "its fields"
        expected = "an operator as it was: it is called ahead of the block's turn"
        raise breach(
            operator, "prepare", f"changed {names}", expected, "Keep what each thread needs in threading.local."
        )
    if operator.state is not None and operator.state.state_divergence() > 0:
        raise breach(operator, "prepare", "changed the state", "a state as it was", "Update it in process_data.")


def prepares_in_several_threads(case: OperatorCase) -> None:
    operator = _preparing(case)
    alone = [_prepared(operator, items) for items in case.blocks]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(lambda items: _prepared(operator, items), case.blocks))
    for found, wanted in zip(together, alone):
        if where := first_difference(found, wanted):
            said = f"returned something else while {THREADS} threads called it: {where}"
            raise breach(operator, "prepare", said, "the same: it is called for several blocks at once")


def returns_results(case: OperatorCase) -> None:
    found, fresh = results_of(case.operator), results_of(case.make())
    if list(found) != list(fresh):
        said = f"named {list(found)} where it had named {list(fresh)} at first"
        raise breach(case.operator, "results", said, "the same names in the same order")
    finite = not_finite(np.asarray(array) for array in found.values())
    if case.is_destination and not case.keeps_bad_rows and finite:
        remedy = "Look at the input, and avoid overflow."
        raise breach(case.operator, "results", f"returned arrays of which {finite}", "finite numbers", remedy)


def returns_metrics(case: OperatorCase) -> None:
    returns.numbers(case.operator, "metrics", case.make().metrics())
    returns.numbers(case.operator, "metrics", case.operator.metrics())
    check_combines(case.operator)


def _preparing(case: OperatorCase) -> DataflowOperator:
    operator = case.make()
    if not operator.prepares:
        raise NotTried("it defines no prepare")
    return operator


def _prepared(operator: DataflowOperator, items: Items) -> tuple[np.ndarray, ...]:
    found: Items = returns.prepared(operator, operator.prepare(items), items)
    return tuple(found.arrays)


LAWS: tuple[Law[OperatorCase], ...] = (
    Law("process_data says how far it came, and sends arrays", processes_its_input, essential=True),
    Law("items stay as they are", leaves_items_as_they_are),
    Law("prepare leaves no trace", prepares_without_a_trace),
    Law("prepare gives the same in several threads", prepares_in_several_threads),
    Law("results are arrays by name", returns_results),
    Law("metrics are numbers by name", returns_metrics),
    Law("the same calls lead to the same output", sends_the_same_again, essential=True),
)
