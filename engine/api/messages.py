"""The messages between a program and the launcher of its job, and the passing of errors between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riprap.codec.errors import ConfigError, DataError, JobFailed, RiprapError
from riprap.controller.messages import Message, sayable
from riprap.engine.services.limits import STANDBY_MAX

ORDER, KILL, CANCEL = "order", "kill", "cancel"
"""From the program: the first message, which names the job to run; SIGKILL for a worker or service; end the job now."""

STARTED, REFUSED, PROGRESS, KILLED, ENDED = "started", "refused", "progress", "killed", "ended"
"""From the launcher: the first is one of the first two, the last is `ended`."""

_ERRORS = {kind.__name__: kind for kind in (ConfigError, DataError, JobFailed, RiprapError)}


def of_error(error: RiprapError) -> dict[str, str]:
    """An error as part of a message, which has room for it: file names need be no text, and users' errors no end."""
    return {"kind": type(error).__name__, "error": sayable(str(error.args[0])), "remedy": sayable(error.remedy)}


def to_error(message: Mapping[str, Any]) -> RiprapError:
    """The error in a message; of a kind that is not known here, its base."""
    return _ERRORS.get(message["kind"], RiprapError)(message["error"], message["remedy"])


def order(
    faults: Sequence[str], zookeeper: str | None, zookeeper_auth: str | None, standby: int, program: int,
    hosts: int = 1, domains: Mapping[str, int] | None = None, **what: str | None,
) -> Message:  # fmt: skip
    """The order for the process `program`: `topology`, `out` and `classes` for a job that begins, or `resume`.

    ConfigError for values that no option of `riprap run` could have.
    """
    if standby not in range(STANDBY_MAX + 1):
        raise ConfigError(f"standby is {standby!r}", f"give a number of controllers from 0 to {STANDBY_MAX}")
    for name, value in {"zookeeper": zookeeper, "zookeeper_auth": zookeeper_auth, **what}.items():
        if value is not None and (not isinstance(value, str) or sayable(value) != value):
            raise ConfigError(f"{name} is {value!r}", "give text that can be written as UTF-8")
    if not (domains is None or (isinstance(domains, Mapping) and all(isinstance(label, str) for label in domains))):
        raise ConfigError(f"domains is {domains!r}", 'give each label and its number of values, as {"rack": 2}')
    return {
        "type": ORDER,
        "faults": [faults] if isinstance(faults, str) else list(map(str, faults)),
        "zookeeper": zookeeper,
        "zookeeper_auth": zookeeper_auth,
        "standby": standby,
        "program": program,
        "hosts": hosts,
        "domains": dict(domains or {}),
        **what,
    }
