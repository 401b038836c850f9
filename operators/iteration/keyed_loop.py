"""Loops whose state is a value for each key, given as plain functions on arrays, or as a class with such methods."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.functions import load_function
from riprap.operators.iteration.exact import check_exact
from riprap.operators.iteration.keyed_step import KeyedStep, RowsByKey, read_only
from riprap.operators.iteration.loop_state import LoopState
from riprap.operators.iteration.supersteps import NOTHING, Iteration, Messages, Spoken
from riprap.operators.keyed import shares
from riprap.operators.options import Option
from riprap.operators.returns import WrongReturn, describe, place_of
from riprap.operators.tables import Arrays, Schema, Table, joined, ordered, plain_columns

Columns = Annotated[int, Option("The columns of a row; the first is its key", unit="columns", low=1)]
Width = Annotated[int, Option("The numbers in a message's value", unit="numbers", low=1)]
PAIR = "a pair: keys (int64), and a float64 value for each"
Given = str | None


class KeyedLoop(Iteration):
    """Base of Iterate and DeltaIterate: keys and values of a window's rows, and functions that a user gives.

    A function stands in an option by its import path, or is a method of a class that derives from one of these.
    """

    combines: ClassVar[Mapping[str, str]] = {"messages": "sum", "supersteps": "mean"}  # all tasks take the same
    meanings: ClassVar[Mapping[str, str]] = {
        "messages": "messages that keys were sent so far", "supersteps": "supersteps taken so far",
    }  # fmt: skip
    value_name = "value"
    """Name of a key's value, as people read it."""

    def __init__(self, functions: Mapping[str, Given], columns: int, width: int, supersteps: int) -> None:
        super().__init__(supersteps)
        self._functions = {name: load_function(path) for name, path in functions.items() if path is not None}
        for name in functions:
            self._check_given(name)
        self._width = width
        none = {"keys": np.zeros(0, np.int64), "values": NOTHING, "counts": np.zeros(2, np.int64)}
        self.state = LoopState(columns, **none)
        self._rows: tuple[int, RowsByKey] | None = None

    def _check_given(self, name: str) -> None:
        """One that is needed is an option or a method, and not both."""
        method = getattr(type(self), name)
        is_needed = getattr(method, "__isabstractmethod__", False)
        if name in self._functions and self._defines(name):
            raise ConfigError(f"{type(self).__name__} has a method {name}, and an option too", "Leave out one of them.")
        if name not in self._functions and is_needed:
            raise ConfigError(
                f"{type(self).__name__} has no {name}",
                f"Name a function in the option {name} (my_module:{name}), or derive a class that defines the method.",
            )

    def _defines(self, name: str) -> bool:
        """True when a user's class defines this method."""
        method = getattr(type(self), name)
        return not getattr(method, "__isabstractmethod__", False) and method is not getattr(KeyedLoop, name, None)

    def _has(self, name: str) -> bool:
        """True when the user has given such a function."""
        return name in self._functions or self._defines(name)

    # what a user gives
    @abstractmethod
    def step(self, at: KeyedStep) -> Any:
        """The keys' new values, and messages to any keys (a pair of keys and values, or None); and, where there is a
        third, this task's part of the total. Deterministic."""
        return self._functions["step"](at)

    def until(self, total: np.ndarray) -> bool:
        """True when the loop ends, by the parts of all tasks; asked after each superstep but the first."""
        return bool(self._functions["until"](total))

    def combine(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Joins parts of the total, in the order of tasks; their sum, unless given otherwise."""
        if one.shape != other.shape:
            raise self._wrong(
                "step", f"parts of {len(one)} and {len(other)} numbers", "as many in each task",
                "Return a part of one length, also from a task that has no keys.",
            )  # fmt: skip
        both = self._functions["combine"](one, other) if "combine" in self._functions else one + other
        return np.atleast_1d(np.asarray(both, np.float64))

    # the loop
    def begin(self) -> None:
        check_exact(self.state.rows[:, 0], "the key")
        name, found = self._initial(read_only(self.state.rows))
        keys, values = self._pair(name, found)
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        if (again := keys[1:] == keys[:-1]).any():
            raise self._wrong(name, f"key {keys[1:][again][0]} more than once", "each key once", "Use np.unique.")
        self._check_own(keys)
        self.state.arrays |= {"keys": keys, "values": values}

    def _initial(self, rows: np.ndarray) -> tuple[str, Any]:
        """The name of the function that makes the first keys and values, and what it made of these rows."""
        raise NotImplementedError

    def _check_own(self, keys: np.ndarray) -> None:
        """Messages find a key at the task that has it."""
        for share in shares(keys, (), self._tasks):
            if share.task != self._me:
                raise DataError(
                    f"key {share.arrays[0][0]} is one of task {share.task} and has rows at task {self._me}",
                    "Deal rows out by their key: let the stage before send them by out.send_by_key, on an edge of the"
                    " partitioning full.",
                )

    @property
    def rows_by_key(self) -> RowsByKey:
        """Made of the rows anew in each window, and in a new incarnation."""
        if self._rows is None or self._rows[0] != self.state.epoch:
            self._rows = self.state.epoch, RowsByKey.of(read_only(self.state.rows))
        return self._rows[1]

    def _places(self, asked: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """The places of the keys that were sent messages; all of them have a value."""
        places = np.searchsorted(keys, asked)
        known = places < len(keys)
        known[known] = keys[places[known]] == asked[known]
        if not known.all():
            raise DataError(
                f"a message to key {asked[~known][0]}, which has no value",
                "Give it a first value, for example by a row of its own; or leave out the message.",
            )
        return places

    def _step_of(self, at: KeyedStep) -> tuple[np.ndarray, Spoken]:
        """Take the user's step: the new values, and what this task says."""
        found = self.step(at)
        expected = "new values and messages, and perhaps a part of the total: (values, messages, part)"
        if not isinstance(found, tuple) or len(found) not in (2, 3):
            raise self._wrong("step", describe(found), expected, "For example: return values, (keys, told), part.")
        values = self._values("step", found[0], at.values.shape, f"a value for each of the {len(at.keys)} keys")
        part = np.atleast_1d(np.asarray(found[2], np.float64)) if len(found) == 3 else NOTHING
        if part.ndim > 1:
            raise self._wrong("step", f"a part of shape {part.shape}", "a number, or a row of numbers")
        return values, self._said("step", found[1], part)

    def _said(self, name: str, found: Any, part: np.ndarray = NOTHING) -> Spoken:
        """Messages that a function returned, counted."""
        form = (self._width,) if self._width > 1 else ()
        keys, values = (np.zeros(0, np.int64), np.zeros((0, *form))) if found is None else self._pair(name, found)
        if values.shape[1:] != form:
            wanted = f"{self._width} numbers each" if form else "a number each"
            width = values.shape[1] if values.ndim > 1 else 1
            raise self._wrong(
                name, f"messages of shape {values.shape}", wanted, f"Set the option width to {width} for such messages."
            )
        self.state.arrays["counts"] = self.state.arrays["counts"] + np.array([len(keys), 1])
        return Spoken(Messages(keys, values), part)

    def _has_converged(self, totals: np.ndarray) -> bool:
        return self.state.superstep > 1 and self._has("until") and bool(self.until(totals))

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        return self.state.arrays["keys"], self.state.arrays["values"]

    def results(self) -> dict[str, np.ndarray]:
        """The `keys` and `values` of the last window."""
        return {"keys": self.state.arrays["keys"], "values": self.state.arrays["values"]}

    def metrics(self) -> dict[str, float]:
        messages, supersteps = self.state.arrays["counts"].tolist()
        return {"messages": float(messages), "supersteps": float(supersteps)}

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`values`: each key and its value, by key."""
        there = [one for one in results if len(one["keys"])] or list(results[:1])
        columns = joined([plain_columns({"key": one["keys"], cls.value_name: one["values"]}) for one in there])
        return {"values": Table(ordered(columns, np.argsort(columns["key"], kind="stable")))}

    # what functions return
    def _pair(self, name: str, found: Any) -> tuple[np.ndarray, np.ndarray]:
        if not isinstance(found, tuple) or len(found) != 2:
            raise self._wrong(name, describe(found), PAIR, "For example: return keys, values.")
        keys = np.asarray(found[0])
        if keys.dtype != np.int64 or keys.ndim != 1:
            raise self._wrong(
                name, f"keys as {describe(keys)}", "one row of int64", "Convert them: keys.astype(np.int64)."
            )
        shape = (len(keys), *np.shape(found[1])[1:])
        return keys.copy(), self._values(name, found[1], shape, f"a value for each of the {len(keys)} keys")

    def _values(self, name: str, found: Any, shape: tuple[int, ...], expected: str) -> np.ndarray:
        try:
            values = np.array(found, np.float64)
        except (TypeError, ValueError):
            raise self._wrong(name, f"values as {describe(found)}", "numbers") from None
        if values.shape != shape or values.ndim not in (1, 2):
            raise self._wrong(name, f"values of shape {values.shape}", f"{expected}, of shape {shape}")
        return values

    def _wrong(self, name: str, found: str, expected: str, remedy: str = "") -> WrongReturn:
        """The error of a function or method of the user's that returned something else than expected."""
        function: Callable[..., Any] = self._functions.get(name) or getattr(type(self), name)
        called = function.__qualname__ if name in self._functions else f"{type(self).__name__}.{name}"
        return WrongReturn(called, found, expected, place_of(function), remedy)
