"""The condition by which `riprap run --until` drains a stream without end."""

from __future__ import annotations

import re
from dataclasses import dataclass

from riprap.codec.errors import ConfigError


@dataclass(frozen=True)
class Until:
    """Enough items are committed, or seconds of the run have passed; the job ends some windows later."""

    kind: str
    value: float

    @classmethod
    def parse(cls, text: str) -> Until:
        """Read items=N or seconds=S; ConfigError."""
        match = re.fullmatch(r"(items)=(\d+)|(seconds)=(\d+(?:\.\d+)?)", text)
        if match is None:
            raise ConfigError(f"--until {text!r} is neither items=N nor seconds=S", "for example --until items=1000000")
        kind, value = [group for group in match.groups() if group]
        return cls(kind, float(value))

    def is_reached(self, items: int, seconds: float) -> bool:
        """True when it is time to drain."""
        return (items if self.kind == "items" else seconds) >= self.value
