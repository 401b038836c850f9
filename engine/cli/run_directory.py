"""The directory that a job leaves its traces in: its name, what it starts with, and what is read back from it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codec.errors import ConfigError
from engine.cli.attempts import ATTEMPTS, resume_command

EVENTS = "events.jsonl"
LOGS = "logs"
SUMMARY = "summary.json"
TOPOLOGY = "topology.yaml"
COMPUTED = ("sinks",)
"""What a resolved topology adds, and no topology file may say."""


def make_run_directory(out: str | None, job: str, topology: Mapping[str, Any]) -> Path:
    """Make the directory (default `runs/JOB-TIME`, numbered if that exists) and write the resolved topology into it.

    ConfigError when the directory was asked for by name and holds something already, or cannot be written.
    """
    path = Path(out) if out else _fresh(Path("runs"), f"{job}-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            resume = f", or go on there with `{resume_command(path)}`" if (path / ATTEMPTS).exists() else ""
            raise ConfigError(f"--out {path}: the directory is not empty", f"name a new one{resume}")
        (path / LOGS).mkdir()
        with (path / TOPOLOGY).open("w") as stream:
            _write_yaml({key: value for key, value in topology.items() if key not in COMPUTED}, stream)
    except OSError as error:
        raise ConfigError(f"the run directory {path}: {error.strerror}", "name one that you may write to") from error
    return path.resolve()


def write_summary(run_dir: Path, summary: Mapping[str, Any]) -> None:
    """Write summary.json in one step, so that nobody ever reads half of it."""
    partial = run_dir / f".{SUMMARY}.partial"
    partial.write_text(json.dumps(summary, indent=2, default=str) + "\n")
    os.replace(partial, run_dir / SUMMARY)


def read_summary(run_dir: Path) -> dict[str, Any]:
    """The summary of the last attempt that lived to write one; empty when none did."""
    try:
        summary = json.loads((run_dir / SUMMARY).read_text())
    except (OSError, ValueError):
        return {}
    return summary if isinstance(summary, dict) else {}


def read_events(run_dir: Path) -> Iterator[dict[str, Any]]:
    """The events logged so far; a line that is still being written is left out."""
    try:
        text = (run_dir / EVENTS).read_text(errors="replace")
    except FileNotFoundError:
        return
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _fresh(folder: Path, name: str) -> Path:
    number = 1
    path = folder / name
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}"
    return path


def _write_yaml(values: Mapping[str, Any], stream: Any) -> None:
    from ruamel.yaml import YAML

    YAML(typ="rt").dump(dict(values), stream)  # the round-trip writer keeps the order of keys
