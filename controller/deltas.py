"""States sent again and again, each time only what changed since the message before; whole at first and after a gap.

A state is a map of maps and plain values. `changes` is {"+": values of new or changed keys, "~": changes of maps,
"-": keys that are gone}, each part only where it says something.
"""

from __future__ import annotations

from typing import Any

from riprap.codec.errors import FrameError
from riprap.controller import messages
from riprap.controller.messages import Message

DEPTH_MAX = 8
KEYS_MAX = 100_000  # of one map

State = dict[Any, Any]


class Gap(Exception):
    """A message builds on one that did not arrive: the sender must send the whole state."""


class Writer:
    """The sending end. States must not be changed after they were given to `encode`."""

    def __init__(self) -> None:
        self._number = 0
        self._state: State | None = None

    def restart(self) -> None:
        """The next message holds the whole state: somebody else reads it, or may have missed one."""
        self._state = None

    def encode(self, number: int, state: State) -> Message:
        """The fields of message `number`; one that is sent again, under its old number, is whole."""
        base, before = self._number, self._state
        self._number, self._state = number, state
        if before is None or number <= base:
            return {"number": number, "whole": state}
        return {"number": number, "base": base, "changes": difference(before, state)}


class DeltaReader:
    """The receiving end; keeps the newest state."""

    def __init__(self) -> None:
        self.number = 0
        self.state: State = {}

    def decode(self, message: Message) -> State | None:
        """The whole state after a message; None for an old one. Raises Gap, and FrameError for what is malformed."""
        number = messages.count(message, "number")
        if number < self.number:
            return None
        if "whole" in message:
            state = messages.mapping(message, "whole")
        elif number == self.number:
            return None
        elif messages.count(message, "base") != self.number or not self.number:
            raise Gap
        else:
            state = applied(self.state, message.get("changes"))
        self.number, self.state = number, state
        return state


def difference(before: State, after: State) -> State:
    """The changes that turn `before` into `after`; empty when they are equal."""
    new: State = {}
    changed: State = {}
    for key, value in after.items():
        old = before.get(key)
        if old is value and key in before:
            continue
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := difference(old, value):
                changed[key] = inner
        elif old != value or key not in before:
            new[key] = value
    gone = [key for key in before if key not in after]
    return {mark: part for mark, part in (("+", new), ("~", changed), ("-", gone)) if part}


def applied(before: Any, changes: Any, depth: int = 0) -> State:
    """`before` with changes made, in maps of its own where something changed. Raises FrameError for malformed ones."""
    if not isinstance(changes, dict) or depth > DEPTH_MAX or not isinstance(before, dict):
        raise FrameError("the changes of a state are maps, and of maps")
    new, changed, gone = messages.mapping(changes, "+"), messages.mapping(changes, "~"), changes.get("-", [])
    if not isinstance(gone, list) or len(before) + len(new) > KEYS_MAX or not all(isinstance(k, str) for k in gone):
        raise FrameError("the changes of a state drop keys that are no keys, or add too many")
    after = {**before, **new}
    for key, inner in changed.items():
        after[key] = applied(before.get(key), inner, depth + 1)
    for key in gone:
        after.pop(key, None)
    return after
