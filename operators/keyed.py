"""Items dealt out by key, for every receiver of an operator's output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.key_groups import GROUPS, dealt, groups_of
from riprap.operators.returns import given_wrongly
from riprap.operators.states.checks import count_of, is_pair, key_column, keys_at


class Share(NamedTuple):
    """The share of one task: its keys (one array, or bytes and offsets) and the columns that belong to them."""

    task: int
    items: int
    arrays: tuple[np.ndarray, ...]


def shares(keys: Any, columns: Sequence[np.ndarray], tasks: int) -> Iterator[Share]:
    """The part of each of `tasks` tasks in these keys and columns; tasks without one are left out.

    Called by what an operator calls, as `returns.sent` is. WrongReturn for keys that are none, and for columns of
    another length than theirs.
    """
    try:
        checked = key_column(keys, is_pair(keys))
        groups = groups_of(checked)
    except (TypeError, ValueError) as error:
        raise given_wrongly("out.send_by_key", f"keys: {error}", "int64, or a pair of bytes and offsets") from error
    count = count_of(checked)
    if any(not array.ndim or len(array) != count for array in columns):
        lengths = [len(array) if array.ndim else "one value" for array in columns]
        raise given_wrongly("out.send_by_key", f"columns of lengths {lengths}", f"{count} rows each, one for a key")
    if tasks > GROUPS:
        raise given_wrongly("out.send_by_key", f"keys for {tasks} tasks", f"at most {GROUPS} tasks")
    if tasks == 1:
        yield from [Share(0, count, (*_flat(checked), *columns))] if count else []
        return
    order, bounds = dealt(groups, tasks)
    ends = bounds.tolist()
    for task in range(tasks):
        if ends[task] < ends[task + 1]:
            places = order[ends[task] : ends[task + 1]]
            arrays = (*_flat(keys_at(checked, places)), *(array[places] for array in columns))
            yield Share(task, len(places), arrays)


def _flat(keys: Any) -> tuple[np.ndarray, ...]:
    return keys if isinstance(keys, tuple) else (keys,)
