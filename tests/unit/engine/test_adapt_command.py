"""`riprap adapt --every`: looks at a job's rates until it has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from riprap.codec.errors import ConfigError, RiprapError
from riprap.engine.cli import adapt


class Job:
    """A client of a job that runs for so many waits; notes what it is asked."""

    def __init__(self, waits: int) -> None:
        self.waits = waits
        self.asked: list[Sequence[str]] = []
        self.waited: list[float] = []

    def status(self, job: str) -> dict[str, Any]:
        return {"phase": "RUNNING" if self.waits else "COMPLETED"}

    def adapt(self, job: str, tasks: Sequence[str]) -> None:
        self.asked.append(tasks)

    def wait(self, job: str, timeout_s: float, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        self.waits = max(0, self.waits - 1)
        self.waited.append(timeout_s)
        if not until(self.status(job)):
            raise RiprapError("it is still RUNNING", "see its run directory")
        return self.status(job)


def look(gain: float, *tasks: str) -> SimpleNamespace:
    return SimpleNamespace(
        words=f"the best is {', '.join(tasks)}", gain=gain, running=("a.0",),
        report=SimpleNamespace(budget=1, tasks=list(tasks)),
    )  # fmt: skip


def looks(job: Job, found: list[Any], monkeypatch: pytest.MonkeyPatch) -> adapt._Looks:
    """One that finds these, in turn."""

    def measured(*_: Any) -> Any:
        one = found.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(adapt, "_measured", measured)
    return adapt._Looks(job, "job", None, None, 1.0, 0.01, False)  # type: ignore[arg-type]


def test_it_looks_again_until_the_job_has_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(waits=3)
    nothing = ConfigError("no link of job has carried an item in 1 s", "raise --measure-s")
    found = [look(0.2, "b.0"), nothing, look(0.001, "c.0"), look(1.0, "never")]
    looks(job, found, monkeypatch).go_on(60.0)
    said = capsys.readouterr()
    assert job.asked == [["b.0"]] and job.waited == [60.0] * 3
    assert len(found) == 1, "a job that has ended is not looked at"
    assert "nothing changes for less than 0.01" in said.out and said.out.endswith("job has ended\n")
    assert said.err.startswith("note: no link of job has carried an item in 1 s")


def test_a_job_that_ends_in_a_look_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(waits=1)

    def measured(*_: Any) -> Any:
        job.waits = 0
        raise ConfigError("job has ended", "")

    one = looks(job, [], monkeypatch)
    monkeypatch.setattr(adapt, "_measured", measured)
    one.go_on(60.0)
    assert not capsys.readouterr().err


def test_one_look_alone_tells_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no link"):
        looks(Job(waits=1), [ConfigError("no link", "")], monkeypatch).once()
