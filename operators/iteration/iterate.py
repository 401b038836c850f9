"""A bulk iteration: all keys are worked on in each superstep, until an aggregate of all says that it is enough."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

import numpy as np

from riprap.operators.iteration.keyed_loop import Columns, Given, KeyedLoop, Width
from riprap.operators.iteration.keyed_step import KeyedStep, read_only
from riprap.operators.iteration.supersteps import Messages, Spoken, Supersteps
from riprap.operators.options import Option, check


class Iterate(KeyedLoop):
    """Values by key that a step of the user's changes in each superstep, by messages from key to key.

    The loop ends when no key has a message, or `until` says so. The functions are named in options, or methods of a
    class that derives from this one; Job.iterate takes them as they are.
    """

    def __init__(
        self,
        step: Annotated[Given, Option("A superstep, as module:function", example="my_module:step")] = None,
        first: Annotated[Given, Option("Keys and first values of rows", example="my_module:first")] = None,
        until: Annotated[Given, Option("True of a total that ends the loop")] = None,
        combine: Annotated[Given, Option("Joins two parts of the total; else they are added")] = None,
        columns: Columns = 2,
        width: Width = 1,
        supersteps: Supersteps = 1000,
    ) -> None:
        functions = {"step": step, "first": first, "until": until, "combine": combine}
        check(self, **functions, columns=columns, width=width, supersteps=supersteps)
        super().__init__(functions, columns, width, supersteps)

    @abstractmethod
    def first(self, rows: np.ndarray) -> Any:
        """The keys of this task's rows, each once, and their first values: a pair."""
        return self._functions["first"](rows)

    def _initial(self, rows: np.ndarray) -> tuple[str, Any]:
        return "first", self.first(rows)

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """Totals: what the user's step makes of them."""
        keys, values = self.state.arrays["keys"], self.state.arrays["values"]
        heard = self._places(messages.keys, keys)
        at = KeyedStep(number, read_only(keys), read_only(values), messages, heard, totals, self.rows_by_key)
        self.state.arrays["values"], spoken = self._step_of(at)
        return spoken

    def finished(self, fed: int, totals: np.ndarray) -> bool:
        """With an `until`, messages are not asked for: a loop may be of totals alone."""
        return self._has_converged(totals) if self._has("until") else fed == 0
