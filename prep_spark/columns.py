"""The columns of a table: the kind of each, and the place of its number in a parsed row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, NamedTuple

from riprap.prep_spark.errors import PrepError

Kind = Literal["number", "date", "category"]


class Found(NamedTuple):
    """A column as the sample shows it: `examples` of its values, and the share of its cells that are missing."""

    name: str
    kind: Kind
    examples: tuple[str, ...] = ()
    missing: float = 0.0


class Column(NamedTuple):
    """A column that is used, and its `place` among those of the file, from 0."""

    name: str
    kind: Kind
    place: int


@dataclass(frozen=True)
class Layout:
    """The columns that are used: those of a parsed row, in its order. The first is the label.

    `file_columns` are all columns of the file. The first `used` columns are the label and the features; one behind them
    is only ordered by.
    """

    columns: tuple[Column, ...]
    file_columns: tuple[str, ...]
    used: int

    def slot(self, place: int) -> int | None:
        """The place in a parsed row of the file's column `place`; None where it has none."""
        return next((slot for slot, column in enumerate(self.columns) if column.place == place), None)


class Wishes(NamedTuple):
    """The user's wishes for columns, by name; `features` empty: all but the label."""

    label: str
    features: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    order: str | None = None


def choose(found: Sequence[Found], wishes: Wishes) -> Layout:
    """The label and the features, of the kinds that were found or wished for; a column to order by comes last.

    PrepError names all columns that do not exist, are named twice, or are of two kinds.
    """
    names = [column.name for column in found]
    problems = [*_repeated(names), *_unknown(names, wishes), *_contradictions(wishes)]
    if problems:
        raise PrepError("\n".join(problems), f"the columns are {shown(names)}")
    kinds: dict[str, Kind] = {column.name: column.kind for column in found}
    kinds |= dict.fromkeys(wishes.numeric, "number")
    kinds |= dict.fromkeys(wishes.categorical, "category")
    kinds |= dict.fromkeys(wishes.date, "date")
    wanted = wishes.features or tuple(name for name in names if name != wishes.label)
    order = [wishes.order] if wishes.order and wishes.order not in (wishes.label, *wanted) else []
    if wishes.order and kinds[wishes.order] == "category":
        raise PrepError(f"--order {wishes.order}: its cells are text", "order by a number or a date")
    if not wanted:
        raise PrepError(f"there is no column beside the label {wishes.label}", "give a table with features")
    columns = tuple(Column(name, kinds[name], names.index(name)) for name in (wishes.label, *wanted, *order))
    return Layout(columns, tuple(names), len(columns) - len(order))


def _repeated(names: Sequence[str]) -> list[str]:
    return [
        f"column {name} stands twice, as columns {names.index(name) + 1} and {place}"
        for place, name in enumerate(names, 1)
        if names.index(name) != place - 1
    ]


def _unknown(names: Sequence[str], wishes: Wishes) -> list[str]:
    said = {
        "--label": (wishes.label,),
        "--features": wishes.features,
        "--numeric": wishes.numeric,
        "--categorical": wishes.categorical,
        "--date": wishes.date,
        "--order": (wishes.order,) if wishes.order else (),
    }
    problems = []
    for option, named in said.items():
        for name in named:
            if name not in names:
                close = get_close_matches(name, names, 1)
                hint = f"; is {close[0]} meant?" if close else ""
                problems.append(f"{option} {name}: there is no such column{hint}")
    return problems


def _contradictions(wishes: Wishes) -> list[str]:
    said = {"--numeric": wishes.numeric, "--categorical": wishes.categorical, "--date": wishes.date}
    problems = []
    for name in sorted({name for named in said.values() for name in named}):
        options = [option for option, named in said.items() if name in named]
        if len(options) > 1:
            problems.append(f"column {name} is named by {' and '.join(options)}")
    for name in sorted(set(wishes.features)):
        if name == wishes.label:
            problems.append(f"--features {name}: that is the label")
        if wishes.features.count(name) > 1:
            problems.append(f"--features {name}: named twice")
    return problems


def shown(names: Sequence[str], most: int = 30) -> str:
    """Names with commas, the first of them where they are many."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
