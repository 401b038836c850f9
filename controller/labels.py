"""The labels of hosts, such as rack=r1, by which failure domains are named.

Hosts that have a label with the same value may fail together. Every host has the label `host`, which is its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from riprap.codec.errors import ConfigError, FrameError
from riprap.codec.ids import LABEL_PART

HOST = "host"
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
LABELS_MAX = 16

HostLabels = Mapping[str, str]
"""By key the value, `host` among them."""


def labelled(host: str, labels: Mapping[str, str]) -> HostLabels:
    """All labels of a host: those given, and its name."""
    return {**labels, HOST: host}


def read_labels(texts: Iterable[str]) -> dict[str, str]:
    """The labels in texts KEY=VALUE; ConfigError lists all that are none."""
    labels: dict[str, str] = {}
    problems = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not LABEL_PART.fullmatch(key) or not LABEL_PART.fullmatch(value):
            problems.append(f"{text!r} is not KEY=VALUE, each of letters, digits, dots, - and _, at most 63 of them")
        elif key == HOST:
            problems.append(f"{text!r}: every host has the label {HOST} already, which is its name")
        elif key in labels:
            problems.append(f"{text!r}: {key} is {labels[key]} already")
        else:
            labels[key] = value
    if len(labels) > LABELS_MAX:
        problems.append(f"{len(labels)} labels, and a host has at most {LABELS_MAX}")
    if problems:
        raise ConfigError("--label " + "\n--label ".join(problems), "write for example --label rack=r1 --label power=a")
    return labels


def check_labels(labels: Mapping[Any, Any]) -> dict[str, str]:
    """Labels as an agent sent them; FrameError for what `read_labels` would not have made."""
    for part in (*labels.keys(), *labels.values()):
        if not isinstance(part, str) or not LABEL_PART.fullmatch(part):
            raise FrameError("labels are texts, by texts")
    if HOST in labels or len(labels) > LABELS_MAX:
        raise FrameError("labels of an agent are too many, or name its host")
    return dict(labels)


def in_words(labels: HostLabels) -> str:
    """The labels besides the host's name, as they are given to agents."""
    return " ".join(f"{key}={value}" for key, value in labels.items() if key != HOST)
