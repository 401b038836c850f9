"""Linear and logistic regression by the gradient of all rows, one step a superstep."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from riprap.operators.finite import check_rows
from riprap.operators.iteration.loop_state import LoopState
from riprap.operators.iteration.supersteps import NO_MESSAGES, NOTHING, Iteration, Messages, Spoken, Supersteps
from riprap.operators.learning.classes import check_binary
from riprap.operators.options import Option, check


class FullGradient(Iteration):
    """Minimises the mean loss of all rows so far plus l2 |w|^2 / 2, the intercept (the last parameter) left out of it.

    Rows are the features and, last, the label: a number, or 0 or 1 under `logistic`. All tasks hold the same
    parameters, for all add up the same parts of the gradient in the same order.
    """

    agrees = ("parameters",)

    def __init__(
        self,
        features: Annotated[int, Option("The columns of a row but for the label", unit="columns", low=1)] = 1,
        loss: Annotated[str, Option("The loss of a row", choices=("squared", "logistic"))] = "squared",
        eta: Annotated[float, Option("The size of a step", low=0, above=True)] = 0.1,
        l2: Annotated[float, Option("The weight of the penalty", low=0)] = 0.0,
        tolerance: Annotated[
            float, Option("The loop ends once no entry of the gradient is greater than this", low=0)
        ] = 1e-6,
        supersteps: Supersteps = 1000,
    ) -> None:
        check(self, features=features, loss=loss, eta=eta, l2=l2, tolerance=tolerance, supersteps=supersteps)
        super().__init__(supersteps)
        self._logistic, self._eta, self._l2, self._tolerance = loss == "logistic", eta, l2, tolerance
        self.state = LoopState(features + 1, parameters=np.zeros(features + 1))

    def begin(self) -> None:
        """DataError for numbers that are not finite, and for labels that are not those of the loss."""
        rows = self.state.rows
        check_rows(rows)
        if self._logistic:
            check_binary(rows[:, -1], "in the last column of the rows")

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """Totals: the gradient's sum over the rows, and their number. A window begins with the last one's end."""
        arrays = self.state.arrays
        if number:
            arrays["parameters"] = arrays["parameters"] - self._eta * self._mean(totals)
        rows, parameters = self.state.rows, arrays["parameters"]
        features = np.column_stack([rows[:, :-1], np.ones(len(rows))])
        predicted = features @ parameters
        if self._logistic:
            predicted = 0.5 * (1 + np.tanh(predicted / 2))
        return Spoken(NO_MESSAGES, np.append((predicted - rows[:, -1]) @ features, len(rows)))

    def finished(self, fed: int, totals: np.ndarray) -> bool:
        return bool(totals[-1] == 0 or np.abs(self._mean(totals)).max() <= self._tolerance)

    def _mean(self, totals: np.ndarray) -> np.ndarray:
        penalty = self._l2 * self.state.arrays["parameters"]
        penalty[-1] = 0.0
        gradient: np.ndarray = totals[:-1] / totals[-1] + penalty
        return gradient

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """Task 0 speaks for all."""
        if self._me:
            return np.zeros(0, np.int64), NOTHING
        parameters = self.state.arrays["parameters"]
        return np.arange(len(parameters)), parameters

    def results(self) -> dict[str, np.ndarray]:
        return {"parameters": self.state.arrays["parameters"]}
