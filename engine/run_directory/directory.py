"""The directory of a job's traces: its name, its first files, and those read back from it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.events import events_in
from riprap.codec.files import no_space, replace
from riprap.codec.json_text import from_json, to_json
from riprap.configs.document import BYTES_MAX, written_document
from riprap.engine.run_directory.attempts import ATTEMPTS, go_on_command

EVENTS = "events.jsonl"
LOGS = "logs"
SCHEMA = "schema.json"
SUMMARY = "summary.json"
TOPOLOGY = "topology.yaml"
COMPUTED = ("sinks", "copies", "wanted")
"""Fields that a resolved topology adds, and no topology file may hold."""


def check_is_free(path: Path) -> None:
    """ConfigError where a run directory that was asked for by name holds something already."""
    if path.is_dir() and any(path.iterdir()):
        resume = f", or go on there with `{go_on_command(path)}`" if (path / ATTEMPTS).exists() else ""
        raise ConfigError(f"--out {path}: the directory is not empty", f"name a new one{resume}")


def make_run_directory(
    out: str | None, job: str, topology: Mapping[str, Any], schema: Mapping[str, Any] | None = None
) -> Path:
    """Make the directory (default `runs/JOB-TIME`, numbered if that exists) and write the resolved topology into it.

    `schema` are the columns of the input and its label, which results are shown with when the input has gone.

    ConfigError when the directory was asked for by name and holds something already, or cannot be written, and for a
    topology that could not be read from there.
    """
    text = _written_out({key: value for key, value in topology.items() if key not in COMPUTED})
    path = Path(out or Path("runs", f"{job}-{time.strftime('%Y%m%d-%H%M%S')}"))
    _check_is_text(path.absolute())
    try:
        path = path if out else _make_fresh(path)
        path.mkdir(parents=True, exist_ok=True)
        check_is_free(path)
        (path / LOGS).mkdir()
        replace(path / TOPOLOGY, text)
        if schema is not None:
            replace(path / SCHEMA, to_json(schema) + "\n")
    except OSError as error:
        if full := no_space(error):
            _unmake(path)
            raise full from error
        raise ConfigError(f"the run directory {path}: {error.strerror}", "name one that you may write to") from error
    return path.resolve()


def _check_is_text(path: Path) -> None:
    """ConfigError for a name that neither messages nor files of text could hold."""
    if "\0" in str(path) or str(path).encode(errors="replace").decode() != str(path):
        raise ConfigError(f"the run directory {str(path)!r} is not named in UTF-8", "name another one")


def _unmake(path: Path) -> None:
    """Take back all that was made, so that the same command works once there is room."""
    with suppress(OSError):
        (path / TOPOLOGY).unlink(missing_ok=True)
        (path / LOGS).rmdir()
        path.rmdir()


def write_summary(run_dir: Path, summary: Mapping[str, Any]) -> None:
    """Write summary.json in one step, so that nobody ever reads half of it."""
    replace(run_dir / SUMMARY, to_json(summary, indent=2) + "\n")


def read_summary(run_dir: Path) -> dict[str, Any]:
    """The summary of the last attempt that lived to write one; empty when none did."""
    try:
        summary = from_json((run_dir / SUMMARY).read_text())
    except (OSError, ValueError):
        return {}
    return summary if isinstance(summary, dict) else {}


def read_events(run_dir: Path) -> Iterator[dict[str, Any]]:
    """The events logged so far, as far as they are kept (codec/events.py)."""
    return events_in(run_dir / EVENTS)


def _make_fresh(path: Path) -> Path:
    """A directory that was not there before, `path` or numbered: another run of this second makes its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbered = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([path], numbered) if _is_made(one))


def _is_made(path: Path) -> bool:
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True


def _written_out(values: Mapping[str, Any]) -> bytes:
    """The resolved topology, a value a line; the file that it is from may have been shorter."""
    text = written_document(dict(values)).encode()
    if len(text) > BYTES_MAX:
        raise ConfigError(
            f"the topology is larger than {BYTES_MAX} bytes when its values are written out, a line each",
            "have the operator read long lists from a file, and name that in its options",
        )
    return text
