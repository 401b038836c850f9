"""What a user's method must not return: each kind is refused by the method's name, what it returned, and its line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.operators import returns
from riprap.operators.base import Processor, Sink, Source
from riprap.operators.dataflow import DataflowOperator, Items
from riprap.operators.per_item import ItemProcessor, ItemSource
from riprap.operators.states.base import Backup, State

ROWS = np.ones((4, 3))
ITEMS = Items(1, "", 0, 4, (ROWS,))


class Anything(Source, Processor, Sink):  # type: ignore[misc]
    """Each method is asked for its place alone."""

    items = 4

    def __init__(self, found: Any = None) -> None:
        self.found = found

    def open(self, context: Any) -> None: ...
    def schema(self) -> Any:
        return self.found

    def read(self, start: int, stop: int) -> Any: ...
    def process_data(self, items: Any) -> Any: ...
    def process_linear(self, items: Any) -> Any: ...
    def recompute(self, items: Any) -> Any: ...
    def commit(self, epoch: int) -> Any: ...
    def model(self) -> Any: ...
    def metrics(self) -> Any: ...
    def outputs(self) -> Any: ...
    def snapshot(self) -> Any: ...
    def prepare(self, items: Any) -> Any: ...
    def item(self, position: int) -> Any: ...
    def process_item(self, item: Any) -> Any: ...
    def state_divergence(self) -> Any: ...
    def backup_state(self) -> Any: ...


OWNER: Any = Anything()

NO_ARRAYS = [
    (None, "None; expected a list of arrays"),
    (ROWS, r"an array of float64 of shape \(4, 3\); expected a list of arrays"),
    (3.5, r"3.5 \(float\); expected a list of arrays"),
    ({"a": ROWS}, "a dict of 1; expected"),
    ([1.0], r"a list whose entry 0 is 1.0 \(float\); expected a list of arrays, each of float64, "),
    ([ROWS, [1, 2]], r"a list whose entry 1 is \[1, 2\]"),
    ((np.array([object()]),), "a tuple whose entry 0 is an array of object"),
    ([ROWS.astype(np.float16)], "a list whose entry 0 is an array of float16"),
    ([ROWS.astype(">f8")], "a list whose entry 0 is an array of >f8"),
    ([np.array(["a"])], "a list whose entry 0 is an array of <U1"),
    ([np.ones((1, 1, 1, 1, 1))], r"of shape \(1, 1, 1, 1, 1\); expected .* with at most 4 dimensions"),
    ([ROWS] * 16, "a list of 16 arrays; expected a list of at most 15 arrays"),
]

CASES: list[tuple[str, Callable[[Any], object], Any, str]] = [
    *(("process_data", lambda found: returns.result(OWNER, "process_data", found), *case) for case in NO_ARRAYS),
    ("commit", lambda found: returns.arrays(OWNER, "commit", found), [ROWS] * 17, "expected a list of at most 16"),
    ("commit", lambda found: returns.arrays(OWNER, "commit", found), None, "None; expected a list of arrays"),
    *(
        ("process_linear", lambda found: returns.matrix(OWNER, "process_linear", found, 4), found, said)
        for found, said in [
            (None, "None; expected a float64 matrix with a row for each of the 4 items"),
            ([ROWS], "a list of 1; expected a float64 matrix"),
            (ROWS[:3], r"shape \(3, 3\); expected"),
            (ROWS[:, 0], r"shape \(4,\); expected"),
            (ROWS.astype(np.float32), "float32 of shape"),
        ]
    ),
    *(
        (
            "read",
            lambda found: returns.items(OWNER, 6, 10, found, 3),
            found,
            said + ".*; expected a float64 matrix of 4 rows and 3 columns",
        )
        for found, said in [
            (None, "None"),
            (ROWS.tolist(), "a list"),
            (ROWS[:3], r"shape \(3, 3\)"),
            (ROWS[:, :2], r"shape \(4, 2\)"),
            (ROWS.ravel(), r"shape \(12,\)"),
            (ROWS.astype(np.int64), "int64"),
        ]
    ),
    *(
        ("schema", lambda found: returns.schema(Anything(found)), found, said)
        for found, said in [
            (None, "None; expected"),
            ("ab", r"'ab' \(str\); expected"),
            (("a", "b", None), "expected"),
            (("ab", "a"), "expected"),
            ((3, None), "expected"),
            (((), None), "expected names"),
            ((("a", "a"), None), "a string that comes once"),
            ((("a", 1), None), "a string that comes once"),
            ((("a", "b"), "c"), "a label among the columns, or None, not 'c'"),
        ]
    ),
    *(
        ("model", lambda found: returns.named_arrays(OWNER, "model", found), found, said)
        for found, said in [
            (None, "None; expected a dictionary of arrays by name"),
            ([ROWS], "a list of 1; expected"),
            ({"a": 1.0}, r"1.0 \(float\) as 'a'; expected"),
            ({1: ROWS}, "as 1; expected"),
            ({"a": np.array([None])}, "an array of object .* as 'a'; expected"),
        ]
    ),
    (
        "snapshot",
        lambda found: returns.named_arrays(OWNER, "snapshot", found, kept=True),
        {"a": ROWS.astype(np.complex128)},
        "an array of complex128 .* as 'a'; expected a dictionary of arrays by name, each of float64",
    ),
    *(
        ("metrics", lambda found: returns.numbers(OWNER, "metrics", found), found, said)
        for found, said in [
            (None, "None; expected a dictionary of numbers by name"),
            (0.5, r"0.5 \(float\); expected"),
            ({"loss": None}, "None as 'loss'; expected"),
            ({"loss": "0.5"}, r"'0.5' \(str\) as 'loss'; expected"),
            ({"loss": ROWS}, "as 'loss'; expected"),
            ({f"loss_{key}": 0.5 for key in range(1000)}, "of 1000 numbers, 18890 bytes; expected a small one"),
            ({"\u00e4" * 8192: 0.5}, "of 1 numbers, 16395 bytes; expected a small one"),
        ]
    ),
    *(
        ("outputs", lambda found: returns.outputs(OWNER, found, 3), found, said)
        for found, said in [
            ([1.0], r"\[1.0\]; expected a float64 matrix"),
            (ROWS[0], r"shape \(3,\); expected a float64 matrix"),
            (ROWS.astype(int), "int64 .*; expected a float64 matrix"),
            (ROWS[:, :2], "expected 3 columns, as before"),
        ]
    ),
    *(
        ("process_data", lambda found: returns.first_left(OWNER, found, 2, 4), found, said)
        for found, said in [
            (None, "None; expected the number of the first item that is left, from 2 to 4"),
            (1, r"1 \(int\); expected"),
            (5, r"5 \(int\); expected"),
            (4.0, r"4.0 \(float\); expected"),
            (True, "True; expected"),
        ]
    ),
    *(
        ("prepare", lambda found: returns.prepared(OWNER, found, ITEMS), found, said)
        for found, said in [
            (None, "None; expected Items"),
            ((ROWS,), "a tuple of 1; expected Items"),
            (ITEMS._replace(count=2), r"\(1, '', 0, 2\); expected epoch, stage, task and count as they were"),
            (ITEMS._replace(arrays=ROWS), "expected Items whose arrays are a tuple of arrays"),  # type: ignore[arg-type]
        ]
    ),
    *(
        ("backup_state", lambda found: returns.backup(OWNER, "backup_state", found, Backup), found, said)
        for found, said in [
            (None, "None; expected a Backup"),
            ((True, (ROWS,)), "a tuple of 2; expected a Backup"),
            (Backup(True, ROWS), "expected a Backup whose arrays are a tuple"),  # type: ignore[arg-type]
            (Backup(True, (1.0,)), "expected a Backup whose arrays are a tuple"),  # type: ignore[arg-type]
        ]
    ),
    *(
        ("state_divergence", lambda found: returns.number(OWNER, "state_divergence", found), found, said)
        for found, said in [
            (None, "None; expected a number"),
            ("1", "expected"),
            (np.nan, "expected"),
            (ROWS, "expected"),
        ]
    ),
    *(
        ("item", lambda found: returns.values(OWNER, "item", found, 3), found, said)
        for found, said in [
            (None, "None; expected a list of 3 numbers"),
            (1.0, r"1.0 \(float\); expected"),
            ([1.0, 2.0], "expected"),
            (["a", "b", "c"], "expected"),
        ]
    ),
    *(
        ("process_item", lambda found: returns.parts(OWNER, "process_item", found), found, said)
        for found, said in [
            (None, "None; expected a list of numbers and arrays of numbers"),
            (1.0, "expected"),
            ([None], "expected"),
            (["a"], "expected"),
        ]
    ),
]


@pytest.mark.parametrize(("method", "check", "found", "said"), CASES)
def test_a_wrong_return_names_method_value_and_line(
    method: str, check: Callable[[Any], object], found: Any, said: str
) -> None:
    _, line = inspect.getsourcelines(getattr(Anything, method))
    with pytest.raises(returns.WrongReturn, match=rf"^Anything\.{method}(\(6, 10\))? returned .*{said}") as refused:
        check(found)
    assert str(refused.value.args[0]).endswith(f"({Path(__file__)}:{line})")
    assert refused.value.remedy.endswith((".", "?"))


@pytest.mark.parametrize(
    "check",
    [
        lambda: returns.schema(Anything((("a", "a"), None))),
        lambda: returns.schema(Anything((("a",), "b"))),
        lambda: returns.outputs(OWNER, ROWS.tolist(), None),
        lambda: returns.values(Anything(), "item", [1.0], 3),
        lambda: returns.parts(OWNER, "process_item", [None]),
    ],
)
def test_only_who_should_return_arrays_is_told_to_make_arrays_of_entries(check: Callable[[], object]) -> None:
    with pytest.raises(returns.WrongReturn, match=r"remedy: Correct what Anything\.\w+ returns\.$"):
        check()
    with pytest.raises(returns.WrongReturn, match="remedy: Make an array of each entry"):
        returns.arrays(OWNER, "commit", [1.0])


def test_what_is_right_passes_as_it_is() -> None:
    mixed = [ROWS[::2], np.asfortranarray(ROWS), np.array(True), np.zeros((0, 2), np.int8)]
    assert returns.result(OWNER, "process_data", mixed) is mixed
    assert returns.arrays(OWNER, "commit", ()) == ()
    assert returns.matrix(OWNER, "process_linear", ROWS, 4) is ROWS
    assert returns.items(OWNER, 6, 10, ROWS, 3) is ROWS
    assert returns.schema(Anything((["a", "b"], "b"))) == (("a", "b"), "b")
    assert returns.named_arrays(OWNER, "model", {"a": ROWS, "b": np.float64(2)}, kept=True)["a"] is ROWS
    assert returns.numbers(OWNER, "metrics", {"a": np.float32(0.5), "b": 2, "c": np.array(3)}) == {
        "a": 0.5,
        "b": 2,
        "c": 3,
    }
    assert returns.outputs(OWNER, None, 3) is None and returns.outputs(OWNER, ROWS, None) is ROWS
    assert returns.first_left(OWNER, np.int64(3), 2, 4) == 3
    assert returns.prepared(OWNER, ITEMS._replace(arrays=()), ITEMS).arrays == ()
    assert returns.number(OWNER, "state_divergence", np.inf) == np.inf
    assert returns.values(OWNER, "item", (1, 2, 3), 3).tolist() == [1, 2, 3]


@pytest.mark.parametrize("items", ["4", 4.0, True, -1])
def test_the_number_of_items_is_a_whole_number(items: Any) -> None:
    source = Anything()
    source.items = items
    with pytest.raises(returns.WrongReturn, match=r"^Anything\.items returned .*the whole number of items"):
        returns.stream_length(source)
    source.items = np.int64(4)  # type: ignore[assignment]
    assert type(returns.stream_length(source)) is int


class Halved(Processor):
    """Its linear part is wrong, and so is what the interface's own methods make of it."""

    def process_linear(self, items: np.ndarray) -> Any:
        return None


class Rest(Halved):
    def process_nonlinear(self, linear: Any, items: Any) -> Any:
        return 1.0


class Passing(Sink):
    """What it recomputes is its processor's."""


@pytest.mark.parametrize(
    ("processor", "blamed"),
    [(Halved(), "Halved.process_linear returned None"), (Rest(), r"Rest.process_nonlinear returned 1.0 \(float\)")],
)
def test_the_method_that_the_user_wrote_is_blamed(processor: Processor, blamed: str) -> None:
    sink = Passing()
    sink.processor = processor
    for owner, method in ((processor, "process_data"), (sink, "recompute")):
        with pytest.raises(returns.WrongReturn, match=f"^{blamed}.*test_returns.py:"):
            returns.result(owner, method, processor.process_data(ROWS))


class OneByOne(ItemProcessor):
    def process_item(self, item: np.ndarray) -> Any:
        return item.sum()


class Positions(ItemSource):
    items = 4

    def schema(self) -> tuple[tuple[str, ...], str | None]:
        return ("a", "b"), None

    def item(self, position: int) -> Any:
        return position


def test_operators_that_see_one_item_are_asked_item_by_item() -> None:
    with pytest.raises(returns.WrongReturn, match=r"^OneByOne\.process_item returned .*test_returns.py:"):
        OneByOne().process_data(ROWS)
    with pytest.raises(returns.WrongReturn, match=r"^Positions\.item returned 0 .*expected a list of 2 numbers"):
        Positions().read(0, 2)


class Stuck(State):
    def state_divergence(self) -> Any:
        return None


def test_a_state_without_a_divergence_is_named_where_it_is_asked() -> None:
    stuck = Stuck()
    assert not stuck.exceeded, "without a theta nobody asks"
    stuck.theta = 1.0
    with pytest.raises(returns.WrongReturn, match=r"^Stuck\.state_divergence returned None"):
        _ = stuck.exceeded


def send(arrays: Any, count: Any) -> None:
    """As an Emitter hands on what it is given."""
    returns.sent("out.send", arrays, count)


def write(name: Any, arrays: Any) -> None:
    returns.written(name, arrays)


class Sender(DataflowOperator):
    """Its own line is the one that calls."""

    def act(self, call: Callable[..., None], *arguments: Any) -> None:
        call(*arguments)  # this line


@pytest.mark.parametrize(
    ("call", "arguments", "said"),
    [
        (send, (None, 1), "out.send was given None; expected a list of arrays"),
        (send, (ROWS, 4), "out.send was given an array of float64"),
        (send, ([np.zeros(2, [("a", "f8")])], 2), "out.send was given a list whose entry 0 is an array of "),
        (send, ([ROWS], 4.0), r"out.send was given the count 4.0 \(float\); expected a number of items"),
        (send, ([ROWS], -1), "out.send was given the count -1"),
        (send, ([ROWS] * 17, 1), "out.send was given a list of 17 arrays; expected a list of at most 16"),
        (write, ("a/b", {}), "out.write was given the name 'a/b'"),
        (write, ("a", [ROWS]), "out.write was given a list of 1; expected a dictionary"),
        (write, ("a", {"x": None}), "out.write was given None as 'x'; expected a dictionary"),
    ],
)
def test_what_is_sent_wrongly_is_named_by_the_line_that_sent_it(
    call: Callable[..., None], arguments: tuple[Any, ...], said: str
) -> None:
    lines, first = inspect.getsourcelines(Sender.act)
    line = first + next(number for number, text in enumerate(lines) if "this line" in text)
    with pytest.raises(returns.WrongReturn, match=f"^{said}") as refused:
        Sender().act(call, *arguments)
    assert refused.value.place == f"{Path(__file__)}:{line}"
