"""The language of faults: reads `--fault ACTION:TARGET@WHEN[,for=DURATION][,cpu=FRACTION]`, without doing it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.configs.problems import suggestion
from riprap.controller.faults import Fault, When
from riprap.controller.victims import PRIMARIES, is_group

GRAMMAR = """\
ACTION:TARGET@WHEN[,for=DURATION][,cpu=FRACTION]
    ACTION   kill (SIGKILL), stop (SIGSTOP, and SIGCONT after `for`), slow (a fraction of CPU)
    TARGET   a worker such as processor.2, random:STAGE, agent, controller, backup (backup.2, ...), zookeeper;
             host:NAME or domain:LABEL=VALUE (their agents with all workers), stage:NAME, primaries (all workers)
    WHEN     epoch=N (N epochs are committed), items=N, seconds=S (since the first item), N% (of all items)
    DURATION 500ms, 5s, 2m"""
EXAMPLE = "write for example kill:processor.2@epoch=3 or stop:random:processor@25%,for=3s"

ACTIONS = ("kill", "stop", "slow", "cut")
"""`cut` (no traffic) is understood and always refused here: it takes a worker that has a network of its own."""
SERVICES = ("agent", "controller", "backup", "zookeeper")
UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0}
CPU_DEFAULT = 0.1
DURATION_MAX_S = 3600.0

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_WHEN = re.compile(rf"(?:(epoch|items)=([0-9]+)|(seconds)=({_NUMBER})|({_NUMBER})(%))")
_DURATION = re.compile(rf"({_NUMBER})(ms|s|m)")


def parse_fault(text: str) -> Fault:
    """Read one SPEC; ConfigError names the spec, the part that is wrong, and the grammar."""
    head, *options = text.strip().split(",")
    action, _, rest = head.partition(":")
    target, at, when = rest.partition("@")
    if action not in ACTIONS:
        raise _wrong(text, f"unknown action {action!r}", suggestion(action, ACTIONS))
    if not at:
        raise _wrong(text, "it names no moment")
    moment = _parse_when(text, when)
    given = _parse_options(text, options)
    _check_options(text, action, given)
    cpu = given.get("cpu", CPU_DEFAULT) if action == "slow" else 0.0
    return Fault(action, _parse_target(text, target), moment, given.get("for", 0.0), cpu)


def faults_of_file(content: Any, file: str) -> list[str]:
    """The SPECs of a faults file: a list of texts, or a mapping with that list under `faults`."""
    specs = content.get("faults") if isinstance(content, dict) else content
    if not isinstance(specs, list) or not all(isinstance(spec, str) for spec in specs):
        raise ConfigError(f"{file}: expected a list of faults, each\n  {GRAMMAR}", EXAMPLE)
    return specs


def _wrong(text: str, what: str, remedy: str = "") -> ConfigError:
    return ConfigError(f"fault {text!r}: {what}; expected\n  {GRAMMAR}", remedy or EXAMPLE)


def _parse_when(text: str, when: str) -> When:
    match = _WHEN.fullmatch(when)
    if not match:
        raise _wrong(text, f"{when!r} is not a moment")
    kind, value = next((k, v) for k, v in ((match[1], match[2]), (match[3], match[4]), (match[6], match[5])) if k)
    if kind == "%" and float(value) > 100:
        raise _wrong(text, f"{when} is more than all items")
    return When(kind, float(value))


def _parse_target(text: str, target: str) -> str:
    if target in SERVICES or is_group(target) or re.fullmatch(r"random:[a-z][a-z0-9_]*", target):
        return target
    try:
        return str(WorkerId.parse(target))
    except ValueError:
        raise _wrong(text, f"{target!r} is not a target", suggestion(target, (*SERVICES, PRIMARIES))) from None


def _parse_options(text: str, options: Iterable[str]) -> dict[str, float]:
    given: dict[str, float] = {}
    for option in options:
        name, _, value = option.strip().partition("=")
        if name not in ("for", "cpu") or name in given:
            raise _wrong(text, f"{option!r} is not an option, or was given twice")
        given[name] = _parse_duration(text, value) if name == "for" else _parse_cpu(text, value)
    return given


def _parse_duration(text: str, value: str) -> float:
    match = _DURATION.fullmatch(value)
    seconds = float(match[1]) * UNITS_S[match[2]] if match else 0.0
    if not 0.001 <= seconds <= DURATION_MAX_S:
        raise _wrong(text, f"for={value} is not a duration between 1ms and {DURATION_MAX_S:.0f}s")
    return seconds


def _parse_cpu(text: str, value: str) -> float:
    cpu = float(value) if re.fullmatch(_NUMBER, value) else 0.0
    if not 0.01 <= cpu < 1:
        raise _wrong(text, f"cpu={value} is not a fraction from 0.01 to below 1")
    return cpu


def _check_options(text: str, action: str, given: dict[str, float]) -> None:
    if "cpu" in given and action != "slow":
        raise _wrong(text, f"{action} takes no cpu")
    if "for" in given and action == "kill":
        raise _wrong(text, "kill takes no duration, for what is killed stays dead", "leave out the for=")
    if "for" not in given and action != "kill":
        raise _wrong(text, f"{action} needs a duration", f"add for example ,for=3s to {text}")
