"""`riprap down`: stops the services that `riprap up` started on this host."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import click

from riprap.codec.errors import RiprapError
from riprap.engine.services.state import alone, forget_jobs, read_state, remove_state, state_folder

STOP_TIMEOUT_MS = 15_000


@click.command("down")
def command() -> None:
    """Stop the cluster services of this host; jobs that run on them end, and are forgotten.

    Without it they would go on: whatever else ended the services, the next `riprap up` brings the jobs back.

    \b
    Example:
      riprap down
    """
    state = read_state()
    if state is None:
        _forget_jobs(state_folder())
        click.echo("nothing is up on this host")
        return
    try:
        supervisor = os.pidfd_open(state.pid)
        signal.pidfd_send_signal(supervisor, signal.SIGTERM)
        ended = select.poll()
        ended.register(supervisor, select.POLLIN)
        if not ended.poll(STOP_TIMEOUT_MS):
            signal.pidfd_send_signal(supervisor, signal.SIGKILL)
            raise RiprapError(f"the supervisor {state.pid} did not stop in time and was killed", f"see {state.folder}")
    except ProcessLookupError:
        remove_state()
    _forget_jobs(Path(state.folder))
    click.echo("down")


def _forget_jobs(folder: Path) -> None:
    """ConfigError when services are being started there."""
    if folder.is_dir():
        with alone(folder):
            forget_jobs(folder)
