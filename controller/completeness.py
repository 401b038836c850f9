"""Compares the commits of the sinks with the known length of the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from riprap.codec.errors import ConfigError


class Account(NamedTuple):
    """The commits of one sink: its last epoch, and the items of all its epochs, those that stay lost among them."""

    epoch: int
    items: int


@dataclass(frozen=True, slots=True)
class Expected:
    """The length of a job's stream; None where it is not known.

    `items` are those of all sources (input times repeat, up to the limit). Every destination
    closes so many `windows`.
    """

    items: int | None = None
    windows: int | None = None

    @classmethod
    def from_topology(cls, topology: Mapping[str, Any]) -> Expected:
        """The length that the submitter found when it opened the input; ConfigError for anything but a count."""
        schema = topology.get("schema") or {}
        given = {name: schema.get(name) for name in ("items", "windows")}
        for name, value in given.items():
            if value is not None and (value.__class__ is not int or value < 0):
                raise ConfigError(f"schema.{name} is {value!r}, not a count", "use `riprap run` or `riprap submit`")
        if "columns" not in schema and "none" in _schemes(topology):
            given["items"] = None  # a destination that died may have known of items in windows that were still open
        if (topology.get("fault_tolerance") or {}).get("reconcile") is False:
            given["items"] = None  # windows are closed without what comes too late
        return cls(**given)

    def shortfall(self, accounts: Sequence[Account]) -> str:
        """The fault in the accounts of all sinks, in words; empty when they add up."""
        items = sum(account.items for account in accounts)
        if self.windows is not None and (behind := [a.epoch for a in accounts if a.epoch != self.windows]):
            return f"a destination has closed {behind[0]:,} of {self.windows:,} windows"
        if self.items is not None and items != self.items:
            return f"{items:,} of {self.items:,} items are accounted for"
        return ""


def _schemes(topology: Mapping[str, Any]) -> set[Any]:
    """The schemes of the job and of its stages."""
    sections = [topology, *(topology.get("stages") or {}).values()]
    return {(section.get("fault_tolerance") or {}).get("scheme") for section in sections}
