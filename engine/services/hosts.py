"""The hosts that a launcher has agents for: this machine, or several that it pretends to be, to try out their loss."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from riprap.codec.errors import ConfigError
from riprap.codec.ids import LABEL_PART
from riprap.controller.labels import HOST, HostLabels, labelled
from riprap.engine.services.limits import HOSTS_MAX


@dataclass(frozen=True)
class OwnHost:
    """A host whose agent runs here: its name, and its labels besides that."""

    name: str
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> HostLabels:
        """All its labels."""
        return labelled(self.name, self.given)


def this_host(labels: Mapping[str, str] | None = None) -> OwnHost:
    """This machine under its own name."""
    return OwnHost(socket.gethostname(), labels or {})


def pretended_hosts(count: int, domains: Sequence[str]) -> tuple[OwnHost, ...]:
    """`count` hosts called host-1, host-2, ...; `domains` are texts LABEL=N: N values of the label, dealt round.

    With `rack=2` they are rack=rack-1, rack=rack-2, rack=rack-1, ... ConfigError lists all that is wrong.
    """
    if count not in range(1, HOSTS_MAX + 1):
        raise ConfigError(f"this machine cannot act as {count} hosts", f"give a number from 1 to {HOSTS_MAX}")
    numbers: dict[str, int] = {}
    problems = []
    for text in domains:
        key, _, number = text.partition("=")
        if not LABEL_PART.fullmatch(key) or key == HOST or not re.fullmatch("0*[1-9][0-9]{0,8}", number):
            problems.append(f"{text!r} is not LABEL=NUMBER with a label other than {HOST}")
        elif key in numbers:
            problems.append(f"{text!r}: {key} is given twice")
        elif int(number) > count:
            problems.append(f"{text!r}: {count} hosts cannot have {number} values of a label")
        else:
            numbers[key] = int(number)
    if problems:
        remedy = "write for example --hosts 4 --domains rack=2, for host-1 and host-3 in rack-1, the others in rack-2"
        raise ConfigError("--domains " + "\n--domains ".join(problems), remedy)
    return tuple(
        OwnHost(f"{HOST}-{index + 1}", {key: f"{key}-{index % number + 1}" for key, number in numbers.items()})
        for index in range(count)
    )
