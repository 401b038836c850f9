"""The meaning and the bounds of an operator's option, written once: in the signature of the constructor.

def __init__(self, *, k: Annotated[int, Option("How many centres", low=1)] = 10) -> None:
    options.check(self, k=k)

From there come the check, the messages, and the tables of `riprap operators`.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from riprap.codec.errors import ConfigError
from riprap.operators.base import Context

REQUIRED = inspect.Parameter.empty
TYPES: dict[Any, str] = {int: "whole number", float: "number", bool: "true or false", str: "text"}
PLAIN = {"true or false", "text", "any value"}
"""Types that are named without an article."""


@dataclass(frozen=True)
class Option:
    """One option: a sentence without its end, the unit of a number, and its bounds.

    `low` and `high` are allowed themselves, unless `above` or `below`; `infinite` allows .inf. A text is one of
    `choices`, where there are any, and never empty.
    """

    says: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    above: bool = False
    below: bool = False
    infinite: bool = False
    choices: tuple[str, ...] = ()
    example: str = ""
    """A value as YAML has it, for a stage to show."""

    def admits(self, value: Any) -> bool:
        """True when a value of the right type is within the bounds."""
        if isinstance(value, str):
            return value in self.choices if self.choices else bool(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return True
        if not abs(value) <= sys.float_info.max:  # NaN, infinity, or a whole number that no float64 holds
            return self.infinite and value == math.inf
        low, high = self.low, self.high
        return (low is None or value > low or (value == low and not self.above)) and (
            high is None or value < high or (value == high and not self.below)
        )

    @property
    def range(self) -> str:
        """`from 0 to 1`, `above 0`, `one of relu, tanh`; empty where all values of the type will do."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        words = []
        if self.low is not None:
            words.append(f"{'above' if self.above else 'from'} {_bound(self.low)}")
        if self.high is not None:
            words.append(f"{'below' if self.below else 'to'} {_bound(self.high)}")
        return " ".join(words) + (", or .inf" if self.infinite else "")


@dataclass(frozen=True)
class Parameter:
    """An option as a constructor has it; `option` is None where its author has not described it."""

    name: str
    type: str
    nullable: bool
    default: Any
    option: Option | None

    @property
    def is_required(self) -> bool:
        """True when there is no default."""
        return self.default is REQUIRED

    @property
    def signature(self) -> str:
        """`k: whole number = 10`."""
        return f"{self.name}: {self.type}" + ("" if self.is_required else f" = {spelled(self.default)}")

    @property
    def expected(self) -> str:
        """`a number from 0 to 1`, with its unit."""
        noun = self.type if self.type in PLAIN else f"a {self.type}"
        choices = bool(self.option and self.option.choices)
        words = [self.option.range if self.option and choices else noun]
        if self.option and not choices:
            words += [part for part in (self.option.range, self.option.unit and f"({self.option.unit})") if part]
        return " ".join(words) + (", or null" if self.nullable else "")

    def admits(self, value: Any) -> bool:
        """True when the option may have this value; an option that is not described may have any."""
        if self.option is None or (value is None and self.nullable):
            return True
        return _is_of(self.type, value) and self.option.admits(value)


def _bound(value: float) -> str:
    """Whole numbers in full: nobody knows 16777216 by 1.67772e+07."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:g}"


def spelled(value: Any) -> str:
    """A value as YAML has it."""
    words = {None: "null", True: "true", False: "false", math.inf: ".inf"}
    known = value is None or isinstance(value, bool) or value == math.inf
    return words[value] if known else str(value)


def options_of(operator: type) -> dict[str, Parameter]:
    """The options of an operator: the parameters of its constructor, by name."""
    if operator.__init__ is object.__init__:  # type: ignore[misc]  # `inspect` would parse for 15 ms to find none
        return {}
    try:
        hints = get_type_hints(operator.__init__, include_extras=True)  # type: ignore[misc]
    except Exception:  # a hint of the user's own that is only there for a type checker
        hints = {}
    parameters = inspect.signature(operator).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name: _parameter(p, hints.get(p.name, Any)) for p in parameters if p.kind not in variadic}


def takes_any(operator: type) -> bool:
    """True when the constructor takes options that it does not name (**options)."""
    parameters = inspect.signature(operator).parameters.values() if operator.__init__ is not object.__init__ else ()  # type: ignore[misc]
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def check(operator: object, **values: Any) -> None:
    """ConfigError that names all values which the signature of the operator's constructor does not allow."""
    wrong = list(_wrong(operator, values))
    if wrong:
        names = " and ".join(name for name, _ in wrong)
        raise ConfigError("; ".join(text for _, text in wrong), f"Correct {names} in the stage.")


def _wrong(operator: object, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        described = (options_of(kind).get(name) for kind in type(operator).__mro__)
        parameter = next((found for found in described if found and found.option), None)
        if parameter and not parameter.admits(value):
            yield name, f"the option {name} is {value!r}, not {parameter.expected}"


def _parameter(parameter: inspect.Parameter, hint: Any) -> Parameter:
    option = None
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        option = next((note for note in notes if isinstance(note, Option)), None)
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    plain = [TYPES[kind] for kind in kinds if kind in TYPES]
    whole = len(plain) == len([kind for kind in kinds if kind is not NoneType])
    name = " or ".join(plain) if plain and whole else "any value"
    return Parameter(parameter.name, name, NoneType in kinds, parameter.default, option)


def _is_of(name: str, value: Any) -> bool:
    if name == "true or false" or isinstance(value, bool):
        return isinstance(value, bool) and name in ("true or false", "any value")
    if name == "whole number":
        return isinstance(value, int)
    if name == "number":
        return isinstance(value, int | float)
    return isinstance(value, str) if name == "text" else True


def whole_number(name: str, value: object, low: int) -> int:
    """The value as an int of at least `low`; else ConfigError names it."""
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise ConfigError(f"{name} is {value!r}, not a whole number from {low}", f"Correct {name}.")
    return value


def required_label(context: Context) -> int:
    """The label's column; ConfigError when the items have none."""
    if context.label_index is None:
        raise ConfigError(
            "the algorithm learns from a label, and the input names no label column",
            "Use an input whose manifest names its label, or an algorithm without one, such as kmeans.",
        )
    return context.label_index


def features_or_error(context: Context) -> int:
    """Number of features of the items; ConfigError when there are none."""
    if not context.features:
        raise ConfigError(f"the items have no feature columns, only {context.columns}", "Use an input with features.")
    return context.features
