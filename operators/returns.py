"""Checks the return values of a user's methods before the engine goes on; faults are one message with the user's line.

Types, dtypes and shapes alone are looked at, once a block: nothing is copied and no number is read. The engine and the
trial of operators (operators/trial) ask the same questions.
"""

from __future__ import annotations

import inspect
import math
import sys
import traceback
from collections.abc import Mapping
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from riprap.codec.errors import JobFailed
from riprap.codec.header import CARRIED, DIMENSIONS_MAX, FRAMES_MAX
from riprap.codec.users_code import is_users
from riprap.operators.base import Arrays, Processor, Sink, Source

T = TypeVar("T")

FLOAT64 = np.dtype(np.float64)
FOREVER = 2**62
"""The event time behind the end of the stream: nothing comes any more."""
LISTS, WHOLE = (list, tuple), (int, np.integer)
"""Made once: a union of types would be made anew with each question."""
RESULT_ARRAYS_MAX = FRAMES_MAX - 1
"""The most arrays of a result; its items may be attached to it, which are an array too."""
METRICS_BYTES_MAX = 12 * 1024
"""Of the names of all metrics and METRIC_BYTES for each: a worker's report of 32 KiB at most holds them, their names
once more where they are combined, and other things."""
METRIC_BYTES = 11  # a float64, and what the report puts around it and its name
FORGOTTEN = "Is a `return` missing?"
WORDS_MAX, ENTRIES_MAX = 60, 8
"""The longest text and list of a found value, in letters and entries, that is shown."""

_PASSED_ON: dict[Any, str] = {
    Processor.process_data: "process_nonlinear",
    Processor.process_nonlinear: "process_linear",
}
_RECOMPUTED: dict[Any, str] = {Sink.recompute: "process_data", Sink.recompute_linear: "process_nonlinear"}
"""Methods of the interfaces that hand on another's result: of the same operator, or of the sink's processor."""

_DTYPES = "float64, float32, int64, int32, uint64, uint32, uint8, int8 or bool"
_CARRIED = f"of {_DTYPES}, with at most {DIMENSIONS_MAX} dimensions"


class WrongReturn(JobFailed):
    """A method's wrong return value, the value expected, and the place (FILE:LINE) where the method is defined."""

    def __init__(
        self, method: str, found: str, expected: str, place: str, remedy: str = "", verb: str = "returned"
    ) -> None:
        remedy = remedy or f"Correct what {method.partition('(')[0]} returns."
        super().__init__(f"{method} {verb} {found}; expected {expected} ({place})", remedy)
        self.method, self.found, self.expected, self.place, self.verb = method, found, expected, place, verb


def arrays(owner: Any, method: str, found: Any, most: int = FRAMES_MAX) -> Arrays:
    """A list or tuple of at most `most` arrays that links carry."""
    if isinstance(found, LISTS) and len(found) <= most:
        for array in found:
            if not isinstance(array, np.ndarray) or array.dtype not in CARRIED or array.ndim > DIMENSIONS_MAX:
                break
        else:
            return found
    raise _of_arrays(owner, method, found, most)


def result(owner: Any, method: str, found: Any) -> Arrays:
    """The result of a block: arrays, and room for the items that may be attached to them."""
    return arrays(owner, method, found, RESULT_ARRAYS_MAX)


def matrix(owner: Any, method: str, found: Any, rows: int) -> np.ndarray:
    """A float64 matrix of `rows` rows."""
    if isinstance(found, np.ndarray) and found.dtype == FLOAT64 and found.ndim == 2 and len(found) == rows:
        return found
    raise wrong(owner, method, found, f"a float64 matrix with a row for each of the {rows:,} items")


def items(source: Source, start: int, stop: int, found: Any, columns: int) -> np.ndarray:
    """Items [start, stop) of a stream, of as many columns as it has."""
    if isinstance(found, np.ndarray) and found.dtype == FLOAT64 and found.shape == (stop - start, columns):
        return found
    expected = f"a float64 matrix of {stop - start:,} rows and {columns} columns"
    remedy = "Let it return as many rows as it is asked for, of the columns that `schema` names; `open` sets `items`."
    raise wrong(source, "read", found, expected, remedy, f"({start}, {stop})")


def sampled(source: Source, found: Any, columns: int) -> tuple[int, np.ndarray]:
    """A run of items of the stream's columns, with the number of its first."""
    start, rows = found if isinstance(found, tuple) and len(found) == 2 else (None, None)
    if (
        isinstance(start, int)
        and isinstance(rows, np.ndarray)
        and (rows.dtype, rows.shape[1:]) == (FLOAT64, (columns,))
    ):
        return start, rows
    method, what = ("read", rows) if type(source).sample is Source.sample else ("sample", found)
    run = "" if method == "read" else "runs of items, each with the number of its first: "
    raise wrong(source, method, what, f"{run}a float64 matrix of {columns} columns")


def schema(source: Source) -> tuple[tuple[str, ...], str | None]:
    """The names of an opened source's columns, and of the label among them."""
    found = source.schema()
    expected = "(names of the columns, name of the label column or None)"
    if not isinstance(found, tuple | list) or len(found) != 2 or isinstance(found[0], str):
        raise wrong(source, "schema", found, expected, 'For example: return ("x", "y", "label"), "label".')
    names, label = found
    try:
        columns = tuple(names)
    except TypeError:
        raise wrong(source, "schema", found, expected) from None
    if not columns or not all(isinstance(name, str) for name in columns) or len(set(columns)) < len(columns):
        raise wrong(source, "schema", found, "names of columns, each a string that comes once")
    if label is not None and label not in columns:
        raise wrong(source, "schema", found, f"a label among the columns, or None, not {label!r}")
    return columns, label


def stream_length(source: Source) -> int | None:
    """The items that an opened source has set for its task; None where it sets none."""
    found = source.items
    if found is None or (isinstance(found, WHOLE) and not isinstance(found, bool) and found >= 0):
        return None if found is None else int(found)
    kind = type(source)
    raise WrongReturn(
        f"{kind.__name__}.items",
        describe(found),
        "the whole number of items of this task's stream",
        defined_at(kind, "open"),
        "Let `open` set it.",
    )


def named_arrays(owner: Any, method: str, found: Any, kept: bool = False) -> dict[str, np.ndarray]:
    """Arrays by name: a dictionary; those that are `kept` by backup servers have dtypes that these take."""
    expected = f"a dictionary of arrays by name{f', each {_CARRIED}' if kept else ''}"
    if not isinstance(found, Mapping):
        raise wrong(owner, method, found, expected, 'For example: return {"weights": self.weights}.')
    for name, array in found.items():
        if not isinstance(name, str) or not _can_be_written(array) or (kept and not _is_carried(np.asarray(array))):
            raise wrong(owner, method, _Entry(name, array), expected)
    return dict(found)


def numbers(owner: Any, method: str, found: Any) -> dict[str, float]:
    """Numbers by name: a dictionary."""
    expected = "a dictionary of numbers by name"
    if not isinstance(found, Mapping):
        raise wrong(owner, method, found, expected, 'For example: return {"loss": self.loss}.')
    for name, value in found.items():
        if not isinstance(name, str) or not _is_number(value):
            raise wrong(owner, method, _Entry(name, value), expected, "Convert each value by float(...).")
    nbytes = sum(len(name.encode(errors="replace")) + METRIC_BYTES for name in found)
    if nbytes > METRICS_BYTES_MAX:
        expected = f"a small one: names of {METRICS_BYTES_MAX} bytes in all, {METRIC_BYTES} more for each"
        remedy = "Return sums and means; put what is known of each key into the results."
        raise WrongReturn(
            f"{type(owner).__name__}.{method}", f"a dictionary of {len(found)} numbers, {nbytes} bytes", expected,
            defined_at(type(owner), method), remedy,
        )  # fmt: skip
    return {name: float(value) for name, value in found.items()}


def number(owner: Any, method: str, found: Any) -> float:
    """One number, which may be infinite but not NaN."""
    if isinstance(found, float) and not math.isnan(found):
        return found
    if not _is_number(found) or math.isnan(found):
        raise wrong(owner, method, found, "a number")
    return float(found)


def values(source: Source, method: str, found: Any, width: int) -> np.ndarray:
    """The values of one item."""
    row = _as_float64(found)
    if row is not None and row.shape == (width,):
        return row
    raise wrong(source, method, found, f"a list of {width} numbers, one for each column of `schema`")


def parts(processor: Processor, method: str, found: Any) -> list[np.ndarray]:
    """The parts of a result, each an array or a number."""
    made = [_as_float64(part) for part in found] if isinstance(found, LISTS) else [None]
    if any(part is None for part in made):
        raise wrong(processor, method, found, "a list of numbers and arrays of numbers")
    return made  # type: ignore[return-value]


def outputs(sink: Sink, found: Any, columns: int | None) -> np.ndarray | None:
    """Rows for the job's output file, of `columns` columns where that is known; None for no rows."""
    if found is None:
        return None
    if isinstance(found, np.ndarray) and found.dtype == FLOAT64 and found.ndim == 2:
        if columns in (None, found.shape[1]):
            return found
        raise wrong(sink, "outputs", found, f"{columns} columns, as before")
    raise wrong(sink, "outputs", found, "a float64 matrix, a row for each row of the file, or None")


def first_left(operator: Any, found: Any, first: int, count: int) -> int:
    """The number of the first item that `process_data` has left, of items first, first + 1, ... count - 1."""
    if isinstance(found, WHOLE) and not isinstance(found, bool) and first <= found <= count:
        return int(found)
    expected = f"the number of the first item that is left, from {first} to {count}"
    remedy = "Return items.count when all are processed."
    raise wrong(operator, "process_data", found, expected, remedy)


def prepared(operator: Any, found: Any, given: Any) -> Any:
    """The Items that `prepare` made of the given ones, in which only the arrays may differ."""
    remedy = "Let it change the arrays only: return items._replace(arrays=...)."
    if not isinstance(found, type(given)):
        raise wrong(operator, "prepare", found, "Items", remedy)
    if found[:4] != given[:4]:
        raise wrong(operator, "prepare", found[:4], f"epoch, stage, task and count as they were, {given[:4]}", remedy)
    if not isinstance(found.arrays, LISTS) or not all(isinstance(array, np.ndarray) for array in found.arrays):
        raise wrong(operator, "prepare", found.arrays, "Items whose arrays are a tuple of arrays", remedy)
    return found


def backup(state: Any, method: str, found: T, kind: type[T]) -> T:
    """A state's backup, which is of this `kind` and holds arrays."""
    remedy = "For example: return Backup(True, (self.values.copy(),))."
    if not isinstance(found, kind):
        raise wrong(state, method, found, "a Backup", remedy)
    held = getattr(found, "arrays", None)
    if isinstance(held, LISTS) and all(map(_is_array, held)) and all(map(_can_be_written, held)):
        return found
    raise wrong(state, method, held, "a Backup whose arrays are a tuple of arrays of numbers", remedy)


def sent(method: str, found: Any, count: Any) -> tuple[tuple[np.ndarray, ...], int]:
    """The arguments of `out.send` or `out.feed_back`: arrays that links carry, and their number of items."""
    if not isinstance(found, LISTS) or len(found) > FRAMES_MAX or not all(map(_is_carried, found)):
        raise given_wrongly(method, _odd(found, FRAMES_MAX), _list_of_arrays(found, FRAMES_MAX))
    if not isinstance(count, WHOLE) or isinstance(count, bool) or count < 0:
        raise given_wrongly(method, f"the count {describe(count)}", "a number of items, 0 or more")
    return tuple(found), int(count)


def written(name: Any, arrays: Any) -> dict[str, np.ndarray]:
    """The arguments of `out.write`: the name of a file, and its arrays by name."""
    if not isinstance(name, str) or not name or "/" in name:
        raise given_wrongly("out.write", f"the name {describe(name)}", "a file's name, without a folder")
    if isinstance(arrays, Mapping) and all(isinstance(key, str) for key in arrays):
        odd = next((_Entry(key, array) for key, array in arrays.items() if not _can_be_written(array)), None)
        if odd is None:
            return dict(arrays)
        arrays = odd
    raise given_wrongly("out.write", describe(arrays), "a dictionary of arrays by name")


def watermark(found: Any, before: int | None) -> int:
    """The event time that an operator promises, having promised another one before."""
    if not isinstance(found, WHOLE) or isinstance(found, bool) or not -FOREVER <= found <= FOREVER:
        raise given_wrongly("out.watermark", describe(found), "a whole number from -2**62 to 2**62")
    if before is not None and found < before:
        raise given_wrongly("out.watermark", f"{found} after {before}", "a promise that is never taken back")
    return int(found)


def wrong(owner: Any, method: str, found: Any, expected: str, remedy: str = "", called: str = "") -> WrongReturn:
    """The error of a method that returned something else than expected; `called` are its arguments, "(0, 10)" say."""
    kind = type(owner)
    remedy = remedy or (FORGOTTEN if found is None else "")
    return WrongReturn(f"{kind.__name__}.{method}{called}", describe(found), expected, defined_at(kind, method), remedy)


def defined_at(kind: type, method: str) -> str:
    """FILE:LINE of a class's method, or property."""
    return place_of(getattr(kind, method, None))


def undefined(error: BaseException) -> tuple[str, str] | None:
    """CLASS.METHOD that a user's class leaves to an interface, which raised the error, and the class's place."""
    if not isinstance(error, NotImplementedError):
        return None
    frame = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1]
    owner = frame.f_locals.get("self")
    if owner is None or is_users(frame.f_code.co_filename):
        return None
    return f"{type(owner).__name__}.{frame.f_code.co_name}", class_at(type(owner))


def class_at(kind: type) -> str:
    """FILE:LINE of a class."""
    try:
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}"
    except (OSError, TypeError):
        return f"class {kind.__module__}:{kind.__name__}"


def place_of(function: Any) -> str:
    """FILE:LINE of a function; compiled ones have none."""
    function = function.fget if isinstance(function, property) else function
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else "its source is not at hand"


def describe(found: Any) -> str:
    """A few words that tell one thing from another."""
    if isinstance(found, np.ndarray):
        return f"an array of {found.dtype} of shape {found.shape}"
    if isinstance(found, _Entry):
        return f"{describe(found.value)} as {found.name!r}"
    if found is None or isinstance(found, bool):
        return str(found)
    if isinstance(found, Real | str):
        value = found.item() if isinstance(found, np.generic) else found
        return f"{shortened(repr(value))} ({type(found).__name__})"
    if isinstance(found, list | tuple | dict | set):
        text = repr(found) if len(found) <= ENTRIES_MAX else ""
        return (
            text if 0 < len(text) <= WORDS_MAX and "array(" not in text else f"a {type(found).__name__} of {len(found)}"
        )
    return f"a {type(found).__name__}"


def shortened(text: str) -> str:
    """The beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= WORDS_MAX else f"{text[: WORDS_MAX - 3]}..."


def culprit(owner: Any, method: str) -> tuple[Any, str]:
    """The operator whose method made it: one that an interface defines itself hands on another's result."""
    function = getattr(type(owner), method, None)
    if function in _PASSED_ON:
        return culprit(owner, _PASSED_ON[function])
    if function in _RECOMPUTED:
        return culprit(owner.processor, _RECOMPUTED[function])
    per_item = getattr(function, "__module__", "") == "riprap.operators.per_item"
    return owner, {"process_data": "process_item", "read": "item"}.get(method, method) if per_item else method


class _Entry:
    """One entry of a dictionary, the one that is wrong."""

    def __init__(self, name: Any, value: Any) -> None:
        self.name, self.value = name, value


def _of_arrays(owner: Any, method: str, found: Any, most: int) -> WrongReturn:
    owner, made_by = culprit(owner, method)
    if made_by == "process_linear" and method != made_by and isinstance(found, tuple) and len(found) == 1:
        return wrong(owner, made_by, found[0], "a float64 matrix with a row for each item")
    kind = type(owner)
    hint = "Put it into a list: return [array]." if _is_array(found) else _hint(found)
    return WrongReturn(
        f"{kind.__name__}.{made_by}", _odd(found, most), _list_of_arrays(found, most), defined_at(kind, made_by), hint
    )


def _list_of_arrays(found: Any, most: int) -> str:
    if not isinstance(found, LISTS):
        return "a list of arrays"
    return f"a list of at most {most} arrays" if len(found) > most else f"a list of arrays, each {_CARRIED}"


def _odd(found: Any, most: int) -> str:
    """The fault in a supposed list of arrays."""
    if not isinstance(found, LISTS):
        return describe(found)
    if len(found) > most:
        return f"a {type(found).__name__} of {len(found)} arrays"
    place, entry = next((i, entry) for i, entry in enumerate(found) if not _is_carried(entry))
    return f"a {type(found).__name__} whose entry {place} is {describe(entry)}"


def _hint(found: Any) -> str:
    """The remedy for the commonest slips of who should return a list of arrays; empty for others."""
    if found is None:
        return FORGOTTEN
    if isinstance(found, LISTS) and not all(map(_is_array, found)):
        return "Make an array of each entry: np.array(...)."
    if isinstance(found, LISTS) and not all(map(_is_carried, found)):
        return "Convert it: array.astype(np.float64)."
    return ""


def given_wrongly(method: str, found: str, expected: str) -> WrongReturn:
    """Names the user's line: it called `method`, which called the function of this module that found this."""
    frame = sys._getframe(3)
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return WrongReturn(method, found, expected, place, "Correct that line.", "was given")


def _is_carried(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype in CARRIED and array.ndim <= DIMENSIONS_MAX


def _as_float64(value: Any) -> np.ndarray | None:
    if value is None:  # of which NumPy makes NaN
        return None
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _can_be_written(array: Any) -> bool:
    return isinstance(array, np.ndarray | np.generic) and not array.dtype.hasobject


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _is_number(value: Any) -> bool:
    """True of numbers, and of an array without dimensions, which NumPy's sums may be."""
    if isinstance(value, np.ndarray | np.generic):
        return value.ndim == 0 and value.dtype.kind in "fiub"
    return isinstance(value, Real)
