"""Runs a job that was begun to its end, and makes every error an error that says how to go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from riprap.codec.errors import JobFailed, RiprapError
from riprap.codec.files import no_space
from riprap.controller.ensemble import file_in_use
from riprap.engine.run.display import Display
from riprap.engine.run.session import Session
from riprap.engine.run.start import Start
from riprap.engine.run_directory.attempts import resume_command

Kill = Callable[[str], bool]


def run_to_end(
    start: Start, display: Display, zookeeper: str | None, standby: int,
    hand_out: Callable[[Kill], None] = lambda kill: None,
) -> tuple[dict[str, Any], JobFailed | None]:  # fmt: skip
    """The summary, and the error of a job that did not complete; other errors are raised with the same remedy.

    `hand_out` gets the function that kills a worker or service of the job, for use by any thread (`Injector.kill`).
    """
    resume = resume_of(start, zookeeper)
    try:
        session = Session(start, display, zookeeper, standby)
        hand_out(session.kill)
        summary = session.run()
    except RiprapError as error:
        error.remedy = _and_resume(error.remedy, resume)
        raise
    except OSError as error:
        if (full := no_space(error)) is None:
            raise
        full.remedy = _and_resume(full.remedy, resume)
        raise full from error
    if summary["completed"]:
        return summary, None
    status = session.status
    return summary, JobFailed(
        f"job {summary['job']} ended {status.get('phase')}: {status.get('error') or _incomplete(summary)}",
        _and_resume(status.get("remedy") or f"see {start.run_dir}/logs", resume),
    )


def _incomplete(summary: Mapping[str, Any]) -> str:
    """The reason why a job without an error of the controller's is not completed."""
    short = summary["shortfall"]
    if not short:
        return "no reason was given"
    return f"by its epochs.csv {short}; a report to the controller was wrong or forged"


def resume_of(start: Start, zookeeper: str | None) -> str:
    """The command that goes on with the job, empty when it cannot be resumed."""
    return "" if start.job.unprotected else resume_command(start.run_dir, zookeeper, file_in_use())


def _and_resume(remedy: str, resume: str) -> str:
    """A remedy, and the way to go on after it."""
    return f"{remedy.rstrip('.')}; go on where it ended with: {resume}" if resume else remedy
