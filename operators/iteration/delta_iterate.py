"""A delta iteration: a solution that is large, and a workset that says which keys of it are worked on next."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

import numpy as np

from riprap.operators.iteration.keyed_loop import Columns, Given, KeyedLoop, Width
from riprap.operators.iteration.keyed_step import KeyedStep
from riprap.operators.iteration.supersteps import Messages, Spoken, Supersteps
from riprap.operators.options import Option, check


class DeltaIterate(KeyedLoop):
    """Values by key (the solution) of which a superstep touches only those that have a message (the workset).

    The loop ends when the workset is empty, or `until` says so. The functions are named in options, or methods of a
    class that derives from this one; Job.delta_iterate takes them as they are.
    """

    def __init__(
        self,
        step: Annotated[Given, Option("A superstep, as module:function", example="my_module:step")] = None,
        solution: Annotated[Given, Option("Keys and first values of rows", example="my_module:solution")] = None,
        workset: Annotated[Given, Option("Keys and values of the first messages", example="my_module:workset")] = None,
        until: Annotated[Given, Option("True of a total that ends the loop")] = None,
        combine: Annotated[Given, Option("Joins two parts of the total; else they are added")] = None,
        columns: Columns = 2,
        width: Width = 1,
        supersteps: Supersteps = 100_000,
    ) -> None:
        functions = {"step": step, "solution": solution, "workset": workset, "until": until, "combine": combine}
        check(self, **functions, columns=columns, width=width, supersteps=supersteps)
        super().__init__(functions, columns, width, supersteps)

    @abstractmethod
    def solution(self, rows: np.ndarray) -> Any:
        """The keys of this task's rows, each once, and their first values: a pair."""
        return self._functions["solution"](rows)

    @abstractmethod
    def workset(self, rows: np.ndarray) -> Any:
        """The first messages: any keys, and values; a pair."""
        return self._functions["workset"](rows)

    def _initial(self, rows: np.ndarray) -> tuple[str, Any]:
        return "solution", self.solution(rows)

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """Superstep 0 sends the first workset; totals are what the user's step makes of them."""
        if number == 0:
            return self._said("workset", self.workset(self.rows_by_key.rows))
        values = self.state.arrays["values"]
        hot, heard = np.unique(messages.keys, return_inverse=True)
        places = self._places(hot, self.state.arrays["keys"])
        at = KeyedStep(number, hot, values[places], messages, heard, totals, self.rows_by_key)
        values[places], spoken = self._step_of(at)
        return spoken

    def finished(self, fed: int, totals: np.ndarray) -> bool:
        return fed == 0 or self._has_converged(totals)
