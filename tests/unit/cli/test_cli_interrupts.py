"""An interrupt that comes while a job is taken down leaves no job without a summary."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from riprap.engine.cli import run as run_command
from riprap.engine.run import execute
from riprap.engine.run.display import NoDisplay
from riprap.engine.run.interrupts import INTERRUPTS, interrupted_later
from riprap.engine.run.session import Session
from riprap.engine.run_directory.directory import write_summary


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Signals interrupt, as in the command line, and do so again afterwards."""
    former = {signum: signal.signal(signum, signal.default_int_handler) for signum in INTERRUPTS}
    yield
    for signum, handler in former.items():
        assert signal.getsignal(signum) is signal.default_int_handler
        signal.signal(signum, handler)


class Ending(Session):
    """A session whose job has run, and is interrupted when its services are stopped."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._display, self._injector = NoDisplay(), SimpleNamespace(stop=lambda: None)  # type: ignore[assignment]
        self._services = SimpleNamespace(stop=interrupt)  # type: ignore[assignment]
        self._events = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]
        self._start = SimpleNamespace(lock=SimpleNamespace(close=lambda: None))  # type: ignore[assignment]
        self.summed_up = False

    def _run(self) -> None: ...

    def _remove_zookeeper_data(self) -> None: ...

    def _remove_part(self) -> None: ...

    def _sum_up(self) -> dict[str, Any]:
        self.summed_up = True
        return {}


@pytest.mark.parametrize("signum", INTERRUPTS)
def test_a_job_is_summed_up_before_an_interrupt_is_heard(signum: signal.Signals) -> None:
    session = Ending(lambda: signal.raise_signal(signum))
    with pytest.raises(KeyboardInterrupt):
        session.run()
    assert session.summed_up


def test_a_second_interrupt_is_heard_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), interrupted_later():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("somebody will not wait")


def test_what_the_process_ignores_it_goes_on_to_ignore() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupted_later():
        signal.raise_signal(signal.SIGHUP)
    assert signal.signal(signal.SIGHUP, former) is signal.SIG_IGN


@pytest.mark.parametrize("completed", [True, False])
def test_a_job_that_had_completed_when_it_was_interrupted_has_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], completed: bool
) -> None:
    def run_to_end(*_: Any) -> Any:
        write_summary(tmp_path, {"completed": completed})
        raise KeyboardInterrupt

    monkeypatch.setattr(execute, "run_to_end", run_to_end)
    start: Any = SimpleNamespace(run_dir=tmp_path, job=SimpleNamespace(unprotected="", cautions=()))
    if completed:
        run_command._run(start, None, 0, as_json=True)
        assert '"completed": true' in capsys.readouterr().out
    else:
        with pytest.raises(KeyboardInterrupt):
            run_command._run(start, None, 0, as_json=True)
        assert f"--resume {tmp_path}" in capsys.readouterr().err
